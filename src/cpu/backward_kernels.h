// What one destination's updates get of its gradient: a kernel a reduction.
#pragma once

#include <algorithm>
#include <complex>

#include "core/isa.h"
#include "cpu/indexed_backward.h"
#include "cpu/map_block.h"
#include "transfer/canonical.h"

namespace sow::detail {

// The updates of one destination in the order of the contract.
struct PlaceUpdates {
  const uint32_t* codes;
  int64_t count;
  int64_t lowest, step;
  int64_t offset(int64_t i) const { return lowest + static_cast<int64_t>(codes[i]) * step; }
};

inline constexpr int kColumns = 64;  // of a row that are worked on together

// The row's columns in pieces, each with element offsets from the row's first.
struct RowWalk {
  int64_t size, dst, src;
  explicit RowWalk(const Axis& row) : size(row.size), dst(row.dst), src(row.src) {}
  template <class F>
  void each(F&& f) const {
    for (int64_t at = 0; at < size; at += kColumns) {
      f(at, static_cast<int>(std::min<int64_t>(kColumns, size - at)));
    }
  }
};

// Calls kernel.body<Unit>(...) compiled for the machine's vector instructions. Unit: the row's
// elements lie side by side in every tensor.
template <int Unit, class K>
SOW_TARGET_AVX2 void body_avx2(const K& kernel, int64_t place, int64_t shift, int columns,
                               const PlaceUpdates& updates) {
  kernel.template body<Unit>(place, shift, columns, updates);
}
template <int Unit, class K>
SOW_TARGET_AVX512 void body_avx512(const K& kernel, int64_t place, int64_t shift, int columns,
                                   const PlaceUpdates& updates) {
  kernel.template body<Unit>(place, shift, columns, updates);
}
template <int Unit, class K>
void body_portable(const K& kernel, int64_t place, int64_t shift, int columns,
                   const PlaceUpdates& updates) {
  kernel.template body<Unit>(place, shift, columns, updates);
}

template <class K>
void run_row(const K& kernel, int64_t place, const PlaceUpdates& updates) {
  using Body = void (*)(const K&, int64_t, int64_t, int, const PlaceUpdates&);
  static constexpr Body kUnit[] = {body_portable<1, K>, body_avx2<1, K>, body_avx512<1, K>};
  const RowWalk& row = kernel.row;
  const bool unit = row.src == 1 && row.dst == 1;
  const Body body = unit ? kUnit[static_cast<int>(kernel.isa)] : Body(body_portable<0, K>);
  row.each([&](int64_t first, int columns) {
    body(kernel, place + first * row.dst, first * row.src, columns, updates);
  });
}

template <class T>
using Wide = std::conditional_t<is_complex_number<T>, std::complex<double>, double>;

template <class T>
[[gnu::always_inline]] inline Wide<T> widened(T value) {
  return static_cast<Wide<T>>(value);
}

// g / count in float64, rounded once.
template <class T>
[[gnu::always_inline]] inline T shared(T grad, int64_t count) {
  return static_cast<T>(
      plain_nan<Wide<T>>(widened(grad) / static_cast<double>(std::max<int64_t>(count, 1))));
}

template <class T>
struct AssignKernel {
  AssignKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        grad(reinterpret_cast<const T*>(work.grad)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<T*>(work.source_grad)) {}

  void operator()(int64_t place, const PlaceUpdates& updates) const {
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      T* to = source_grad + updates.offset(i);
      const T* from = i + 1 == updates.count ? grad + place : nullptr;
      for (int64_t c = 0; c < row.size; ++c) to[c * row.src] = from ? from[c * row.dst] : T(0);
    }
    for (int64_t c = 0; x_grad != nullptr && c < row.size; ++c) x_grad[place + c * row.dst] = T(0);
  }

  RowWalk row;
  const T* grad;
  T* x_grad;
  T* source_grad;
};

template <class T>
struct MeanKernel {
  MeanKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        self(work.include_self),
        grad(reinterpret_cast<const T*>(work.grad)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<T*>(work.source_grad)) {}

  void operator()(int64_t place, const PlaceUpdates& updates) const {
    const int64_t count = updates.count + self;
    row.each([&](int64_t first, int columns) {
      T part[kColumns];
      for (int c = 0; c < columns; ++c)
        part[c] = shared(grad[place + (first + c) * row.dst], count);
      for (int c = 0; x_grad != nullptr && c < columns; ++c) {
        x_grad[place + (first + c) * row.dst] = self ? part[c] : T(0.0f);
      }
      for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
        T* to = source_grad + updates.offset(i) + first * row.src;
        for (int c = 0; c < columns; ++c) to[c * row.src] = part[c];
      }
    });
  }

  RowWalk row;
  bool self;
  const T* grad;
  T* x_grad;
  T* source_grad;
};

// The bits of a value, with every NaN made one: equal bits are what a tie is.
template <class T>
[[gnu::always_inline]] inline auto tie_bits(T value) {
  if constexpr (sizeof(T) == 2) {
    const float wide = static_cast<float>(value);
    return wide == wide ? uint32_t{value.bits} : 0xffffffffu;
  } else {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    Bits bits;
    std::memcpy(&bits, &value, sizeof(T));
    return value == value ? bits : static_cast<Bits>(~Bits{0});
  }
}

template <class T>
struct ExtremeKernel {
  using Bits = decltype(tie_bits(T()));

  ExtremeKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        self(work.include_self),
        grad(reinterpret_cast<const T*>(work.grad)),
        result(reinterpret_cast<const T*>(work.result)),
        x(reinterpret_cast<const T*>(work.x)),
        source(reinterpret_cast<const T*>(work.source)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<T*>(work.source_grad)) {}

  void operator()(int64_t place, const PlaceUpdates& updates) const {
    run_row(*this, place, updates);
  }

  template <int Unit>
  [[gnu::always_inline]] void body(int64_t place, int64_t shift, int columns,
                                   const PlaceUpdates& updates) const {
    const int64_t to_dst = Unit ? 1 : row.dst, to_src = Unit ? 1 : row.src;
    Bits best[kColumns];
    Bits ties[kColumns];
    T part[kColumns];
    for (int c = 0; c < columns; ++c) {
      best[c] = tie_bits(result[place + c * to_dst]);
      ties[c] = self && tie_bits(x[place + c * to_dst]) == best[c];
    }
    for (int64_t i = 0; i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      for (int c = 0; c < columns; ++c) ties[c] += tie_bits(from[c * to_src]) == best[c];
    }
    for (int c = 0; c < columns; ++c) {
      part[c] = shared(grad[place + c * to_dst], static_cast<int64_t>(ties[c]));
    }
    for (int c = 0; x_grad != nullptr && c < columns; ++c) {
      const bool attains = self && tie_bits(x[place + c * to_dst]) == best[c];
      x_grad[place + c * to_dst] = attains ? part[c] : T(0.0f);
    }
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      T* __restrict to = source_grad + updates.offset(i) + shift;
      for (int c = 0; c < columns; ++c) {
        const bool attains = tie_bits(from[c * to_src]) == best[c];
        to[c * to_src] = attains ? part[c] : T(0.0f);
      }
    }
  }

  RowWalk row;
  Isa isa = current_isa();
  bool self;
  const T *grad, *result, *x, *source;
  T *x_grad, *source_grad;
};

template <class T>
struct ProductKernel {
  using A = Wide<T>;
  static constexpr int64_t kChunk = 256;  // of the contract: chunks of updates are multiplied apart

  ProductKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        self(work.include_self),
        grad(reinterpret_cast<const T*>(work.grad)),
        x(reinterpret_cast<const T*>(work.x)),
        source(reinterpret_cast<const T*>(work.source)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<T*>(work.source_grad)) {}

  void operator()(int64_t place, const PlaceUpdates& updates) const {
    run_row(*this, place, updates);
  }

  [[gnu::always_inline]] static A factor(T value) {
    if constexpr (is_complex_number<T>)
      return std::conj(widened(value));
    else
      return widened(value);
  }

  // The derivative by a factor of which `zeros` destinations' factors in all are zero.
  [[gnu::always_inline]] static T others(A f, int64_t zeros, A weighted) {
    const bool is_zero = f == A(0);
    const A value = quotient(weighted, is_zero ? A(1) : f);
    return zeros == static_cast<int64_t>(is_zero) ? static_cast<T>(plain_nan<A>(value)) : T(0.0f);
  }

  template <int Unit>
  [[gnu::always_inline]] void body(int64_t place, int64_t shift, int columns,
                                   const PlaceUpdates& updates) const {
    const int64_t to_dst = Unit ? 1 : row.dst, to_src = Unit ? 1 : row.src;
    A weighted[kColumns];
    int64_t zeros[kColumns];
    for (int c = 0; c < columns; ++c) {
      const A f = self ? factor(x[place + c * to_dst]) : A(1);
      zeros[c] = f == A(0);
      weighted[c] = f == A(0) ? A(1) : f;
    }
    for (int64_t begin = 0; begin < updates.count; begin += kChunk) {
      A chunk[kColumns];
      for (int c = 0; c < columns; ++c) chunk[c] = A(1);
      const int64_t end = std::min(begin + kChunk, updates.count);
      for (int64_t i = begin; i < end; ++i) {
        const T* from = source + updates.offset(i) + shift;
        for (int c = 0; c < columns; ++c) {
          const A f = factor(from[c * to_src]);
          const bool is_zero = f == A(0);
          zeros[c] += is_zero;
          chunk[c] = product(chunk[c], is_zero ? A(1) : f);
        }
      }
      const bool alone = begin == 0 && !self;  // 1 * x is not x for signed zeros in complex numbers
      for (int c = 0; c < columns; ++c)
        weighted[c] = alone ? chunk[c] : product(weighted[c], chunk[c]);
    }
    for (int c = 0; c < columns; ++c) {
      weighted[c] = product(widened(grad[place + c * to_dst]), plain_nan<A>(weighted[c]));
    }
    for (int c = 0; x_grad != nullptr && c < columns; ++c) {
      const int64_t at = place + c * to_dst;
      x_grad[at] = self ? others(factor(x[at]), zeros[c], weighted[c]) : T(0.0f);
    }
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      T* __restrict to = source_grad + updates.offset(i) + shift;
      for (int c = 0; c < columns; ++c) {
        to[c * to_src] = others(factor(from[c * to_src]), zeros[c], weighted[c]);
      }
    }
  }

  RowWalk row;
  // GCC 12 fuses the products of complex numbers in vector code, whatever it is told.
  Isa isa = is_complex_number<T> ? Isa::portable : current_isa();
  bool self;
  const T *grad, *x, *source;
  T *x_grad, *source_grad;
};

}  // namespace sow::detail

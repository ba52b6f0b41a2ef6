// SPDX-License-Identifier: Apache-2.0
// What one destination's updates get of its gradient: a kernel per reduction.
#pragma once

#include <algorithm>
#include <complex>

#include "core/exact/exact_checked.h"
#include "core/isa.h"
#include "cpu/backward/extreme_grad.h"
#include "cpu/copy/move_run.h"
#include "cpu/map/map_block.h"
#include "transfer/canonical.h"
#include "transfer/indexed_backward.h"

namespace sow::detail {

// The updates of one destination in the order of the contract.
struct PlaceUpdates {
  const uint32_t* ids;
  int64_t count;
  int64_t visible;  // ids there are from the first on: later destinations' come after
  int64_t lowest, step;
  int64_t offset(int64_t i) const { return lowest + static_cast<int64_t>(ids[i]) * step; }
};

inline constexpr int kColumns = 64;  // of a row that are worked on together

// The row's columns in pieces, each with element offsets from the row's first.
struct RowWalk {
  int64_t size, dst, src;
  bool streams = false;  // the sources' gradients are larger than the caches
  explicit RowWalk(const Axis& row) : size(row.size), dst(row.dst), src(row.src) {}
  template <class F>
  void each(F&& f) const {
    for (int64_t at = 0; at < size; at += kColumns) {
      f(at, static_cast<int>(std::min<int64_t>(kColumns, size - at)));
    }
  }
};

// Writes a piece of a row of the sources' gradient.
template <int Unit, class T>
[[gnu::always_inline]] inline void put(const RowWalk& row, T* to, const T* values, int columns) {
  if constexpr (Unit) {
    if (row.streams) {
      stream_run(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(values),
                 static_cast<size_t>(columns) * sizeof(T));
    } else {
      __builtin_memcpy(to, values, static_cast<size_t>(columns) * sizeof(T));
    }
  } else {
    for (int c = 0; c < columns; ++c) to[c * row.src] = values[c];
  }
}

template <int Locality, class T>
[[gnu::always_inline]] inline void prefetch_row(const T* row, int columns) {
  const char* at = reinterpret_cast<const char*>(row);
  const int64_t bytes = columns * int64_t{sizeof(T)};
  for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(at + byte, 0, Locality);
  // Rows that begin inside a line, as NumPy's do, end in one more.
  __builtin_prefetch(at + bytes - 1, 0, Locality);
}

// Asks for source rows that will be read later, maybe for other destinations: into the second-level
// cache much earlier than into the first.
template <class T>
[[gnu::always_inline]] inline void prefetch_ahead(const T* source, const PlaceUpdates& updates,
                                                  int64_t i, int64_t shift, int columns) {
  constexpr int64_t kNear = 16, kFar = 60;
  if (i + kFar < updates.visible)
    prefetch_row<2>(source + updates.offset(i + kFar) + shift, columns);
  if (i + kNear < updates.visible)
    prefetch_row<3>(source + updates.offset(i + kNear) + shift, columns);
}

// Rows of a destination that comes soon.
template <class T>
[[gnu::always_inline]] inline void prefetch_row_at(const RowWalk& row, const T* of, int64_t place) {
  if (of != nullptr && row.dst == 1) {
    prefetch_row<3>(of + place, static_cast<int>(std::min<int64_t>(row.size, 4 * kColumns)));
  }
}

// Calls kernel.body<Unit, Columns>(...) compiled for the machine's vector instructions. Unit: the
// row's elements lie side by side in every tensor. Columns: how many, if the compiler may know.
template <int Unit, int Columns, class K>
SOW_TARGET_AVX2 void body_avx2(const K& kernel, int64_t place, int64_t shift, int columns,
                               const PlaceUpdates& updates) {
  kernel.template body<Unit, Columns>(place, shift, columns, updates);
}
template <int Unit, int Columns, class K>
SOW_TARGET_AVX512 void body_avx512(const K& kernel, int64_t place, int64_t shift, int columns,
                                   const PlaceUpdates& updates) {
  kernel.template body<Unit, Columns>(place, shift, columns, updates);
}
template <int Unit, int Columns, class K>
void body_portable(const K& kernel, int64_t place, int64_t shift, int columns,
                   const PlaceUpdates& updates) {
  kernel.template body<Unit, Columns>(place, shift, columns, updates);
}

// Columns [first, first + columns) of a row.
template <class K>
void run_chunk(const K& kernel, int64_t place, int64_t first, int columns,
               const PlaceUpdates& updates) {
  using Body = void (*)(const K&, int64_t, int64_t, int, const PlaceUpdates&);
  static constexpr Body kWhole[] = {body_portable<1, kColumns, K>, body_avx2<1, kColumns, K>,
                                    body_avx512<1, kColumns, K>};
  const RowWalk& row = kernel.row;
  const bool unit = row.src == 1 && row.dst == 1;
  Body body = unit ? Body(body_portable<1, 0, K>) : Body(body_portable<0, 0, K>);
  if (unit && columns == kColumns) body = kWhole[static_cast<int>(kernel.isa)];
  body(kernel, place + first * row.dst, first * row.src, columns, updates);
}

template <class K>
void run_row(const K& kernel, int64_t place, const PlaceUpdates& updates) {
  kernel.row.each(
      [&](int64_t first, int columns) { run_chunk(kernel, place, first, columns, updates); });
}

template <class T>
using Wide = std::conditional_t<is_complex_number<T>, std::complex<double>, double>;

template <class T>
[[gnu::always_inline]] inline Wide<T> widened(T value) {
  return static_cast<Wide<T>>(value);
}

// plain_nan and a choice between two numbers, by their bits: GCC makes vectors of choices between
// integers only, since a choice between computed numbers may leave one of them uncomputed.
[[gnu::always_inline]] inline double plain(double value) {
  using Traits = FloatTraits<double>;
  const auto bits = bit_cast<int64_t>(value);
  const bool nan = (bits & INT64_MAX) > int64_t{Traits::kInfinity};
  return bit_cast<double>(nan ? int64_t{Traits::kQuietNan} : bits);
}
[[gnu::always_inline]] inline std::complex<double> plain(std::complex<double> value) {
  return plain_nan(value);
}
[[gnu::always_inline]] inline double choose(bool first, double a, double b) {
  return bit_cast<double>(first ? bit_cast<int64_t>(a) : bit_cast<int64_t>(b));
}
[[gnu::always_inline]] inline std::complex<double> choose(bool first, std::complex<double> a,
                                                          std::complex<double> b) {
  return first ? a : b;
}
// The value or zero, without a branch that a compiler could move its computation into.
[[gnu::always_inline]] inline double or_zero(bool keep, double value) {
  return bit_cast<double>(bit_cast<int64_t>(value) & -static_cast<int64_t>(keep));
}
[[gnu::always_inline]] inline std::complex<double> or_zero(bool keep, std::complex<double> value) {
  return keep ? value : 0.0;
}
[[gnu::always_inline]] inline bool vanishes(double value) {
  return (bit_cast<int64_t>(value) & INT64_MAX) == 0;
}
[[gnu::always_inline]] inline bool vanishes(std::complex<double> value) { return value == 0.0; }

// g / count in float64, rounded once.
template <class T>
[[gnu::always_inline]] inline T shared(T grad, double count) {
  return static_cast<T>(plain(widened(grad) / count));
}

template <class T>
struct AssignKernel {
  AssignKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        grad(reinterpret_cast<const T*>(work.grad)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<T*>(work.source_grad)) {}

  void prefetch_place(int64_t place) const { prefetch_row_at(row, grad, place); }
  void operator()(int64_t place, const PlaceUpdates& updates) const {
    const bool unit = row.src == 1 && row.dst == 1;
    row.each([&](int64_t first, int columns) {
      const int64_t at = place + first * row.dst, shift = first * row.src;
      unit ? body<1>(at, shift, columns, updates) : body<0>(at, shift, columns, updates);
    });
  }

  template <int Unit>
  void body(int64_t place, int64_t shift, int columns, const PlaceUpdates& updates) const {
    T last[kColumns], none[kColumns];
    for (int c = 0; c < columns; ++c) {
      last[c] = grad[place + c * row.dst];
      none[c] = T(0);
    }
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      const bool wins = i + 1 == updates.count;
      put<Unit>(row, source_grad + updates.offset(i) + shift, wins ? last : none, columns);
    }
    for (int c = 0; x_grad != nullptr && c < columns; ++c) x_grad[place + c * row.dst] = T(0);
  }

  RowWalk row;
  const T* grad;
  T* x_grad;
  T* source_grad;
};

// Each destination's share for one update, into x_grad: the sources gather theirs from there.
template <class T>
struct MeanKernel {
  MeanKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        self(work.include_self),
        grad(reinterpret_cast<const T*>(work.grad)),
        x_grad(reinterpret_cast<T*>(work.x_grad)) {}

  void prefetch_place(int64_t place) const { prefetch_row_at(row, grad, place); }
  void operator()(int64_t place, const PlaceUpdates& updates) const {
    const auto count = static_cast<double>(std::max<int64_t>(updates.count + self, 1));
    for (int64_t c = 0; c < row.size; ++c) {
      const int64_t at = place + c * row.dst;
      x_grad[at] = shared(grad[at], count);
    }
  }

  RowWalk row;
  bool self;
  const T* grad;
  T* x_grad;
};

// The bits of a value, with every NaN made one: equal bits are what a tie is. Signed, because
// vectors compare signed numbers, and as wide as the count of ties at least.
template <class T>
[[gnu::always_inline]] inline auto tie_bits(T value) {
  using Traits = FloatTraits<T>;
  using Number = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  const auto bits = static_cast<Number>(bit_cast<typename Traits::Bits>(value));
  constexpr auto kMagnitude =
      static_cast<Number>(static_cast<typename Traits::Bits>(~Traits::kSign));
  return (bits & kMagnitude) > Number{Traits::kInfinity} ? kMagnitude : bits;
}

template <class T>
struct ExtremeKernel {
  using Bits = decltype(tie_bits(T()));
  using Stored = typename FloatTraits<T>::Bits;

  ExtremeKernel(const IndexedBackward& work, const Axis& axis)
      : row(axis),
        self(work.include_self),
        grad(reinterpret_cast<const T*>(work.grad)),
        result(reinterpret_cast<const T*>(work.result)),
        x(reinterpret_cast<const T*>(work.x)),
        source(reinterpret_cast<const T*>(work.source)),
        x_grad(reinterpret_cast<T*>(work.x_grad)),
        source_grad(reinterpret_cast<Stored*>(work.source_grad)) {}

  void prefetch_place(int64_t place) const {
    prefetch_row_at(row, grad, place);
    prefetch_row_at(row, result, place);
    prefetch_row_at(row, x, place);
  }
  void operator()(int64_t place, const PlaceUpdates& updates) const {
    row.each([&](int64_t first, int columns) {
      if (columns == kColumns && !tied && run_quick(place, first, updates)) return;
      run_chunk(*this, place, first, columns, updates);
    });
  }

  // shared(grad, 1): nearly always nothing ties, and divisions are slow.
  [[gnu::always_inline]] static Stored plain_bits(T value) {
    using Traits = FloatTraits<T>;
    const auto bits = static_cast<Bits>(bit_cast<Stored>(value));
    constexpr auto kMagnitude = static_cast<Bits>(static_cast<Stored>(~Traits::kSign));
    const bool nan = (bits & kMagnitude) > Bits{Traits::kInfinity};
    return static_cast<Stored>(nan ? Bits{Traits::kQuietNan} : bits);
  }

  template <int Unit, int Columns>
  [[gnu::always_inline]] void body(int64_t place, int64_t shift, int given,
                                   const PlaceUpdates& updates) const {
    const int columns = Columns != 0 ? Columns : given;
    const int64_t to_dst = Unit ? 1 : row.dst, to_src = Unit ? 1 : row.src;
    alignas(64) Bits best[kColumns];
    alignas(64) Bits ties[kColumns];
    alignas(64) Stored part[kColumns];
    for (int c = 0; c < columns; ++c) best[c] = tie_bits(result[place + c * to_dst]);
    for (int c = 0; c < columns; ++c) ties[c] = 0;
    for (int c = 0; self && c < columns; ++c) {
      ties[c] = tie_bits(x[place + c * to_dst]) == best[c] ? 1 : 0;
    }
    for (int64_t i = 0; i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      prefetch_ahead(source, updates, i, shift, columns);
      for (int c = 0; c < columns; ++c) ties[c] += tie_bits(from[c * to_src]) == best[c] ? 1 : 0;
    }
    Bits most = 0;
    for (int c = 0; c < columns; ++c) most = ties[c] > most ? ties[c] : most;
    tied = most > 1;
    if (tied) {
      for (int c = 0; c < columns; ++c) {
        const auto count = static_cast<double>(ties[c] > 1 ? ties[c] : 1);
        part[c] = bit_cast<Stored>(shared(grad[place + c * to_dst], count));
      }
    } else {
      for (int c = 0; c < columns; ++c) part[c] = plain_bits(grad[place + c * to_dst]);
    }
    for (int c = 0; x_grad != nullptr && c < columns; ++c) {
      const bool attains = self && tie_bits(x[place + c * to_dst]) == best[c];
      x_grad[place + c * to_dst] = bit_cast<T>(attains ? part[c] : Stored{0});
    }
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      alignas(64) Stored out[kColumns];
      for (int c = 0; c < columns; ++c) {
        out[c] = tie_bits(from[c * to_src]) == best[c] ? part[c] : Stored{0};
      }
      put<Unit>(row, source_grad + updates.offset(i) + shift, out, columns);
    }
  }

  // In registers, as if nothing tied; false: something does.
  bool run_quick(int64_t place, int64_t first, const PlaceUpdates& updates) const {
    if (source_grad == nullptr || row.src != 1 || row.dst != 1) return false;
    ExtremeGrad work;
    RowTile& rows = work.rows;
    rows.src_step = updates.step * static_cast<int64_t>(sizeof(T));
    rows.src = reinterpret_cast<const char*>(source + updates.lowest + first);
    const int shift = row_shift(rows.src, rows.src_step, kTileColumns);
    const ExtremeGradKernel kernel = extreme_grad_kernel(dtype_of<T>(), shift);
    if (kernel == nullptr) return false;
    rows.ids = updates.ids;
    rows.count = updates.count;
    rows.columns = kColumns;
    prefetch_ahead(rows, row.size <= kColumns ? updates.visible : updates.count);
    const auto to = [&](auto* of) { return of == nullptr ? nullptr : of + place + first; };
    work.result = reinterpret_cast<const char*>(to(result));
    work.x = reinterpret_cast<const char*>(self ? to(x) : nullptr);
    work.grad = reinterpret_cast<const char*>(to(grad));
    work.x_grad = reinterpret_cast<char*>(to(x_grad));
    work.source_grad = reinterpret_cast<char*>(source_grad + updates.lowest + first);
    work.streams = row.streams && reinterpret_cast<uintptr_t>(work.source_grad) % 64 == 0 &&
                   rows.src_step % 64 == 0;
    return kernel(work);
  }

  RowWalk row;
  Isa isa = current_isa();
  bool self;
  const T *grad, *result, *x, *source;
  T* x_grad;
  Stored* source_grad;
  mutable bool tied = false;  // at the last destination: then it is likely at the next, too
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

  void prefetch_place(int64_t place) const {
    prefetch_row_at(row, grad, place);
    prefetch_row_at(row, x, place);
  }
  void operator()(int64_t place, const PlaceUpdates& updates) const {
    run_row(*this, place, updates);
  }

  [[gnu::always_inline]] static A factor(T value) {
    if constexpr (is_complex_number<T>)
      return std::conj(widened(value));
    else
      return widen(value);
  }

  // The derivative by a factor of which `zeros` destinations' factors in all are zero.
  [[gnu::always_inline]] static T others(A f, int64_t zeros, A weighted) {
    const int64_t own = vanishes(f) ? 1 : 0;
    const A value = plain(quotient(weighted, choose(own != 0, A(1), f)));
    return static_cast<T>(or_zero(zeros == own, value));
  }

  template <int Unit, int Columns>
  [[gnu::always_inline]] void body(int64_t place, int64_t shift, int given,
                                   const PlaceUpdates& updates) const {
    const int columns = Columns != 0 ? Columns : given;
    const int64_t to_dst = Unit ? 1 : row.dst, to_src = Unit ? 1 : row.src;
    alignas(64) A weighted[kColumns];
    alignas(64) int64_t zeros[kColumns];
    for (int c = 0; c < columns; ++c) {
      const A f = self ? factor(x[place + c * to_dst]) : A(1);
      zeros[c] = vanishes(f) ? 1 : 0;
      weighted[c] = choose(vanishes(f), A(1), f);
    }
    for (int64_t begin = 0; begin < updates.count; begin += kChunk) {
      alignas(64) A chunk[kColumns];
      for (int c = 0; c < columns; ++c) chunk[c] = A(1);
      const int64_t end = std::min(begin + kChunk, updates.count);
      for (int64_t i = begin; i < end; ++i) {
        const T* __restrict from = source + updates.offset(i) + shift;
        prefetch_ahead(source, updates, i, shift, columns);
        for (int c = 0; c < columns; ++c) {
          const A f = factor(from[c * to_src]);
          zeros[c] += vanishes(f) ? 1 : 0;
          chunk[c] = product(chunk[c], choose(vanishes(f), A(1), f));
        }
      }
      const bool alone = begin == 0 && !self;  // 1 * x is not x for signed zeros in complex numbers
      for (int c = 0; c < columns; ++c)
        weighted[c] = alone ? chunk[c] : product(weighted[c], chunk[c]);
    }
    for (int c = 0; c < columns; ++c) {
      weighted[c] = product(widened(grad[place + c * to_dst]), plain(weighted[c]));
    }
    for (int c = 0; x_grad != nullptr && c < columns; ++c) {
      const int64_t at = place + c * to_dst;
      x_grad[at] = self ? others(factor(x[at]), zeros[c], weighted[c]) : T(0.0f);
    }
    for (int64_t i = 0; source_grad != nullptr && i < updates.count; ++i) {
      const T* __restrict from = source + updates.offset(i) + shift;
      alignas(64) T out[kColumns];
      for (int c = 0; c < columns; ++c) {
        out[c] = others(factor(from[c * to_src]), zeros[c], weighted[c]);
      }
      put<Unit>(row, source_grad + updates.offset(i) + shift, out, columns);
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

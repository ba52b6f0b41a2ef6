// SPDX-License-Identifier: Apache-2.0
// The reference executor: the executable specification. Its bits are the bits.
//
// Plain loops in row-major order: list every update with its destination, group by destination
// without changing the order, fold each group by the rules of docs/semantics.md, section 5 and 6.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/dtype_switch.h"
#include "core/exact/exact_sum.h"
#include "transfer/transfer.h"

namespace sow::detail {

namespace {

struct Update {
  int64_t dst, src;  // element offsets; src is kDropped where a gather gives zero
};

// Adds what the index tensors say at this position, or returns false if a key is dropped.
bool add_indices(const IndexOperands& indices, const std::vector<int64_t>& at, Bounds bounds,
                 int64_t& offset) {
  for (const IndexOperand& index : indices) {
    int64_t place = 0;
    for (size_t d = 0; d < at.size(); ++d) place += at[d] * index.strides[d];
    const int64_t key = resolve_key(load_key(index, place), index.extent, bounds);
    if (key == kDropped) return false;
    offset += key * index.scale;
  }
  return true;
}

int64_t affine(const Operand& operand, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; operand.data != nullptr && d < at.size(); ++d)
    offset += at[d] * operand.strides[d];
  return offset;
}

// Calls f(position) for every position of the shape in row-major order.
template <class F>
void for_each_position(const Dims& shape, F&& f) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<int64_t> at(shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(at);
  }
}

std::vector<Update> list_updates(const Transfer& t) {
  std::vector<Update> updates;
  for_each_position(t.shape, [&](const std::vector<int64_t>& at) {
    Update update{affine(t.dst, at), affine(t.src, at)};
    if (!add_indices(t.dst_index, at, t.bounds, update.dst)) return;
    if (!add_indices(t.src_index, at, t.bounds, update.src)) {
      // A gather gives zero there; where both sides are indexed, the update is left out.
      if (!t.dst_index.empty() || t.reduce != Reduce::assign) return;
      update.src = kDropped;
    }
    updates.push_back(update);
  });
  return updates;
}

// -- folding one destination

template <class T>
inline constexpr bool is_complex_type = false;
template <class R>
inline constexpr bool is_complex_type<std::complex<R>> = true;

template <class T>
T canonical(T value) {
  if constexpr (is_complex_type<T>) {
    return T(canonical(value.real()), canonical(value.imag()));
  } else if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return std::isnan(static_cast<double>(value)) ? T(std::numeric_limits<double>::quiet_NaN())
                                                  : value;
  }
}

// The exact sum rounded once to T; and rounded to float64 for the mean.
template <class T>
T exact_sum(const std::vector<T>& terms, double* as_double = nullptr) {
  LongAccumulator<T> sum;
  for (T term : terms) sum.add(term);
  if (as_double != nullptr) *as_double = sum.to_double();
  return sum.round();
}

template <class R>
std::vector<R> parts(const std::vector<std::complex<R>>& terms, bool imaginary) {
  std::vector<R> out;
  for (const auto& term : terms) out.push_back(imaginary ? term.imag() : term.real());
  return out;
}

template <class T>
T fold_add(const std::vector<T>& terms) {
  if constexpr (std::is_same_v<T, bool>) {
    return std::find(terms.begin(), terms.end(), true) != terms.end();
  } else if constexpr (std::is_integral_v<T>) {
    uint64_t sum = 0;
    for (T term : terms) sum += static_cast<uint64_t>(term);
    return static_cast<T>(sum);
  } else if constexpr (is_complex_type<T>) {
    return T(exact_sum(parts(terms, false)), exact_sum(parts(terms, true)));
  } else {
    return exact_sum(terms);
  }
}

template <class R>
R divide_exact_sum(const std::vector<R>& terms) {
  double sum = 0;
  exact_sum(terms, &sum);
  return static_cast<R>(sum / static_cast<double>(static_cast<int64_t>(terms.size())));
}

template <class T>
T fold_mean(const std::vector<T>& terms) {
  if constexpr (std::is_same_v<T, bool>) {
    return false;  // bool has no mean; operations refuse it
  } else if constexpr (std::is_integral_v<T>) {
    uint64_t wrapping = 0;
    for (T term : terms) wrapping += static_cast<uint64_t>(term);
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(wrapping / terms.size());
    const int64_t sum = static_cast<int64_t>(wrapping), count = static_cast<int64_t>(terms.size());
    const int64_t quotient = sum / count;
    return static_cast<T>(quotient - (sum % count < 0));
  } else if constexpr (is_complex_type<T>) {
    return T(divide_exact_sum(parts(terms, false)), divide_exact_sum(parts(terms, true)));
  } else {
    return divide_exact_sum(terms);
  }
}

// The type products run in, and one product in it.
template <class T>
struct Wide {
  using type = double;
};
template <class R>
struct Wide<std::complex<R>> {
  using type = std::complex<double>;
};

inline double times(double a, double b) { return a * b; }
inline std::complex<double> times(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
T fold_mul(const std::vector<T>& updates, const T* old) {
  if constexpr (std::is_same_v<T, bool>) {
    return (old == nullptr || *old) &&
           std::find(updates.begin(), updates.end(), false) == updates.end();
  } else if constexpr (std::is_integral_v<T>) {
    uint64_t product = old ? static_cast<uint64_t>(*old) : 1;
    for (T term : updates) product *= static_cast<uint64_t>(term);
    return static_cast<T>(product);
  } else {
    using W = typename Wide<T>::type;
    constexpr size_t kChunk = 256;
    W total = old ? static_cast<W>(*old) : W(1);
    bool begun = old != nullptr;
    for (size_t first = 0; first < updates.size(); first += kChunk) {
      W chunk(1);
      for (size_t i = first; i < std::min(first + kChunk, updates.size()); ++i) {
        chunk = times(chunk, static_cast<W>(updates[i]));
      }
      total = begun ? times(total, chunk) : chunk;
      begun = true;
    }
    return static_cast<T>(total);
  }
}

template <class T>
T fold_extreme(const std::vector<T>& terms, bool maximum) {
  if constexpr (is_complex_type<T>) {
    return terms[0];  // complex numbers have no order; operations refuse them
  } else if constexpr (std::is_integral_v<T>) {
    return maximum ? *std::max_element(terms.begin(), terms.end())
                   : *std::min_element(terms.begin(), terms.end());
  } else {
    T best = terms[0];
    for (T term : terms) {
      const double a = static_cast<double>(term), b = static_cast<double>(best);
      if (std::isnan(a)) return term;
      const bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
      const bool more = a > b || (a == b && !std::signbit(a) && std::signbit(b));
      if (maximum ? more : less) best = term;
    }
    return best;
  }
}

template <class T>
T fold_bits(const std::vector<T>& terms, Reduce reduce) {
  if constexpr (std::is_integral_v<T>) {
    T bits = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      if (reduce == Reduce::bit_and) bits = static_cast<T>(bits & terms[i]);
      if (reduce == Reduce::bit_or) bits = static_cast<T>(bits | terms[i]);
      if (reduce == Reduce::bit_xor) bits = static_cast<T>(bits ^ terms[i]);
    }
    return bits;
  } else {
    return terms[0];  // bits of a fraction mean nothing; operations refuse them
  }
}

template <class T>
T negated(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(0 - static_cast<uint64_t>(value));
  else if constexpr (is_complex_type<T>)
    return T(negated(value.real()), negated(value.imag()));
  else if constexpr (sizeof(T) == 2) {
    value.bits ^= 0x8000;
    return value;
  } else
    return -value;
}

template <class T>
T load(const Transfer& t, int64_t offset) {
  const char* from = t.src.data == nullptr ? reinterpret_cast<const char*>(t.scalar)
                                           : t.src.data + offset * static_cast<int64_t>(sizeof(T));
  T value;
  if constexpr (std::is_same_v<T, bool>) {
    value = *from != 0;
  } else {
    std::memcpy(&value, from, sizeof(T));
  }
  return t.negate ? negated(value) : value;
}

template <class T>
T fold_group(const Transfer& t, const Update* first, const Update* last, T old) {
  std::vector<T> terms;
  for (const Update* u = first; u != last; ++u) terms.push_back(load<T>(t, u->src));
  if (t.reduce == Reduce::mul) return canonical(fold_mul(terms, t.include_self ? &old : nullptr));
  if (t.include_self) terms.insert(terms.begin(), old);
  switch (t.reduce) {
    case Reduce::add:
      return canonical(fold_add(terms));
    case Reduce::mean:
      return canonical(fold_mean(terms));
    case Reduce::amax:
      return canonical(fold_extreme(terms, true));
    case Reduce::amin:
      return canonical(fold_extreme(terms, false));
    default:
      return fold_bits(terms, t.reduce);
  }
}

// -- the three ways a Transfer writes

void move_bytes(const Transfer& t, int64_t dst, int64_t src) {
  const int64_t size = static_cast<int64_t>(size_of(t.dtype));
  char* to = t.dst.data + dst * size;
  if (src == kDropped) {
    std::memset(to, 0, size);
  } else {
    std::memcpy(to, t.src.data ? t.src.data + src * size : reinterpret_cast<const char*>(t.scalar),
                size);
  }
}

template <class T>
void reduce_updates(const Transfer& t, std::vector<Update> updates) {
  std::stable_sort(updates.begin(), updates.end(),
                   [](const Update& a, const Update& b) { return a.dst < b.dst; });
  struct Result {
    int64_t dst;
    T value;
  };
  std::vector<Result> results;  // of all places before the first is written: memory may run out
  for (auto first = updates.begin(); first != updates.end();) {
    auto last = first;
    while (last != updates.end() && last->dst == first->dst) ++last;
    const char* place = t.dst.data + first->dst * static_cast<int64_t>(sizeof(T));
    T old;
    if constexpr (std::is_same_v<T, bool>) {
      old = *place != 0;
    } else {
      std::memcpy(&old, place, sizeof(T));
    }
    results.push_back({first->dst, fold_group<T>(t, &*first, &*first + (last - first), old)});
    first = last;
  }
  for (const Result& result : results) {
    std::memcpy(t.dst.data + result.dst * static_cast<int64_t>(sizeof(T)), &result.value,
                sizeof(T));
  }
}

void run_masked(const Transfer& t) {
  int64_t rank = 0;
  for_each_position(t.shape, [&](const std::vector<int64_t>& at) {
    const bool chosen = t.mask.data[affine(t.mask, at)] != 0;
    const int64_t ranked = rank * t.rank_stride;
    rank += chosen;
    if (chosen) {
      move_bytes(t, t.mask_side == MaskSide::destination ? ranked : affine(t.dst, at),
                 t.mask_side == MaskSide::source ? ranked : affine(t.src, at));
    } else if (t.base.data != nullptr) {
      const int64_t size = static_cast<int64_t>(size_of(t.dtype));
      std::memcpy(t.dst.data + affine(t.dst, at) * size, t.base.data + affine(t.base, at) * size,
                  size);
    }
  });
  for (const int64_t size = static_cast<int64_t>(size_of(t.dtype));
       t.clear_rest && rank < t.rank_limit; ++rank) {
    std::memset(t.dst.data + rank * t.rank_stride * size, 0, size);
  }
}

}  // namespace

void run_reference(const Transfer& t) {
  if (t.mask_side != MaskSide::none) return run_masked(t);
  std::vector<Update> updates = list_updates(t);
  if (t.reduce == Reduce::assign) {
    for (const Update& update : updates) move_bytes(t, update.dst, update.src);
    return;
  }
  with_dtype(t.dtype, [&](auto tag) {
    reduce_updates<typename decltype(tag)::type>(t, std::move(updates));
  });
}

}  // namespace sow::detail

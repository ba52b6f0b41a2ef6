// SPDX-License-Identifier: Apache-2.0
// Fixed-point loops in vectors: keys are checked, values become integers, and sums floats, many at
// a time.
#if !defined(SOW_LEVEL)

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/common/prefetch.h"
#include "cpu/sum/bounded_sum.h"
#include "cpu/sum/fixed_point_kernels.h"
#include "cpu/sum/fixed_point_keys.h"

#define SOW_KERNELS "cpu/sum/fixed_point_vector.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

template <class T>
void use_vectors(FixedPointKernels& kernels, Isa isa) {
  SOW_AT_LEVEL(isa, use<T>)(kernels);
}
template void use_vectors<float>(FixedPointKernels& kernels, Isa isa);
template void use_vectors<float16>(FixedPointKernels& kernels, Isa isa);
template void use_vectors<bfloat16>(FixedPointKernels& kernels, Isa isa);
template void use_vectors<double>(FixedPointKernels& kernels, Isa isa);

}  // namespace sow::detail

#else

#include "cpu/sum/fixed_point_units.h"

namespace sow::detail::SOW_LEVEL {
namespace {

constexpr int kCount = 16;  // updates that are added together

// Whether any of so many keys is not a cell. They are looked at in parts of 32 bits, the upper ones
// of which are 0 then.
template <class Id>
SOW_VECTOR I32 not_cells(const Id* keys, U32 last) {
  U32 most = {};
#pragma GCC unroll 8
  for (int i = 0; i < kCount; i += kVectorBytes / static_cast<int>(sizeof(Id)))
    most = max(most, load<U32>(keys + i));
  return (I32)(most > last);
}
template <class Id>
SOW_VECTOR U32 last_of(uint32_t extent) {
  if constexpr (sizeof(Id) == 8) return (U32)all_of<U64>(uint64_t{extent} - 1);
  return all_of<U32>(extent - 1);
}

template <class T>
SOW_VECTOR U32 range_bits(const T* from) {
  if constexpr (sizeof(T) == 8)
    return load<U32>(from);  // the upper halves are the odd lanes
  else
    return (U32)load_floats(from);
}
template <class T>
void scan(const char* values, int64_t count, MagnitudeRange& range) {
  constexpr int kStep = sizeof(T) == 8 ? kLanes64 : kLanes32;
  const T* from = reinterpret_cast<const T*>(values);
  U32 largest = {}, smallest = ~U32{};
  I32 lowest = all_of<I32>(INT32_MAX);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const U32 bits = range_bits(from + i), magnitude = bits & 0x7fffffffu;
    largest = max(largest, magnitude);
    smallest = min(smallest, magnitude - 1u);
    lowest = min(lowest, (I32)bits);
  }
  for (int lane = sizeof(T) == 8; lane < kLanes32; lane += sizeof(T) == 8 ? 2 : 1) {
    range.largest = std::max(range.largest, largest[lane]);
    range.smallest_less_one = std::min(range.smallest_less_one, smallest[lane]);
    range.lowest = std::min(range.lowest, lowest[lane]);
  }
  FixedPointLoops<T, Reduce::add>::scan(reinterpret_cast<const char*>(from + i), count - i, range);
}

// Values as whole numbers of a fixed-point scale.
template <class T>
struct Units : UnitRange<T> {
  static constexpr int64_t kMost = 1 << 18;  // values of which the total is good
  static constexpr int kWords = 1;
  F32 total = {};

  explicit Units(const FixedPointScale& scale) : UnitRange<T>(scale) {}

  // Converts kCount values. Lanes are not 0 where one may be none.
  SOW_VECTOR I32 convert(const T* from, int64_t* whole) {
    U32 most = {};
#pragma GCC unroll 4
    for (int i = 0; i < kCount; i += kLanes32) {
      const F32 values = load_floats(from + i);
      most = max(most, this->distance((U32)values));
      total += absolute(values);
      UnitRange<T>::convert(from + i, values, whole + i);
    }
    return (I32)(most > this->reach);
  }
  // Adds the k-th of them.
  SOW_VECTOR static void add(int64_t* cell, const int64_t* whole, int k) { *cell += whole[k]; }

  // Tells what was converted; the total has lost one part in 2^24 a step at most.
  SOW_VECTOR void leave(FixedPointScale& scale, int64_t) const {
    double sum = 0;
    for (int i = 0; i < kLanes32; ++i) sum += total[i];
    scale.sum += std::ldexp(sum, -scale.exponent) * (1 + 0x1p-5);
  }
};

// Of float64: two integers each, of which the second counts what the first leaves over.
template <>
struct Units<double> {
  static constexpr int64_t kMost = INT64_MAX;
  static constexpr int kWords = 2;
  F64 limit, magic, low_magic, total = {};
  I64 minus_zeros = {};
  double factor, most_low;

  explicit Units(const FixedPointScale& scale) {
    const FixedPointForm<double> form(scale);
    const bool fits = scale.value_bits <= 51 && form.exponent <= 960;
    limit = all_of<F64>(fits ? bit_cast<double>(form.limit) : -1.0);
    magic = all_of<F64>(magic_of(form.exponent));
    low_magic = all_of<F64>(magic_of(form.exponent - form.below));
    factor = form.factor;
    most_low = form.low_scale + 1;
  }

  // In turn the even ones of a vector, and the odd ones.
  SOW_VECTOR I32 convert(const double* from, int64_t* whole) {
    I64 found = {};
#pragma GCC unroll 8
    for (int i = 0; i < kCount; i += kLanes64) {
      const F64 values = load<F64>(from + i), size = absolute(values);
      minus_zeros |= (I64)values == INT64_MIN;
      total += size;
      const F64 large = values + magic, left = values - (large - magic);
      const F64 small = left + low_magic;
      found |= (I64)((small - low_magic) != left) | ~(I64)(size <= limit);
      const I64 first = (I64)large - (I64)magic, second = (I64)small - (I64)low_magic;
      store(whole + 2 * i, unpack_evens(first, second));
      store(whole + 2 * i + kLanes64, unpack_odds(first, second));
    }
    return (I32)found;
  }
  typedef int64_t Pair __attribute__((vector_size(16)));
  SOW_VECTOR static void add(int64_t* cell, const int64_t* whole, int k) {
    const int at = k / kLanes64 * 2 * kLanes64 + k % 2 * kLanes64 + k % kLanes64 / 2 * 2;
    store(cell, load<Pair>(cell) + load<Pair>(whole + at));
  }

  SOW_VECTOR void leave(FixedPointScale& scale, int64_t count) const {
    for (int i = 0; i < kLanes64; ++i) scale.sum += total[i] * factor;
    scale.sum += static_cast<double>(count) * most_low;
    scale.minus_zeros |= any(minus_zeros);
  }
};

// Keys and values in one pass.
template <bool Counts, bool Checks, class Reach, class T, class Id>
int64_t add_some(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent, const T* values,
                 int64_t count, FixedPointScale& scale, Residuals& residuals,
                 const char* to_prefetch) {
  using Plain = FixedPointLoops<T, Reduce::add>;
  constexpr int kWords = Units<T>::kWords;
  Units<T> units(scale);
  const U32 last = last_of<Id>(extent);
  alignas(64) int64_t whole[kCount * kWords];
  int64_t i = 0;
  for (; i + kCount + Reach::kPrefetchAhead <= count; i += kCount) {
    for (int64_t line = 0; line < kCount * static_cast<int64_t>(sizeof(Id)); line += 64) {
      if (Checks) prefetch_l2(ids + i, kStream + line);
      if (!Checks) prefetch(to_prefetch, i * 8 + line);
    }
    for (int64_t line = 0; Checks && line < kCount * static_cast<int64_t>(sizeof(T)); line += 64)
      prefetch_l2(values + i, kStream * static_cast<int64_t>(sizeof(T)) / 8 + line);
    I32 ambiguous = units.convert(values + i, whole);
    if (Checks) ambiguous |= not_cells(ids + i, last);
    if (__builtin_expect(any(ambiguous), 0)) {
      const int64_t taken =
          Plain::add_each(cells, seen, ids + i, extent, values + i, kCount, scale, residuals);
      if (taken == kCount) continue;
      units.leave(scale, i);
      return i + taken;
    }
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) {
      if constexpr (Reach::kPrefetchAhead > 0) {
        const auto next = static_cast<int64_t>(ids[i + k + Reach::kPrefetchAhead]);
        Reach::prefetch_cell(cells, next * 8 * kWords);
        if (Counts && std::is_same_v<Reach, Far>) Reach::prefetch_cell(seen, next * 4);
      }
      Units<T>::add(cells + ids[i + k] * kWords, whole, k);
      if (Counts) ++seen[ids[i + k]];
    }
  }
  units.leave(scale, i);
  if constexpr (Reach::kPrefetchAhead > 0) {
    return i + add_some<Counts, Checks, Near>(cells, seen, ids + i, extent, values + i, count - i,
                                              scale, residuals, to_prefetch);
  }
  return i + Plain::add_each(cells, seen, ids + i, extent, values + i, count - i, scale, residuals);
}

template <bool Counts, bool Checks, class T, class Id>
auto adder(uint32_t extent) {
  auto* add = add_some<Counts, Checks, Near, T, Id>;
  if constexpr (Checks) {
    if (extent >= Beyond::kBytes / 8 / Units<T>::kWords)
      add = add_some<Counts, Checks, Beyond, T, Id>;
    if (extent >= Far::kBytes / 8 / Units<T>::kWords) add = add_some<Counts, Checks, Far, T, Id>;
  }
  return add;
}
template <bool Checks, class T, class Id>
int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent, const T* values,
                 int64_t count, FixedPointScale& scale, Residuals& residuals,
                 const char* to_prefetch) {
  const auto add =
      seen != nullptr ? adder<true, Checks, T, Id>(extent) : adder<false, Checks, T, Id>(extent);
  for (int64_t at = 0; at < count;) {
    const int64_t some = std::min(count - at, Units<T>::kMost);
    const int64_t taken =
        add(cells, seen, ids + at, extent, values + at, some, scale, residuals, to_prefetch);
    at += taken;
    if (taken < some) return at;
  }
  return count;
}

template <class T>
int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values, int64_t count,
            FixedPointScale& scale, Residuals& residuals, const char* to_prefetch) {
  const T* from = reinterpret_cast<const T*>(values);
  if (to_prefetch == nullptr)
    to_prefetch = values;  // a line that is here costs nothing, none at all a walk
  return add_each<false>(cells, seen, ids, UINT32_MAX, from, count, scale, residuals, to_prefetch);
}
template <class T>
int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys, int64_t first,
                 int64_t count, FixedPointScale& scale, Residuals& residuals) {
  const T* from = reinterpret_cast<const T*>(keys.values) + first;
  if (keys.int64_keys) {
    const auto* ids = reinterpret_cast<const uint64_t*>(keys.data) + first;
    return add_each<true>(cells, seen, ids, keys.extent, from, count, scale, residuals, nullptr);
  }
  const auto* ids = reinterpret_cast<const uint32_t*>(keys.data) + first;
  return add_each<true>(cells, seen, ids, keys.extent, from, count, scale, residuals, nullptr);
}

SOW_VECTOR F64 two_sums(F64 a, F64 b, F64& error) {
  const F64 sum = a + b, part = sum - a;
  error = (a - (sum - part)) + (b - part);
  return sum;
}
SOW_VECTOR I64 is_finite(F64 v) { return absolute(v) <= 0x1.fffffffffffffp1023; }

// A vector of sums with their old values, if these count. Writes those that were met, rounded once;
// says which were not written because that is not certain: something may be lost, or a place
// without updates is NaN or -0, which it stays only if it is certain that it has none.
template <class T, Reduce R, bool Counted, bool Self>
struct SumEnd {
  F64 unit, low_unit;
  I64 zeros_differ;  // there were -0

  SOW_VECTOR uint32_t write(const int64_t* cells, const uint32_t* counts, T* to) const {
    const F64 old = Self ? load_wide(to) : all_of<F64>(-0.0);
    F64 total;
    U64 lost;  // 0 where nothing is
    I64 empty;
    if constexpr (sizeof(T) == 8) {
      const I64 one = load<I64>(cells), two = load<I64>(cells + kLanes64);
      const I64 first = evens(one, two), second = odds(one, two);
      F64 error, left, part;
      const F64 most = two_sums(two_sums(old, to_float64(first) * unit, error),
                                to_float64(second) * low_unit, left);
      // Zeros of two_sum are positive, as the sum's own is then.
      total = most + two_sums(error, left, part);
      lost = (U64)part << 1 | unheld(first) | unheld(second);
      empty = (first | second) == 0;
    } else {
      const I64 cell = load<I64>(cells);
      const F64 sum = to_float64(cell) * unit;
      total = old + sum;
      lost = unheld(cell);
      if (R == Reduce::mean) {  // a float64, rounded, is divided
        lost |= (U64)~is_finite(old);
      } else {  // one rounding is left: both differences give back a term
        lost |= ((U64)((total - old) - sum) | (U64)((total - sum) - old)) << 1;
      }
      empty = cell == 0;
    }
    uint32_t met;
    if constexpr (Counted) {
      const HalfI32 seen = load<HalfI32>(counts);
      met = bits_of(widened((HalfI32)(seen != 0)));
      if constexpr (R == Reduce::mean)
        total = total / __builtin_convertvector(seen + static_cast<int>(Self), F64);
      lost |= (U64)(empty & zeros_differ);
    } else {
      met = bits_of(~empty);
      lost |= (U64)(empty & ((I64)old == INT64_MIN));
    }
    uint32_t left = 0;
    if (__builtin_expect(any(lost), 0)) {
      left = bits_of((I64)(lost != 0u)) & (Counted ? met : ~0u);
      met &= ~left;
    }
    store_lanes(to, met, total);
    return left;
  }

 private:
  // Not 0 where a float64 may not hold it.
  SOW_VECTOR static U64 unheld(I64 cell) { return (U64)(cell + (int64_t{1} << 53)) >> 54; }
};

// Near the end of the room one by one, so that it can stop there.
template <class T, Reduce R, bool Counted, bool Self>
int64_t finish_vectors(const int64_t* cells, const uint32_t* seen, const PlaceRange& block,
                       int64_t begin, int64_t end, FixedPointScale scale, Touched& inconclusive,
                       int64_t room) {
  using Plain = FixedPointLoops<T, R>;
  constexpr int kWords = Units<T>::kWords;
  const FixedPointForm<T> form(scale);
  SumEnd<T, R, Counted, Self> each{
      all_of<F64>(form.unit), {}, all_of<I64>(-int64_t{scale.minus_zeros})};
  if constexpr (sizeof(T) == 8) each.low_unit = all_of<F64>(form.low_unit);
  T* to = reinterpret_cast<T*>(block.first);
  int64_t i = begin;
  for (; i + kLanes64 <= end && inconclusive.count + kLanes64 < room; i += kLanes64) {
    uint32_t left = each.write(cells + i * kWords, Counted ? seen + i : nullptr, to + i);
    for (; __builtin_expect(left != 0, 0); left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      Plain::finish(cells, seen, block, cell, cell + 1, scale, inconclusive, room);
    }
  }
  return Plain::finish(cells, seen, block, i, std::min(end, i + kLanes64 - 1), scale, inconclusive,
                       room);
}
template <class T, Reduce R>
int64_t finish(const int64_t* cells, const uint32_t* seen, const PlaceRange& block, int64_t begin,
               int64_t end, FixedPointScale scale, Touched& inconclusive, int64_t room) {
  auto* finish = FixedPointLoops<T, R>::finish;
  const bool counted = seen != nullptr;
  if (block.step == 1) {
    if constexpr (R == Reduce::mean) {
      if (counted)
        finish = block.include_self ? finish_vectors<T, R, true, true>
                                    : finish_vectors<T, R, true, false>;
    } else if (counted != block.include_self) {
      finish = counted ? finish_vectors<T, R, true, false> : finish_vectors<T, R, false, true>;
    }
  }
  return finish(cells, seen, block, begin, end, scale, inconclusive, room);
}

template <class T>
void use(FixedPointKernels& kernels) {
  kernels.scan = scan<T>;
  kernels.add = add<T>;
  kernels.add_keys = add_keys<T>;
  if (!kernels.counts) kernels.finish = finish<T, Reduce::add>;
  if constexpr (sizeof(T) < 8) {
    if (kernels.counts) kernels.finish = finish<T, Reduce::mean>;
  }
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif

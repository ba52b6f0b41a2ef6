// SPDX-License-Identifier: Apache-2.0
// Row folds in vectors of every instruction level: a few vectors of columns at a time have their
// accumulators in registers. Nothing is written before all of them are certain.
#if !defined(SOW_LEVEL)

#include "cpu/rows/row_tile.h"

#include <cmath>

#include "core/exact/exact_rows.h"
#include "cpu/common/prefetch.h"
#include "cpu/rows/row_state.h"

#define SOW_KERNELS "cpu/rows/row_tile.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

int row_shift(const void* src, int64_t src_step, int columns) {
  const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(src) % 64);
  return columns == kTileColumns && src_step % 64 == 0 && shift % 4 == 0 ? shift : 0;
}

// Rows that are shorter than a vector may have one of a lower level.
FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns, int shift) {
  const FoldRowTile kernel = SOW_BY_LEVEL(kernel_for)(dtype, reduce, columns, shift);
  return kernel != nullptr ? kernel : level_portable::kernel_for(dtype, reduce, columns, shift);
}

}  // namespace sow::detail

#else

#include "cpu/rows/row_reader.h"

namespace sow::detail::SOW_LEVEL {
namespace {

// Vectors of columns that have their accumulators in registers together.
template <class T>
constexpr int kMostVectors = (kVectorBytes == 64 ? 4 : 2) / (sizeof(T) == 2 ? 2 : 1);

template <class T>
constexpr auto kQuietNan = static_cast<typename FloatTraits<T>::Bits>(FloatTraits<T>::kQuietNan);

// The columns of a vector as float64, exactly; `from` is where they were read, or
// null.
template <class T>
constexpr int kDoubles = 8 / static_cast<int>(sizeof(T));
template <class T>
SOW_VECTOR void widen_columns(RowBits<T> bits, const T* from, F64* out) {
  if constexpr (sizeof(T) == 8) {
    out[0] = bits;
  } else if constexpr (sizeof(T) == 4) {
    widen(from, (F32)bits, out);
  } else if (from != nullptr) {  // which takes less than taking a vector apart
    widen(from, load_floats(from), out);
    widen(from, load_floats(from + kLanes32), out + 2);
  } else {
    widen(from, floats_of<T>(low_half(bits)), out);
    widen(from, floats_of<T>(high_half(bits)), out + 2);
  }
}

// Writes the columns of a vector, rounded once.
template <class T>
SOW_VECTOR void put(T* to, const F64* values) {
#pragma GCC unroll 4
  for (int i = 0; i < kDoubles<T>; ++i) {
    const HalfU32 rounded = rounded_bits<T>(values[i]);
    if constexpr (sizeof(T) == 4) {
      store(to + i * kLanes64, rounded);
    } else {
      store(to + i * kLanes64, __builtin_convertvector(rounded, QuarterU16));
    }
  }
}

int bit_count(int64_t number) {
  return number == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(number));
}

// Sums of a vector of columns in float64.
//
// Terms below 2^(most + 1) that are whole multiples of 2^(least - digits + 1) add up exactly while
// the sum has no more than 53 bits between the two. Elsewhere a sum of `count` terms no larger than
// M was rounded to 53 bits at most so often, and no partial sum was beyond 2 * count * M: it is off
// by less than count^2 * M / 2^52, and the ends of that range by less than count * M / 2^51. Where
// ends that lie twice as far apart as all that are rounded to the same bits, so is the real sum,
// and the mean.
template <class T>
struct Sum {
  static constexpr int64_t kMost = kSpreadItems;
  using Bits = RowBits<T>;
  using Signed = std::conditional_t<sizeof(T) == 4, I32, I16>;
  using Traits = FloatTraits<T>;
  static constexpr typename Traits::Bits kMagnitude = Traits::kSign - 1, kOne = 1;
  F64 sum[kDoubles<T>];
  Bits most, least;  // magnitudes; of the least one less, so that zeros do not count

  SOW_VECTOR void start(Bits old, Bits, bool self) {
    const Bits first = self ? old : all_of<Bits>(Traits::kSign);  // -0 is nothing
    widen_columns<T>(first, nullptr, sum);
    most = first & kMagnitude;
    least = most - kOne;
  }
  SOW_VECTOR void add(Bits bits, const T* from) {
    F64 wide[kDoubles<T>];
    widen_columns<T>(bits, from, wide);
#pragma GCC unroll 4
    for (int i = 0; i < kDoubles<T>; ++i) sum[i] += wide[i];
    const Bits magnitude = bits & kMagnitude;
    most = max(most, magnitude);
    least = min(least, magnitude - kOne);
  }
  // False: not certain.
  template <Reduce R>
  SOW_VECTOR bool resolve(int64_t count, T* out, double* sums) const {
    if (any((I32)(most >= Traits::kInfinity))) return false;
    constexpr int kShift = Traits::kDigits - 1;
    const auto room = static_cast<std::make_signed_t<typename Traits::Bits>>(53 - Traits::kDigits -
                                                                             bit_count(count - 1));
    const Bits inexact =
        (Bits)((Signed)(most >> kShift) - (Signed)(least >> kShift) > all_of<Signed>(room));
    const bool exact = !any((I32)inexact);
    if (sums != nullptr) {
      for (int i = 0; i < kDoubles<T>; ++i) store(sums + i * kLanes64, sum[i]);
      return exact;
    }
    const double number = static_cast<double>(count);
    F64 lower[kDoubles<T>];
    if (exact) {
      for (int i = 0; i < kDoubles<T>; ++i) lower[i] = R == Reduce::mean ? sum[i] / number : sum[i];
      put(out, lower);
      return true;
    }
    F64 greatest[kDoubles<T>], off[kDoubles<T>];
    widen_columns<T>(inexact & most, nullptr, off);
    for (int i = 0; i < kDoubles<T>; ++i) {
      off[i] *= number * number * 0x1p-50;
      const I64 moves = off[i] != 0.0;  // zeros keep their sign
      lower[i] = moves ? sum[i] - off[i] : sum[i];
      greatest[i] = moves ? sum[i] + off[i] : sum[i];
      if (R == Reduce::mean) {
        lower[i] = lower[i] / number;
        greatest[i] = greatest[i] / number;
      }
    }
    T other[kColumns<T>];
    put(out, lower);
    put(other, greatest);
    return std::memcmp(out, other, sizeof(other)) == 0;
  }
};

// Of float64 in two parts. What the first part lost are whole numbers of the last digit of the
// least term: with terms up to M it never was beyond count * M / 2^52, so that the second part is
// exact while fewer than 2^53 of them are count^2 * M / 2^51. Elsewhere no partial sum was beyond
// 2 * count * M, and the second part is off by less than count^3 * M / 2^104, and the ends of that
// range by less than count^2 * M / 2^103. Where ends that lie further apart are rounded to the same
// bits, so is the real sum, and the mean.
template <>
struct Sum<double> {
  static constexpr int64_t kMost = kSpreadItems;
  F64 high, low;
  I64 most, least;  // magnitudes; of the least half of one less, so that zeros do not count

  SOW_VECTOR static I64 below(I64 magnitude) { return (I64)((U64)(magnitude - 1) >> 1); }
  SOW_VECTOR void start(F64 old, F64, bool self) {
    high = self ? old : all_of<F64>(-0.0);  // which is nothing
    low = F64{};
    most = (I64)absolute(high);
    least = below(most);
  }
  SOW_VECTOR void add(F64 term, const double*) {
    const F64 total = high + term, part = total - high;
    low += (high - (total - part)) + (term - part);
    high = total;
    const I64 magnitude = (I64)absolute(term);
    most = max(most, magnitude);
    least = min(least, below(magnitude));
  }
  template <Reduce R>
  SOW_VECTOR bool resolve(int64_t count, double* out, double*) const {
    const double number = static_cast<double>(count);
    const int64_t room = 48 - 2 * bit_count(count);
    const I64 inexact = (most >> 52) - (least >> 51) > all_of<I64>(room);
    const F64 off = (F64)(inexact & (I64)((F64)most * (number * number * number * 0x1p-101)));
    const I64 more = (I64)(low != 0.0) | (I64)(off != 0.0);  // zeros keep their sign
    F64 lower = more ? high + (low - off) : high, greatest = more ? high + (low + off) : high;
    if (any(~(I64)(absolute(greatest) <= 0x1.fffffffffffffp1023))) return false;
    if (R == Reduce::mean) {
      lower = lower / number;
      greatest = greatest / number;
    }
    store(out, lower);
    return !any((I64)lower ^ (I64)greatest);
  }
};

// Of float32 and narrower: signed integers order the positive numbers, unsigned ones the magnitudes
// of those of one sign, so that three running extremes say everything, NaN included.
template <class T, Reduce R>
struct Extreme {
  static constexpr int64_t kMost = INT64_MAX;
  using Bits = RowBits<T>;
  using Signed = std::conditional_t<sizeof(T) == 4, I32, I16>;
  using Traits = FloatTraits<T>;
  Signed highest;
  Bits largest, smallest;

  SOW_VECTOR void start(Bits old, Bits row, bool self) {
    largest = smallest = self ? old : row;
    highest = (Signed)largest;
  }
  SOW_VECTOR void add(Bits bits, const T*) {
    highest = max(highest, (Signed)bits);
    largest = max(largest, bits);
    smallest = min(smallest, bits);
  }
  template <Reduce>
  SOW_VECTOR bool resolve(int64_t, T* out, double*) const {
    constexpr typename Traits::Bits kInfinity = Traits::kInfinity,
                                    kNegative = Traits::kInfinity | Traits::kSign;
    // Any positive number beats the negative ones for amax, any negative one for amin.
    const Signed wins = R == Reduce::amax ? highest >= Signed{} : (Signed)largest < Signed{};
    Bits best = wins ? (R == Reduce::amax ? (Bits)highest : largest) : smallest;
    const Bits nan =
        (Bits)(highest > (Signed)all_of<Bits>(kInfinity)) | (Bits)(largest > kNegative);
    best = (best & ~nan) | (nan & kQuietNan<T>);
    store(out, best);
    return true;
  }
};
// Of float64: of two numbers that are equal the signs are those of zeros.
template <Reduce R>
struct Extreme<double, R> {
  static constexpr int64_t kMost = INT64_MAX;
  F64 best;
  I64 nan;

  SOW_VECTOR void start(F64 old, F64 row, bool self) {
    best = self ? old : row;
    nan = (I64)(best != best);
  }
  SOW_VECTOR void add(F64 value, const double*) {
    nan |= (I64)(value != value);
    best = R == Reduce::amax ? (F64)((U64)max(best, value) & (U64)max(value, best))
                             : (F64)((U64)min(best, value) | (U64)min(value, best));
  }
  template <Reduce>
  SOW_VECTOR bool resolve(int64_t, double* out, double*) const {
    store(out, nan ? all_of<I64>(0x7ff8000000000000) : (I64)best);
    return true;
  }
};

// Chunks from 1, each of which then goes onto the old value.
template <class T>
struct Product {
  static constexpr int64_t kMost = INT64_MAX;
  F64 total[kDoubles<T>], chunk[kDoubles<T>];

  SOW_VECTOR void start(RowBits<T> old, RowBits<T>, bool self) {
    widen_columns<T>(old, nullptr, total);
    for (int i = 0; i < kDoubles<T>; ++i) {
      chunk[i] = all_of<F64>(1.0);
      if (!self) total[i] = chunk[i];
    }
  }
  SOW_VECTOR void add(RowBits<T> bits, const T* from) {
    F64 terms[kDoubles<T>];
    widen_columns<T>(bits, from, terms);
#pragma GCC unroll 4
    for (int i = 0; i < kDoubles<T>; ++i) chunk[i] *= terms[i];
  }
  SOW_VECTOR void end_chunk() {
    for (int i = 0; i < kDoubles<T>; ++i) {
      total[i] *= chunk[i];
      chunk[i] = all_of<F64>(1.0);
    }
  }
  template <Reduce>
  SOW_VECTOR bool resolve(int64_t, T* out, double*) const {
    I64 nans = {};
    for (int i = 0; i < kDoubles<T>; ++i) nans |= total[i] != total[i];
    if constexpr (sizeof(T) == 8) {
      store(out, total[0]);
    } else {
      put(out, total);
    }
    for (int i = 0; __builtin_expect(any(nans), 0) && i < kColumns<T>; ++i)
      out[i] = canonical_nan(out[i]);
    return true;
  }
};

// Some vectors of columns from `first` on. False: not certain.
template <class State, class T, Reduce R, Rows How, bool Prefetches, int Vectors>
bool fold_columns(const RowTile& tile, int first, T* out) {
  const RowReader<T, Vectors, How> reader(tile, first);
  State states[Vectors];
  RowBits<T> bits[Vectors], old[Vectors];
  reader.read(0, bits);
  reader.read_old(old);
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) states[i].start(old[i], bits[i], tile.include_self);
  for (int64_t k = 0; k < tile.count;) {
    const int64_t end =
        R == Reduce::mul ? std::min<int64_t>(k + kMulChunk, tile.count) : tile.count;
    for (; k < end; ++k) {
      if (Prefetches) reader.prefetch_row(k);
      reader.read(k, bits);
#pragma GCC unroll 4
      for (int i = 0; i < Vectors; ++i) states[i].add(bits[i], reader.place(k, i));
    }
    if constexpr (R == Reduce::mul) {
#pragma GCC unroll 4
      for (int i = 0; i < Vectors; ++i) states[i].end_chunk();
    }
  }
  if (Prefetches) reader.prefetch_remaining();
  bool certain = true;
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    const int64_t at = first + reader.column(i);
    certain &= states[i].template resolve<R>(tile.count + tile.include_self, out + at,
                                             tile.sums == nullptr ? nullptr : tile.sums + at);
  }
  return certain;
}
// No more vectors than are needed.
template <class State, class T, Reduce R, Rows How, bool Prefetches, int Vectors = kMostVectors<T>>
bool fold_some(const RowTile& tile, int first, T* out) {
  if constexpr (How == Rows::part && Vectors > 1) {
    if (tile.columns - first <= (Vectors - 1) * kColumns<T>)
      return fold_some<State, T, R, How, Prefetches, Vectors - 1>(tile, first, out);
  }
  return fold_columns < State, T, R, How, Prefetches,
         How == Rows::few ? 1 : Vectors > (tile, first, out);
}

template <class State, class T, Reduce R, Rows How>
bool fold(const RowTile& tile) {
  constexpr bool kWhole = How == Rows::whole || How == Rows::shifted;
  if (tile.count > State::kMost || (sizeof(T) == 8 && tile.sums != nullptr)) return false;
  alignas(64) T out[kTileColumns];
  const int columns = kWhole ? kTileColumns : tile.columns;
  if (!fold_some<State, T, R, How, true>(tile, 0, out)) return false;
  constexpr int kStep = kMostVectors<T> * kColumns<T>;
  for (int at = kStep; How != Rows::few && at < columns; at += kStep)
    if (!fold_some<State, T, R, How, false>(tile, at, out)) return false;
  if (tile.sums != nullptr) return true;
  if constexpr (How == Rows::few) {
    store_first<T>(tile.dst, columns, load<RowBits<T>>(out));
  } else {
    std::memcpy(tile.dst, out, static_cast<size_t>(columns) * sizeof(T));
  }
  return true;
}

template <class T, Rows How>
FoldRowTile kernel_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::add:
      return fold<Sum<T>, T, Reduce::add, How>;
    case Reduce::mean:
      return fold<Sum<T>, T, Reduce::mean, How>;
    case Reduce::mul:
      return fold<Product<T>, T, Reduce::mul, How>;
    case Reduce::amax:
      return fold<Extreme<T, Reduce::amax>, T, Reduce::amax, How>;
    case Reduce::amin:
      return fold<Extreme<T, Reduce::amin>, T, Reduce::amin, How>;
    default:
      return nullptr;
  }
}
template <class T>
FoldRowTile kernel_of(Reduce reduce, int columns, [[maybe_unused]] int shift) {
  if constexpr (kReadsLines && kMostVectors<T> * kColumns<T> == kTileColumns) {
    if (shift != 0) return kernel_of<T, Rows::shifted>(reduce);
  }
  if (columns == kTileColumns) return kernel_of<T, Rows::whole>(reduce);
  if (columns >= kColumns<T>) return kernel_of<T, Rows::part>(reduce);
  if constexpr (kReadsLines) return kernel_of<T, Rows::few>(reduce);
  return nullptr;
}

FoldRowTile kernel_for(DType dtype, Reduce reduce, int columns, int shift) {
  switch (dtype) {
    case DType::float32:
      return kernel_of<float>(reduce, columns, shift);
    case DType::bfloat16:
      return kernel_of<bfloat16>(reduce, columns, shift);
    case DType::float16:
      return kernel_of<float16>(reduce, columns, shift);
    case DType::float64:
      return kernel_of<double>(reduce, columns, shift);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif

// Row folds in vectors of every instruction level: a few vectors of columns at a time have their
// accumulators in registers; a last one that is not full begins earlier, and folds some columns
// once more. Nothing is written before all of them are certain.
#if !defined(SOW_LEVEL)

#include "cpu/rows/row_tile.h"

#include <cmath>

#include "core/exact/exact_rows.h"
#include "cpu/backward/extreme_grad.h"
#include "cpu/common/prefetch.h"
#include "cpu/rows/row_state.h"

#define SOW_KERNELS "cpu/rows/row_tile.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

int row_shift(const void* src, int64_t src_step, int columns) {
  const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(src) % 64);
  return columns == kTileColumns && src_step % 64 == 0 && shift % 4 == 0 ? shift : 0;
}

FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns, int shift) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return row_tile_avx512(dtype, reduce, columns, shift);
  }
  return SOW_BY_LEVEL(kernel_for)(dtype, reduce, columns);
}

ExtremeGradKernel extreme_grad_kernel(DType dtype, int shift) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return extreme_grad_avx512(dtype, shift);
  }
  return nullptr;
}

}  // namespace sow::detail

#else

namespace sow::detail::SOW_LEVEL {
namespace {

// A vector of columns: of the narrow floats as many as it has float32, of float64 as many as that.
template <class T>
constexpr int kColumns = sizeof(T) == 8 ? kLanes64 : kLanes32;
constexpr int kMostVectors = 2;

template <class T>
constexpr uint32_t kQuietNan = std::is_same_v<T, float>      ? 0x7fc00000u
                               : std::is_same_v<T, bfloat16> ? 0x7fc0u
                                                             : 0x7e00u;

// Writes the columns of a vector, rounded once.
template <class T>
SOW_VECTOR void put_numbers(T* to, const F64* values) {
  alignas(64) uint32_t bits[kLanes32];
  for (int i = 0; i < 2; ++i) {
    if constexpr (sizeof(T) == 4) {
      store(to + i * kLanes64, rounded_bits<T>(values[i]));
    } else {
      store(bits + i * kLanes64, rounded_bits<T>(values[i]));
    }
  }
  if constexpr (sizeof(T) == 2) store(to, narrowed(load<U32>(bits)));
}
// The same, every NaN as the contract has it.
template <class T>
SOW_VECTOR void put(T* to, const F64* values) {
  alignas(64) uint32_t bits[kLanes32];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    HalfU32 rounded = rounded_bits<T>(values[i]);
    const HalfU32 nan = (HalfU32)narrowed((I64)(values[i] != values[i]));
    rounded = (rounded & ~nan) | (nan & kQuietNan<T>);
    store(bits + i * kLanes64, rounded);
  }
  if constexpr (sizeof(T) == 4) {
    std::memcpy(to, bits, sizeof(bits));
  } else {
    store(to, narrowed(load<U32>(bits)));
  }
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
  F64 sum[2];
  U32 most, least;  // bits of magnitudes; of the least one less, so that zeros do not count

  SOW_VECTOR void start(const T* old, const T*, bool self) {
    const F32 first = self ? load_floats(old) : all_of<F32>(-0.0F);  // which is nothing
    sum[0] = widened(low_half(first));
    sum[1] = widened(high_half(first));
    most = (U32)absolute(first);
    least = most - 1u;
  }
  SOW_VECTOR void add(const T* row) {
    const F32 values = load_floats(row);
    F64 wide[2];
    widen(row, values, wide);
    sum[0] += wide[0];
    sum[1] += wide[1];
    const U32 magnitude = (U32)absolute(values);
    most = max(most, magnitude);
    least = min(least, magnitude - 1u);
  }
  // False: not certain.
  template <Reduce R>
  SOW_VECTOR bool resolve(int64_t count, T* out, double* sums) const {
    if (any((I32)(most > 0x7f7fffffu))) return false;
    const int carries = bit_count(count - 1);
    const I32 inexact = (I32)(most >> 23) - (I32)(least >> 23) >
                        all_of<I32>(53 - FloatTraits<T>::kDigits - carries);
    const bool exact = !any(inexact);
    if (sums != nullptr) {
      store(sums, sum[0]);
      store(sums + kLanes64, sum[1]);
      return exact;
    }
    const double number = static_cast<double>(count);
    F64 lower[2] = {sum[0], sum[1]};
    if (exact) {
      for (int i = 0; i < 2 && R == Reduce::mean; ++i) lower[i] = lower[i] / number;
      put_numbers(out, lower);
      return true;
    }
    const F32 size = (F32)((U32)inexact & most);
    F64 greatest[2] = {sum[0], sum[1]},
        off[2] = {widened(low_half(size)), widened(high_half(size))};
    for (int i = 0; i < 2; ++i) {
      off[i] *= number * number * 0x1p-50;
      const I64 moves = off[i] != 0.0;  // zeros keep their sign
      lower[i] = moves ? sum[i] - off[i] : sum[i];
      greatest[i] = moves ? sum[i] + off[i] : sum[i];
      if (R == Reduce::mean) {
        lower[i] = lower[i] / number;
        greatest[i] = greatest[i] / number;
      }
    }
    T other[kLanes32];
    put_numbers(out, lower);
    put_numbers(other, greatest);
    return std::memcmp(out, other, sizeof(other)) == 0;
  }
  static int bit_count(int64_t number) {
    return number == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(number));
  }
};

// Of float64 in two parts, of which the first is all where nothing was lost. Elsewhere, with terms
// up to M, no partial sum was beyond 2 * count * M, what the first part lost each time beyond
// count * M / 2^52, and the second part beyond count^2 * M / 2^51: it is off by less than
// count^3 * M / 2^104, and the ends of that range by less than count^2 * M / 2^103. Where ends that
// lie further apart are rounded to the same bits, so is the real sum, and the mean.
template <>
struct Sum<double> {
  static constexpr int64_t kMost = kSpreadItems;
  F64 high, low, most;
  U64 lost;

  SOW_VECTOR void start(const double* old, const double*, bool self) {
    high = self ? load<F64>(old) : all_of<F64>(-0.0);  // which is nothing
    most = absolute(high);
    low = F64{};
    lost = U64{};
  }
  SOW_VECTOR void add(const double* row) {
    const F64 term = load<F64>(row), total = high + term, part = total - high;
    const F64 error = (high - (total - part)) + (term - part);
    high = total;
    low += error;
    lost |= (U64)error;
    most = max(most, absolute(term));
  }
  template <Reduce R>
  SOW_VECTOR bool resolve(int64_t count, double* out, double*) const {
    const double number = static_cast<double>(count);
    const F64 off = most * (number * number * number * 0x1p-101);
    const I64 inexact = (I64)(lost << 1 != 0u);  // an error may be -0
    F64 lower = inexact ? high + (low - off) : high, greatest = inexact ? high + (low + off) : high;
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
  static constexpr uint32_t kInfinity = FloatTraits<T>::kInfinity, kSign = FloatTraits<T>::kSign;
  I32 highest;
  U32 largest, smallest;

  SOW_VECTOR static U32 bits_at(const T* from) {
    if constexpr (sizeof(T) == 4)
      return load<U32>(from);
    else
      return widened(load<HalfU16>(from));
  }
  // Signed, of 16 bits in 32.
  SOW_VECTOR static I32 as_signed(U32 bits) {
    if constexpr (sizeof(T) == 4)
      return (I32)bits;
    else
      return (I32)(bits << 16);
  }
  SOW_VECTOR void start(const T* old, const T* row, bool self) {
    const U32 first = bits_at(self ? old : row);
    highest = as_signed(first);
    largest = smallest = first;
  }
  SOW_VECTOR void add(const T* row) {
    const U32 bits = bits_at(row);
    highest = max(highest, as_signed(bits));
    largest = max(largest, bits);
    smallest = min(smallest, bits);
  }
  template <Reduce>
  SOW_VECTOR bool resolve(int64_t, T* out, double*) const {
    const I32 top = sizeof(T) == 4 ? highest : highest >> 16;
    // Any positive number beats the negative ones for amax, any negative one for amin.
    const I32 wins = R == Reduce::amax ? (I32)(top >= 0) : (I32)(largest >= kSign);
    U32 best = wins ? (R == Reduce::amax ? (U32)top : largest) : smallest;
    const I32 nan =
        (I32)(top > static_cast<int32_t>(kInfinity)) | (I32)(largest > (kInfinity | kSign));
    best = nan ? all_of<U32>(kQuietNan<T>) : best;
    if constexpr (sizeof(T) == 4) {
      store(out, best);
    } else {
      store(out, narrowed(best));
    }
    return true;
  }
};
// Of float64: of two numbers that are equal the signs are those of zeros.
template <Reduce R>
struct Extreme<double, R> {
  static constexpr int64_t kMost = INT64_MAX;
  F64 best;
  I64 nan;

  SOW_VECTOR void start(const double* old, const double* row, bool self) {
    best = load<F64>(self ? old : row);
    nan = (I64)(best != best);
  }
  SOW_VECTOR void add(const double* row) {
    const F64 value = load<F64>(row);
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

// One chunk from 1, and then onto the old value.
static_assert(kSpreadItems <= kMulChunk);
template <class T>
struct Product {
  static constexpr int64_t kMost = kSpreadItems;
  static constexpr int kParts = sizeof(T) == 8 ? 1 : 2;
  F64 total[kParts], chunk[kParts];

  SOW_VECTOR static void read(const T* from, F64* out) {
    if constexpr (sizeof(T) == 8) {
      out[0] = load<F64>(from);
    } else {
      widen(from, load_floats(from), out);
    }
  }
  SOW_VECTOR void start(const T* old, const T*, bool self) {
    read(old, total);
    for (int i = 0; i < kParts; ++i) {
      chunk[i] = all_of<F64>(1.0);
      if (!self) total[i] = chunk[i];
    }
  }
  SOW_VECTOR void add(const T* row) {
    F64 terms[kParts];
    read(row, terms);
    for (int i = 0; i < kParts; ++i) chunk[i] *= terms[i];
  }
  template <Reduce>
  SOW_VECTOR bool resolve(int64_t, T* out, double*) const {
    F64 product[kParts];
    for (int i = 0; i < kParts; ++i) product[i] = total[i] * chunk[i];
    if constexpr (sizeof(T) == 8) {
      store(out, product[0] != product[0] ? all_of<I64>(0x7ff8000000000000) : (I64)product[0]);
    } else {
      put(out, product);
    }
    return true;
  }
};

// Into the second-level cache rows that come much later, and from there those that come soon.
template <int Bytes>  // of a row; 0: as the tile says
struct Prefetcher {
  const RowTile& tile;
  const int64_t bytes;

  SOW_VECTOR Prefetcher(const RowTile& rows, int size)
      : tile(rows), bytes(Bytes > 0 ? Bytes : rows.columns * int64_t{size}) {}

  SOW_VECTOR void prefetch_far(int64_t k) const {
    const char* row = tile.src + tile.far[k] * tile.src_step;
    for (int64_t i = 0; i < bytes; i += 64) prefetch_l2(row, i);
    prefetch_l2(row, bytes - 1);
  }
  SOW_VECTOR void prefetch_row(int64_t k) const {
    if (k < tile.far_count) prefetch_far(k);
    if (k + kMidRows < tile.known) {
      const char* mid = tile.src + tile.ids[k + kMidRows] * tile.src_step;
      for (int64_t i = 0; i < bytes; i += 64) prefetch_l2(mid, i);
    }
    if (k + kNearRows >= tile.known) return;
    const char* near = tile.src + tile.ids[k + kNearRows] * tile.src_step;
    for (int64_t i = 0; i < bytes; i += 64) prefetch(near, i);
  }
};

// Some vectors of columns from `first` on, of which the first prefetch. False: not certain.
template <class State, class T, Reduce R, int Vectors, bool Prefetches, int Bytes = 0>
bool fold_columns(const RowTile& tile, int first, T* out) {
  const T* const old = reinterpret_cast<const T*>(tile.dst) + first;
  const char* const src = tile.src + first * static_cast<int64_t>(sizeof(T));
  const uint32_t* const ids = tile.ids;
  const int64_t step = tile.src_step, count = tile.count;
  const Prefetcher<Bytes> prefetcher(tile, sizeof(T));
  State states[Vectors];
  const auto row = [&](int64_t k) { return reinterpret_cast<const T*>(src + ids[k] * step); };
#pragma GCC unroll 2
  for (int i = 0; i < Vectors; ++i)
    states[i].start(old + i * kColumns<T>, row(0) + i * kColumns<T>, tile.include_self);
  for (int64_t k = 0; k < count; ++k) {
    if (Prefetches) prefetcher.prefetch_row(k);
    const T* from = row(k);
#pragma GCC unroll 2
    for (int i = 0; i < Vectors; ++i) states[i].add(from + i * kColumns<T>);
  }
  for (int64_t k = count; Prefetches && k < tile.far_count; ++k) prefetcher.prefetch_far(k);
  bool certain = true;
#pragma GCC unroll 2
  for (int i = 0; i < Vectors; ++i) {
    const int at = first + i * kColumns<T>;
    certain &= states[i].template resolve<R>(count + tile.include_self, out + at,
                                             tile.sums == nullptr ? nullptr : tile.sums + at);
  }
  return certain;
}

template <class State, class T, Reduce R, bool Whole>
bool fold(const RowTile& tile) {
  constexpr int kBytes = Whole ? kTileColumns * static_cast<int>(sizeof(T)) : 0;
  constexpr int kBoth = kMostVectors * kColumns<T>;
  if (tile.count > State::kMost || (sizeof(T) == 8 && tile.sums != nullptr)) return false;
  alignas(64) T out[kTileColumns];
  const int columns = Whole ? kTileColumns : tile.columns;
  int at = 0;
  if (columns >= kBoth) {
    if (!fold_columns<State, T, R, kMostVectors, true, kBytes>(tile, 0, out)) return false;
    for (at = kBoth; at + kBoth <= columns; at += kBoth)
      if (!fold_columns<State, T, R, kMostVectors, false>(tile, at, out)) return false;
  } else {
    if (!fold_columns<State, T, R, 1, true>(tile, 0, out)) return false;
    at = kColumns<T>;
  }
  if (at < columns) {
    const bool two = columns - at > kColumns<T>;
    if (two && !fold_columns<State, T, R, kMostVectors, false>(tile, columns - kBoth, out))
      return false;
    if (!two && !fold_columns<State, T, R, 1, false>(tile, columns - kColumns<T>, out))
      return false;
  }
  if (tile.sums == nullptr) std::memcpy(tile.dst, out, static_cast<size_t>(columns) * sizeof(T));
  return true;
}

template <class T, bool Whole>
FoldRowTile kernel_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::add:
      return fold<Sum<T>, T, Reduce::add, Whole>;
    case Reduce::mean:
      return fold<Sum<T>, T, Reduce::mean, Whole>;
    case Reduce::mul:
      return fold<Product<T>, T, Reduce::mul, Whole>;
    case Reduce::amax:
      return fold<Extreme<T, Reduce::amax>, T, Reduce::amax, Whole>;
    case Reduce::amin:
      return fold<Extreme<T, Reduce::amin>, T, Reduce::amin, Whole>;
    default:
      return nullptr;
  }
}
template <class T>
FoldRowTile kernel_of(Reduce reduce, int columns) {
  if (columns < kColumns<T>) return nullptr;
  return columns == kTileColumns ? kernel_of<T, true>(reduce) : kernel_of<T, false>(reduce);
}

FoldRowTile kernel_for(DType dtype, Reduce reduce, int columns) {
  switch (dtype) {
    case DType::float32:
      return kernel_of<float>(reduce, columns);
    case DType::bfloat16:
      return kernel_of<bfloat16>(reduce, columns);
    case DType::float16:
      return kernel_of<float16>(reduce, columns);
    case DType::float64:
      return kernel_of<double>(reduce, columns);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif

// SPDX-License-Identifier: Apache-2.0
// Exact sums in global memory, one atomic addition of 64-bit fixed point (two for float64) per
// update: how terms are added, and what is kept of those that fixed point does not hold.
//
// Everything here is zero between calls: what a call adds, it clears again as it writes the result.
#pragma once

#include "cuda/atomic/cell_batch.cuh"
#include "cuda/common/ordered_bits.cuh"
#include "cuda/runtime/failure.cuh"
#include "cuda/sum/fixed_point.cuh"
#include "cuda/sum/sum_fold.cuh"

namespace sow::detail::cuda {

// The word of a cell: which zeros came, and the last update that fixed point did not hold; each
// such update knows the one before it.
inline constexpr uint32_t kSawPlusZero = 1, kSawMinusZero = 2;
inline constexpr uint32_t kAsked = 4, kCame = 8;  // of cells whose keys must be asked who came
inline constexpr uint32_t kLong = 16;             // more are linked than one thread should follow
inline constexpr int kLinkShift = 5;
inline constexpr int64_t kMostUpdates = int64_t{1} << (32 - kLinkShift);

struct SumHead {
  CallHead call;        // its flag is for calls that are given no other
  uint32_t linked;      // some cell has a word
  uint32_t overflowed;  // some place got more rows than its list holds
};

struct SumArgs {
  Problem p;
  SimpleUpdates simple;  // where keys and values are two runs of memory
  int binades;           // of the fixed-point range: few enough that all updates fit a cell
  int low_bits;          // of two words, those in the first
  int64_t updates, cells, columns;
  int64_t cells_per_block;
  bool mean, counted;  // counts say who came, where the old value does not count or a mean is asked
  bool plain_dst;      // cells lie as the destination does
  bool by_offset;      // and are numbered by offsets in it
  bool counts_by_last;  // so few counts that the last block clears them
  SumHead* head;
  int* first;                // exponent field where the fixed-point range begins
  unsigned long long* sums;  // side by side in rows, where a warp adds to many
  int64_t cell_step, word_step;
  uint32_t* words;
  uint32_t* counts;  // by place
  uint32_t* before;  // by update: one more than the update linked before it, 0: none
  int most_chain;
  // Of rows, where places list them at first (row_lists.cuh); slots 0: they do not.
  int slots, slot_bits;   // of a list, a power of two
  int list_places;        // that a block takes at a time
  uint32_t* list_counts;  // by place, zero between calls
  uint32_t* lists;        // by place, offsets of rows in the source
  Flag* flag;
  bool reports;  // bad keys, by the reporter
  KeyReporter reporter;
};

template <class T>
__device__ inline T* place_of_cell(const SumArgs& a, int64_t cell) {
  return reinterpret_cast<T*>(a.p.dst) + (a.plain_dst ? cell : offset_of_cell(a.p, cell));
}

template <class T>
inline constexpr int kSumWordsOf = sizeof(T) == 8 ? 2 : 1;

// A sum or a term in fixed point.
template <class T>
struct FixedPoint {
  long long low = 0, high = 0;  // high * 2^low_bits + low

  __device__ bool is_zero() const { return (low | high) == 0; }
};

// What a term adds; false where it lies outside of the range.
template <class T>
__device__ inline bool to_fixed_point(const SumArgs& a, int first, T value, FixedPoint<T>& out) {
  if constexpr (kSumWordsOf<T> == 1) {
    int64_t amount;
    const bool held = fixed_point_amount(value, first, a.binades, amount);
    out.low = amount;
    return held;
  } else {
    using Traits = FloatTraits<T>;
    const uint64_t bits = bit_cast<uint64_t>(value);
    const uint32_t field =
        static_cast<uint32_t>(bits >> (Traits::kDigits - 1)) & ((1u << Traits::kExponentBits) - 1);
    const uint32_t shift = field - static_cast<uint32_t>(first);
    const uint64_t mantissa = (bits & (Traits::kHidden - 1)) | Traits::kHidden;
    const unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << (shift & 63);
    const auto low =
        static_cast<long long>(static_cast<uint64_t>(wide) & ((uint64_t{1} << a.low_bits) - 1));
    const auto high = static_cast<long long>(static_cast<uint64_t>(wide >> a.low_bits));
    const bool negative = (bits & Traits::kSign) != 0;
    out = {negative ? -low : low, negative ? -high : high};
    return shift < static_cast<uint32_t>(a.binades);
  }
}

template <class T>
__device__ inline void add_fixed_point(const SumArgs& a, int64_t cell, FixedPoint<T> amount) {
  unsigned long long* sums = a.sums + (kSumWordsOf<T> == 1 ? cell : cell * a.cell_step);
  atomicAdd(sums, static_cast<unsigned long long>(amount.low));
  if constexpr (kSumWordsOf<T> == 2)
    atomicAdd(sums + a.word_step, static_cast<unsigned long long>(amount.high));
}

template <class T>
__device__ __noinline__ static void link_update(const SumArgs& a, int64_t cell, T value,
                                                uint32_t update) {
  const Term<T> term(value);
  uint32_t* word = a.words + cell;
  a.head->linked = 1;
  if (term.magnitude() == 0) {
    const uint32_t seen = *const_cast<volatile uint32_t*>(word);
    const uint32_t bit = term.negative() ? kSawMinusZero : kSawPlusZero;
    if ((seen & bit) == 0) atomicOr(word, bit);
    return;
  }
  // An exchange never fails, however many meet here; whoever takes the zeros' bits away puts them
  // back.
  constexpr uint32_t kZeros = kSawPlusZero | kSawMinusZero;
  const uint32_t seen = atomicExch(word, (update + 1) << kLinkShift);
  a.before[update] = seen >> kLinkShift;
  if ((seen & kZeros) != 0) atomicOr(word, seen & kZeros);
}

template <class T>
__device__ inline void add_update(const SumArgs& a, int first, int64_t cell, T given,
                                  uint32_t update) {
  const T value = a.p.negate ? flip_sign(given) : given;
  FixedPoint<T> amount;
  if (to_fixed_point(a, first, value, amount))
    add_fixed_point(a, cell, amount);
  else
    link_update(a, cell, value, update);
}

// As add_update, where neighbouring lanes may meet: the last of a run of one cell adds for all of
// it, if there are many such.
template <class T>
__device__ inline void add_met_update(const SumArgs& a, int first, int cell, T given,
                                      uint32_t update) {
  constexpr int kFewMeet = 6;
  if (__activemask() != ~0u) return add_update(a, first, cell, given, update);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool starts = __shfl_up_sync(~0u, cell, 1) != cell || lane == 0;
  const uint32_t heads = __ballot_sync(~0u, starts);
  if (32 - __popc(heads) < kFewMeet) return add_update(a, first, cell, given, update);
  const T value = a.p.negate ? flip_sign(given) : given;
  FixedPoint<T> amount;
  if (!to_fixed_point(a, first, value, amount)) {
    link_update(a, cell, value, update);
    amount = {};
  }
  __syncwarp();
  const int run = 31 - __clz(static_cast<int>(heads & (~0u >> (31 - lane))));  // where it starts
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const long long low = __shfl_up_sync(~0u, amount.low, apart);
    if (lane - apart >= run) amount.low += low;
    if constexpr (kSumWordsOf<T> == 2) {
      const long long high = __shfl_up_sync(~0u, amount.high, apart);
      if (lane - apart >= run) amount.high += high;
    }
  }
  if (lane == 31 || (heads >> (lane + 1) & 1) != 0) add_fixed_point(a, cell, amount);
}

// The value of an update by its number, as it is added.
template <class T>
__device__ inline T value_of_update(const SumArgs& a, uint32_t update) {
  const int64_t position = a.columns == 1 ? update : update / a.columns;
  bool bad = false;
  const Item item = decode_any(a.p, position, bad);
  const int64_t column = update - position * a.columns;
  const T value = load_value<T>(a.p, item.src + (a.columns == 1 ? 0 : column_at(a.p, column).src));
  return a.p.negate ? flip_sign(value) : value;
}

__device__ inline double power_of_two(int exponent) {
  return bit_cast<double>(exponent >= -1022 ? static_cast<uint64_t>(exponent + 1023) << 52
                                            : uint64_t{1} << (exponent + 1074));
}

// The result of a cell that few updates are linked to, where float64 arithmetic can tell it.
template <class T>
__device__ inline bool finish_quickly(const SumArgs& a, int first, FixedPoint<T> sum, uint32_t word,
                                      int64_t count, T old, T& out) {
  constexpr int kFewLinks = 8;
  const SumFold<T> fold = {a.p.include_self, false, a.mean};
  const int unit_exponent = FloatTraits<T>::kUnitExponent + first - 1;
  uint32_t link = word >> kLinkShift;
  if constexpr (kSumWordsOf<T> == 1) {
    const double unit = power_of_two(unit_exponent);
    double least = __ll2double_rd(sum.low) * unit, most = __ll2double_ru(sum.low) * unit;
    for (int i = 0; link != 0 && i < kFewLinks; ++i) {
      const double value = widen(value_of_update<T>(a, link - 1));
      least = __dadd_rd(least, value);
      most = __dadd_ru(most, value);
      link = __ldcg(a.before + link - 1);
    }
    if (link != 0) return false;
    if (a.p.include_self) {
      least = __dadd_rd(least, widen(old));
      most = __dadd_ru(most, widen(old));
    }
    return fold.finish_between(least, most, count, out);
  } else {
    // The largest power of two that a part is multiplied by, and 33 bits of it.
    if (unit_exponent + a.low_bits + 63 > 1023) return false;
    typename SumFold<T>::Partial parts = fold.start_partial();
    parts.add(static_cast<double>(sum.high >> 30) * power_of_two(unit_exponent + a.low_bits + 30));
    parts.add(static_cast<double>(sum.high & ((1ll << 30) - 1)) *
              power_of_two(unit_exponent + a.low_bits));
    parts.add(static_cast<double>(sum.low) * power_of_two(unit_exponent));
    for (int i = 0; link != 0 && i < kFewLinks; ++i) {
      parts.add(value_of_update<T>(a, link - 1));
      link = __ldcg(a.before + link - 1);
    }
    return link == 0 && fold.finish_partial(parts, old, count, out);
  }
}

// Any sum. False where the chain of linked updates is too long for one thread.
template <class T>
__device__ __noinline__ static bool finish_slowly(const SumArgs& a, int first, FixedPoint<T> fixed,
                                                  uint32_t word, int64_t count, T old, T& out) {
  LongAccumulator<T> sum;
  sum.add_units(fixed.low, first - 1);
  if constexpr (kSumWordsOf<T> == 2) sum.add_units(fixed.high, first - 1 + a.low_bits);
  // Terms that cancel are +0, whatever zeros came beside them.
  const bool cancelled = !fixed.is_zero() || (word & kCame) != 0 ||
                         (a.counted && word >> kLinkShift == 0 && (word & kSawMinusZero) == 0);
  if (cancelled || (word & kSawPlusZero) != 0) sum.add_flags({SumFlags::kNotMinusZero});
  int steps = 0;
  for (uint32_t link = word >> kLinkShift; link != 0; link = __ldcg(a.before + link - 1)) {
    if (++steps > a.most_chain) return false;
    sum.add(value_of_update<T>(a, link - 1));
  }
  out = SumFold<T>{a.p.include_self, false, a.mean}.finish_long(sum, old, count);
  return true;
}

}  // namespace sow::detail::cuda

// SPDX-License-Identifier: Apache-2.0
// Exact fixed-point sums of many places in global memory: terms outside the range are listed and
// added to limbs by exponent; then places are written, and resolved in a second pass where a sum of
// zero leaves open whether any update arrived.
#pragma once

#include "cuda/common/ordered_bits.cuh"
#include "cuda/sum/fixed_point.cuh"

namespace sow::detail::cuda {

// Beside the flags of SumFlags: a zero or special term came; a term that is neither came (known
// only after mark_touched); only its keys can tell whether anybody came. Above them, one more than
// the place's row of limbs, where it has one.
inline constexpr uint32_t kTouched = 16, kMarked = 32, kLeft = 64;
inline constexpr int kRowShift = 8;
inline constexpr int64_t kMostListed = (int64_t{1} << (32 - kRowShift)) - 2;
inline constexpr int kSampleThreads = 1024;

struct LimbHead {
  int first;           // exponent field where the fixed-point range begins
  uint32_t ambiguous;  // some place was left
  unsigned long long
      outside;  // updates outside the fixed-point range, where they were counted before
  unsigned long long outliers;  // those that were to be listed
};

struct LimbArgs {
  Problem p;
  int binades;  // of the fixed-point range and of a limb: few enough that all updates fit one
  int limbs;
  int64_t cells;
  LimbHead* head;
  unsigned long long* sums;
  uint32_t* flags;
  int64_t most_listed;
  uint32_t* listed_cells;
  char* listed_values;
  int64_t rows;                  // of limbs
  unsigned long long* limbs_at;  // [limb][row]
  Flag* flag;
};

// What depends on the type alone.
struct LimbWidths {
  int digits, most_shift;
};
inline LimbWidths limb_widths(DType dtype) {
  return with_fixed_point(dtype, [](auto zero) {
    using T = decltype(zero);
    return LimbWidths{FloatTraits<T>::kDigits, LimbFormat<T>::kMaxShift};
  });
}
inline int binades_of(const Problem& p) {
  return fixed_point_binades(limb_widths(p.dtype).digits, limb_widths(p.dtype).most_shift,
                             p.positions());
}
inline int limbs_of(const Problem& p) {
  return limb_widths(p.dtype).most_shift / binades_of(p) + 1;
}

inline LimbArgs limb_args(const Problem& p) {
  LimbArgs a = {};
  a.p = p;
  a.binades = binades_of(p);
  a.limbs = limbs_of(p);
  a.cells = cell_count(p);
  a.most_listed = std::clamp<int64_t>(p.positions() * p.columns() / 64, 1024, kMostListed);
  a.rows = a.most_listed;
  return a;
}

// What has to be zero at first.
inline void carve_flags(Carver& carver, LimbArgs& a) {
  a.head = carver.take<LimbHead>(1);
  a.flags = carver.take<uint32_t>(a.cells);
}
inline void carve_sums(Carver& carver, LimbArgs& a) {
  a.sums = carver.take<unsigned long long>(a.cells);
}
inline void carve_lists(Carver& carver, LimbArgs& a) {
  a.listed_cells = carver.take<uint32_t>(a.most_listed);
  a.listed_values = carver.take<char>(a.most_listed * a.p.width);
  a.limbs_at = carver.take<unsigned long long>(a.rows * a.limbs);
}

template <class T>
__global__ void __launch_bounds__(kSampleThreads) choose_scale(const __grid_constant__ LimbArgs a) {
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  const int first = sample_scale<T>(a.p, a.binades, counts);
  if (threadIdx.x == 0) a.head->first = first;
}

// More outliers than can be listed.
__device__ inline bool is_dense(const LimbArgs& a) {
  return max(a.head->outside, a.head->outliers) > static_cast<unsigned long long>(a.most_listed);
}

// A term that the fixed-point range does not hold: a flag or an entry of the list.
enum class Noted { flag, entry, full };
template <class T>
__device__ inline Noted note_outlier(const LimbArgs& a, int64_t cell, T value) {
  const Term<T> term(value);
  if (term.magnitude() == 0 || !term.finite()) {
    const uint32_t seen = SumFlags::of(term, term.negative()) | kTouched;
    if ((a.flags[cell] & seen) != seen) atomicOr(a.flags + cell, seen);
    return Noted::flag;
  }
  const unsigned long long at = atomicAdd(&a.head->outliers, 1ull);
  if (at >= static_cast<unsigned long long>(a.most_listed)) return Noted::full;
  a.listed_cells[at] = static_cast<uint32_t>(cell);
  reinterpret_cast<T*>(a.listed_values)[at] = value;
  return Noted::entry;
}

template <class T>
__device__ inline void add_to_limbs(const LimbArgs& a, unsigned long long* limbs, int64_t rows,
                                    int64_t row, T value) {
  const Term<T> term(value);
  const int limb = term.shift() / a.binades;
  const auto amount = static_cast<long long>(term.mantissa() << (term.shift() - limb * a.binades));
  atomicAdd(limbs + limb * rows + row,
            static_cast<unsigned long long>(term.negative() ? -amount : amount));
}

// A row of limbs for the place of every listed update: the row of one that comes first.
static __global__ void __launch_bounds__(kThreads) give_rows(const __grid_constant__ LimbArgs a) {
  if (is_dense(a)) return;
  for (int64_t i = global_thread(); i < static_cast<int64_t>(a.head->outliers);
       i += grid_threads()) {
    for (int limb = 0; limb < a.limbs; ++limb) a.limbs_at[limb * a.rows + i] = 0;
    uint32_t* flags = a.flags + a.listed_cells[i];
    for (uint32_t seen = *flags; seen >> kRowShift == 0;) {
      const uint32_t before =
          atomicCAS(flags, seen, seen | static_cast<uint32_t>(i + 1) << kRowShift);
      if (before == seen) break;
      seen = before;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_outliers(const __grid_constant__ LimbArgs a) {
  if (is_dense(a)) return;
  for (int64_t i = global_thread(); i < static_cast<int64_t>(a.head->outliers);
       i += grid_threads()) {
    const int64_t row = static_cast<int64_t>(a.flags[a.listed_cells[i]] >> kRowShift) - 1;
    add_to_limbs(a, a.limbs_at, a.rows, row, reinterpret_cast<const T*>(a.listed_values)[i]);
  }
}

template <class T>
__device__ inline bool changes_with_zero(T old) {  // by a sum of zero that somebody came to
  const Term<T> term(old);
  return term.nan() || (term.magnitude() == 0 && term.negative());
}

// Whether limbs that add up to zero leave it open who came: terms that cancel, only -0, or nobody.
__device__ inline bool is_open(uint32_t seen) {
  return (seen & ~(kTouched | kMarked | kLeft)) == 0;
}

// The result where the sum of the terms lies between two numbers, if that tells it; a sum of zero
// is +0.
template <class T>
__device__ inline bool finish_between(const LimbArgs& a, double least, double most, T old, T& out) {
  if (a.p.include_self) {
    least = __dadd_rd(least, widen(old));
    most = __dadd_ru(most, widen(old));
  }
  using Bits = typename FloatTraits<T>::Bits;
  out = static_cast<T>(most);
  return least == most || bit_cast<Bits>(static_cast<T>(least)) == bit_cast<Bits>(out);
}

// The unit of a fixed-point sum.
template <class T>
__device__ inline double scale_factor(const LimbArgs& a) {
  const uint64_t exponent = 1023 + FloatTraits<T>::kUnitExponent + a.head->first - 1;
  return bit_cast<double>(exponent << 52);
}

// The sum where a place has no limbs.
template <class T>
__device__ inline bool finish_fixed_point(const LimbArgs& a, int64_t fixed, T old, T& out) {
  const double unit = scale_factor<T>(a);
  return finish_between(a, __ll2double_rd(fixed) * unit, __ll2double_ru(fixed) * unit, old, out);
}

// Writes a place by its exact sum; `add(sum)` adds what is known of it.
template <class T, class Add>
__device__ inline void finish_long(const LimbArgs& a, SumFlags flags, T old, T* at, Add&& add) {
  LongAccumulator<T> sum;
  add(sum);
  sum.add_flags(flags);
  if (a.p.include_self) sum.add(old);
  *at = sum.round();
}

// Writes a place that its fixed-point sum, limbs (where `row` is not negative) and flags decide;
// false where only its keys can tell whether anybody came. `known`: they were asked.
template <class T>
__device__ inline bool finish_cell(const LimbArgs& a, int64_t cell, int64_t fixed, int64_t row,
                                   bool known, uint32_t seen, T old, T* at) {
  seen &= (1u << kRowShift) - 1;
  const bool zero = fixed == 0 && row < 0, open = zero && is_open(seen);
  if (open && !known) return a.p.include_self && !changes_with_zero(old);
  if (open && (seen & (kTouched | kMarked)) == 0) return true;  // nobody came
  if (!zero || (seen & kMarked) != 0) seen |= SumFlags::kNotMinusZero;
  const SumFlags flags{seen & ~(kTouched | kMarked | kLeft)};
  if (!zero && row < 0 && !flags.special() && Term<T>(old).finite() &&
      finish_fixed_point(a, fixed, old, *at))
    return true;
  finish_long(a, flags, old, at, [&](LongAccumulator<T>& sum) {
    sum.add_units(fixed, a.head->first - 1);
    for (int limb = 0; row >= 0 && limb < a.limbs; ++limb) {
      sum.add_units(static_cast<int64_t>(a.limbs_at[limb * a.rows + row]), limb * a.binades);
    }
  });
  return true;
}
template <class T>
__device__ inline T* place_of_cell(const LimbArgs& a, int64_t cell) {
  return reinterpret_cast<T*>(a.p.dst) + offset_of_cell(a.p, cell);
}

// The first time: what its keys must be asked for is left.
template <class T>
__device__ inline void finish_or_leave(const LimbArgs& a, int64_t cell, int64_t fixed, int64_t row,
                                       uint32_t seen, T old, T* at) {
  if (finish_cell(a, cell, fixed, row, false, seen, old, at)) return;
  a.flags[cell] = seen | kLeft;
  a.head->ambiguous = 1;
}

template <class T>
__global__ void __launch_bounds__(kThreads) finish_listed(const __grid_constant__ LimbArgs a) {
  if (is_dense(a) || is_bad(a.flag)) return;
  for (int64_t i = global_thread(); i < static_cast<int64_t>(a.head->outliers);
       i += grid_threads()) {
    const int64_t cell = a.listed_cells[i];
    const uint32_t seen = a.flags[cell];
    const int64_t row = static_cast<int64_t>(seen >> kRowShift) - 1;
    T* at = place_of_cell<T>(a, cell);
    if (row == i)
      finish_cell(a, cell, static_cast<int64_t>(a.sums[cell]), row, true, seen, *at, at);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) mark_touched(const __grid_constant__ LimbArgs a) {
  if (a.head->ambiguous == 0 || is_bad(a.flag)) return;
  for_each_update<T>(a.p, a.flag, [&](int64_t cell, T value) {
    if ((a.flags[cell] & (kLeft | kMarked)) == kLeft && Term<T>(value).magnitude() != 0)
      atomicOr(a.flags + cell, kMarked);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) finish_left(const __grid_constant__ LimbArgs a) {
  if (a.head->ambiguous == 0 || is_bad(a.flag)) return;
  for (int64_t cell = global_thread(); cell < a.cells; cell += grid_threads()) {
    const uint32_t seen = a.flags[cell];
    T* at = place_of_cell<T>(a, cell);
    if ((seen & kLeft) != 0) finish_cell(a, cell, 0, -1, true, seen, *at, at);
  }
}

// From fixed-point sums to the destination; `finish` launches what writes all but listed places.
template <class T, class Finish>
void finish_sums(const Launch& launch, const LimbArgs& a, Finish&& finish) {
  const int few = 4 * launch.device.processors;
  const int by_listed = blocks_for(a.most_listed, kThreads, few);
  const int seldom = blocks_for(a.p.positions() * a.p.columns(), kThreads, few);
  give_rows<<<by_listed, kThreads, 0, launch.stream>>>(a);
  add_outliers<T><<<by_listed, kThreads, 0, launch.stream>>>(a);
  finish();
  finish_listed<T><<<by_listed, kThreads, 0, launch.stream>>>(a);
  mark_touched<T><<<seldom, kThreads, 0, launch.stream>>>(a);
  finish_left<T><<<seldom, kThreads, 0, launch.stream>>>(a);
  check_launch("sums");
}

}  // namespace sow::detail::cuda

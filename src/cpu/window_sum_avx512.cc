// Window loops of the narrow floats with AVX-512: values become integers, and sums floats, eight at
// a time. The forms with a full mask are the plain ones without their warnings in g++ 12.
#include <immintrin.h>

#include <cmath>

#include "core/isa.h"
#include "cpu/touch.h"
#include "cpu/window_floats_avx512.h"
#include "cpu/window_kernels.h"
#include "cpu/window_keys_avx512.h"
#include "cpu/window_units_avx512.h"

namespace sow::detail {

namespace {

template <class T>
SOW_TARGET_AVX512 void scan(const char* values, int64_t count, WindowRange& range) {
  const T* from = reinterpret_cast<const T*>(values);
  __m256i largest = _mm256_setzero_si256(), smallest = _mm256_set1_epi32(-1),
          lowest = _mm256_set1_epi32(INT32_MAX);
  const __m256i magnitude_bits = _mm256_set1_epi32(INT32_MAX), one = _mm256_set1_epi32(1);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i bits = _mm256_castps_si256(load(from + i));
    const __m256i magnitude = _mm256_and_si256(bits, magnitude_bits);
    largest = _mm256_max_epu32(largest, magnitude);
    smallest = _mm256_min_epu32(smallest, _mm256_sub_epi32(magnitude, one));
    lowest = _mm256_min_epi32(lowest, bits);
  }
  alignas(32) uint32_t largest_of[8], smallest_of[8];
  alignas(32) int32_t lowest_of[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(largest_of), largest);
  _mm256_store_si256(reinterpret_cast<__m256i*>(smallest_of), smallest);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lowest_of), lowest);
  for (int lane = 0; lane < 8; ++lane) {
    range.largest = std::max(range.largest, largest_of[lane]);
    range.smallest_less_one = std::min(range.smallest_less_one, smallest_of[lane]);
    range.lowest = std::min(range.lowest, lowest_of[lane]);
  }
  WindowLoops<T, Reduce::add>::scan(reinterpret_cast<const char*>(from + i), count - i, range);
}

// Keys and values in one pass. Values of which no digit is below the unit, nearly all, need no
// float64, and no number goes through memory: 10,000 updates of 500 cells take 4.7 us, with float64
// and numbers that are stored and loaded again 5.9; keys and additions alone 3.8. What is read next
// is sent for: 2^22 updates of 1,024 cells 2.1 ms instead of 2.2 (one core of a Zen 4 class EPYC,
// 2026-11-16).
template <bool Counts, bool Checks, class Reach, class T, class Id>
SOW_TARGET_AVX512 int64_t add_some(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const T* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  using Plain = WindowLoops<T, Reduce::add>;
  constexpr int kCount = Units<T>::kCount;
  Units<T> units(window);
  int64_t i = 0;
  for (; i + kCount + Reach::kAhead <= count; i += kCount) {
    for (size_t line = 0; line < kCount * sizeof(Id) / 64; ++line) {
      if (Checks) send_ahead(ids + i, kStream + static_cast<int64_t>(line) * 64);
      if (!Checks) send_for(soon, i * 8 + static_cast<int64_t>(line) * 64);
    }
    if (Checks) send_ahead(values + i, kStream / 2);
    const __m512 some = load_sixteen(values + i);
    __m512i whole[2];
    uint32_t delicate = units.convert(some, whole);
    if (Checks) delicate |= not_cells(ids + i, extent);
    if (__builtin_expect(delicate != 0, 0)) {
      delicate = units.convert_all(some, whole);
      if (Checks) delicate |= not_cells(ids + i, extent);
    }
    if (__builtin_expect(delicate != 0, 0)) {
      const int64_t taken =
          Plain::add_each(cells, seen, ids + i, extent, values + i, kCount, window, rests);
      if (taken == kCount) continue;
      units.leave(window);
      return i + taken;
    }
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) {
      if constexpr (Reach::kAhead > 0) {
        const auto next = static_cast<int64_t>(ids[i + k + Reach::kAhead]);
        Reach::send(cells, next * 8);
        if (Counts && std::is_same_v<Reach, Far>) Reach::send(seen, next * 4);
      }
      cells[ids[i + k]] += whole[k / 8][k % 8];
      if (Counts) ++seen[ids[i + k]];
    }
  }
  units.leave(window);
  if constexpr (Reach::kAhead > 0) {
    return i + add_some<Counts, Checks, Near>(cells, seen, ids + i, extent, values + i, count - i,
                                              window, rests, soon);
  }
  return i + Plain::add_each(cells, seen, ids + i, extent, values + i, count - i, window, rests);
}

template <bool Counts, bool Checks, class T, class Id>
auto adder(uint32_t extent) {
  auto* add = add_some<Counts, Checks, Near, T, Id>;
  if constexpr (Checks) {
    if (extent >= Beyond::kBytes / 8) add = add_some<Counts, Checks, Beyond, T, Id>;
    if (extent >= Far::kBytes / 8) add = add_some<Counts, Checks, Far, T, Id>;
  }
  return add;
}
template <bool Checks, class T, class Id>
SOW_TARGET_AVX512 int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const T* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  const auto add =
      seen != nullptr ? adder<true, Checks, T, Id>(extent) : adder<false, Checks, T, Id>(extent);
  for (int64_t at = 0; at < count;) {
    const int64_t some = std::min(count - at, Units<T>::kMost);
    const int64_t taken =
        add(cells, seen, ids + at, extent, values + at, some, window, rests, soon);
    at += taken;
    if (taken < some) return at;
  }
  return count;
}

template <class T>
SOW_TARGET_AVX512 int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids,
                              const char* values, int64_t count, Window& window, WindowRests& rests,
                              const char* soon) {
  const T* from = reinterpret_cast<const T*>(values);
  if (soon == nullptr) soon = values;  // a line that is here costs nothing, none at all a walk
  return add_each<false>(cells, seen, ids, UINT32_MAX, from, count, window, rests, soon);
}

template <class T>
SOW_TARGET_AVX512 int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys,
                                   int64_t first, int64_t count, Window& window,
                                   WindowRests& rests) {
  const T* from = reinterpret_cast<const T*>(keys.values) + first;
  return with_keys(keys, first, [&](const auto* ids) SOW_TARGET_AVX512 {
    return add_each<true>(cells, seen, ids, keys.extent, from, count, window, rests, nullptr);
  });
}

// Eight sums with their old values; says which of them cannot be told, and writes the others.
template <class T>
struct SumEnd {
  __m512d unit;

  SOW_TARGET_AVX512 __mmask8 write(const int64_t* cells, T* to) const {
    const __m512i cell = _mm512_loadu_si512(cells);
    const __m256 old = load(to);
    const __m512d sum = _mm512_maskz_cvtepi64_pd(0xff, cell);
    const __mmask8 some = _mm512_test_epi64_mask(cell, cell);
    constexpr int kNan = 0x81, kInfinite = 0x18, kMinusZero = 0x04;
    const __mmask8 delicate = _mm256_fpclass_ps_mask(old, kNan | kMinusZero);
    const __m512d a = _mm512_maskz_cvtps_pd(0xff, old), b = _mm512_mul_pd(sum, unit);
    const __m512d total = _mm512_add_pd(a, b);
    // Nearly always nothing is lost, and one rounding is left: both differences give back a term.
    __mmask8 exact = _mm512_cmp_pd_mask(_mm512_abs_pd(sum), _mm512_set1_pd(0x1p53), _CMP_LT_OQ);
    exact = _mm512_mask_cmp_pd_mask(exact, _mm512_sub_pd(total, a), b, _CMP_EQ_OQ);
    exact = _mm512_mask_cmp_pd_mask(exact, _mm512_sub_pd(total, b), a, _CMP_EQ_OQ);
    if (__builtin_expect(exact == 0xff && (~some & delicate) == 0, 1)) {
      store(to, some, total);
      return 0;
    }
    const __mmask8 inexact = _mm512_cmpneq_epi64_mask(_mm512_maskz_cvttpd_epi64(0xff, sum), cell);
    const __mmask8 special = _mm256_fpclass_ps_mask(old, kNan | kInfinite);
    const __mmask8 refused =
        static_cast<__mmask8>((some & (inexact | special)) | (~some & delicate));
    const __m512d part = _mm512_sub_pd(total, a);
    const __m512d error =
        _mm512_add_pd(_mm512_sub_pd(a, _mm512_sub_pd(total, part)), _mm512_sub_pd(b, part));
    // Round to odd: an even last digit moves towards the error.
    const __m512d zero = _mm512_setzero_pd();
    const __m512i bits = _mm512_castpd_si512(total), one = _mm512_set1_epi64(1);
    const __mmask8 moves = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_NEQ_OQ) &
                                                 _mm512_testn_epi64_mask(bits, one));
    const __mmask8 inward = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_GT_OQ) ^
                                                  _mm512_cmp_pd_mask(total, zero, _CMP_GT_OQ));
    __m512i odd = _mm512_mask_add_epi64(bits, moves & static_cast<__mmask8>(~inward), bits, one);
    odd = _mm512_mask_sub_epi64(odd, moves & inward, bits, one);
    store(to, some & static_cast<__mmask8>(~refused), _mm512_castsi512_pd(odd));
    return refused;
  }
};

// Eight sums or means where updates are counted. Writes those that were met and are finite sums
// which a float64 holds, rounded once before they are divided; says which the others are.
template <class T, Reduce R>
struct CountedEnd {
  __m512d unit;
  bool self, minus_zeros;

  SOW_TARGET_AVX512 __mmask8 write(const int64_t* cells, const uint32_t* counts, T* to) const {
    constexpr int kSpecial = 0x99;  // NaN and infinities
    const __m512i cell = _mm512_loadu_si512(cells);
    const __m256i seen = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(counts));
    const __mmask8 met = _mm256_test_epi32_mask(seen, seen);
    const __m512d sum = _mm512_maskz_cvtepi64_pd(0xff, cell);
    __mmask8 plain = _mm512_cmp_pd_mask(_mm512_abs_pd(sum), _mm512_set1_pd(0x1p53), _CMP_LT_OQ);
    if (minus_zeros) plain &= _mm512_test_epi64_mask(cell, cell);
    __m512d total = _mm512_mul_pd(sum, unit);
    if (self) {
      const __m256 old = load(to);
      plain &= static_cast<__mmask8>(~_mm256_fpclass_ps_mask(old, kSpecial));
      total = _mm512_add_pd(_mm512_maskz_cvtps_pd(0xff, old), total);
    }
    if constexpr (R == Reduce::mean) {
      const __m256i count = _mm256_add_epi32(seen, _mm256_set1_epi32(self));
      total = _mm512_div_pd(total, _mm512_maskz_cvtepu32_pd(0xff, count));
    }
    store(to, met & plain, total);
    return static_cast<__mmask8>(met & ~plain);
  }
};

// Near the end of the room one by one, so that it can stop there.
template <class T>
SOW_TARGET_AVX512 int64_t finish_sums(const int64_t* cells, T* to, int64_t i, int64_t end,
                                      __m512d unit, Touched& refused, int64_t room) {
  const SumEnd<T> each{unit};
  for (; i + 8 <= end && refused.count + 8 < room; i += 8) {
    for (uint32_t left = each.write(cells + i, to + i); left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      refused.note(cell, cell);
    }
  }
  return i;
}
template <class T, Reduce R>
SOW_TARGET_AVX512 int64_t finish_counted(const int64_t* cells, const uint32_t* seen,
                                         const Block& block, int64_t i, int64_t end, __m512d unit,
                                         Window window, Touched& refused, int64_t room) {
  T* to = reinterpret_cast<T*>(block.first);
  const CountedEnd<T, R> each{unit, block.include_self, window.minus_zeros};
  for (; i + 8 <= end && refused.count + 8 < room; i += 8) {
    for (uint32_t left = each.write(cells + i, seen + i, to + i); left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      WindowLoops<T, R>::finish(cells, seen, block, cell, cell + 1, window, refused, room);
    }
  }
  return i;
}
template <class T, Reduce R>
SOW_TARGET_AVX512 int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                                 int64_t begin, int64_t end, Window window, Touched& refused,
                                 int64_t room) {
  using Plain = WindowLoops<T, R>;
  // With old values, what is not divided is rounded once.
  const bool counted = seen != nullptr && (R == Reduce::mean || !block.include_self);
  const bool summed = seen == nullptr && R == Reduce::add && block.include_self;
  if (block.step != 1 || !(counted || summed)) {
    return Plain::finish(cells, seen, block, begin, end, window, refused, room);
  }
  const __m512d unit = _mm512_set1_pd(std::ldexp(1.0, window.exponent));
  const int64_t i =
      counted
          ? finish_counted<T, R>(cells, seen, block, begin, end, unit, window, refused, room)
          : finish_sums(cells, reinterpret_cast<T*>(block.first), begin, end, unit, refused, room);
  return Plain::finish(cells, seen, block, i, std::min(end, i + 7), window, refused, room);
}

}  // namespace

template <class T>
void use_avx512(WindowKernels& kernels) {
  kernels.scan = scan<T>;
  kernels.add = add<T>;
  kernels.add_keys = add_keys<T>;
  use_avx512<T>(kernels.wide, kernels.counts);
  kernels.finish = kernels.counts ? finish<T, Reduce::mean> : finish<T, Reduce::add>;
}
template void use_avx512<float>(WindowKernels& kernels);
template void use_avx512<float16>(WindowKernels& kernels);
template void use_avx512<bfloat16>(WindowKernels& kernels);

}  // namespace sow::detail

// Window loops of float64 with AVX-512: a value becomes two integers, eight at a time, and both are
// added to their cell at once.
#include <immintrin.h>

#include "core/isa.h"
#include "cpu/touch.h"
#include "cpu/window_kernels.h"
#include "cpu/window_keys_avx512.h"

namespace sow::detail {

namespace {

using Plain = WindowLoops<double, Reduce::add>;
constexpr int kLanes = 8;

SOW_TARGET_AVX512 void scan(const char* values, int64_t count, WindowRange& range) {
  const double* from = reinterpret_cast<const double*>(values);
  __m512i largest = _mm512_setzero_si512(), smallest = _mm512_set1_epi64(-1),
          lowest = _mm512_set1_epi64(INT64_MAX);
  const __m512i magnitude_bits = _mm512_set1_epi64(INT64_MAX), one = _mm512_set1_epi64(1);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m512i bits = _mm512_loadu_si512(from + i);
    const __m512i magnitude = _mm512_and_si512(bits, magnitude_bits);
    largest = _mm512_maskz_max_epu64(0xff, largest, magnitude);
    smallest = _mm512_maskz_min_epu64(0xff, smallest, _mm512_sub_epi64(magnitude, one));
    lowest = _mm512_maskz_min_epi64(0xff, lowest, bits);
  }
  alignas(64) uint64_t largest_of[kLanes], smallest_of[kLanes];
  alignas(64) int64_t lowest_of[kLanes];
  _mm512_store_si512(largest_of, largest);
  _mm512_store_si512(smallest_of, smallest);
  _mm512_store_si512(lowest_of, lowest);
  for (int lane = 0; lane < kLanes; ++lane) {
    range.largest = std::max(range.largest, static_cast<uint32_t>(largest_of[lane] >> 32));
    range.smallest_less_one =
        std::min(range.smallest_less_one, static_cast<uint32_t>(smallest_of[lane] >> 32));
    range.lowest = std::min(range.lowest, static_cast<int32_t>(lowest_of[lane] >> 32));
  }
  Plain::scan(reinterpret_cast<const char*>(from + i), count - i, range);
}

// Eight values as pairs of integers, rounded towards zero: those with even numbers, then the
// others.
struct Pairs {
  __m512i limit, least, minus_zero, magnitude;
  __m512d scale, low_scale, total;
  double most_low;  // of the second integers
  uint32_t minus_zeros = 0;

  SOW_TARGET_AVX512 explicit Pairs(const WindowForm<double>& form)
      : limit(_mm512_set1_epi64(static_cast<int64_t>(form.limit))),
        least(_mm512_set1_epi64(static_cast<int64_t>(form.least))),
        minus_zero(_mm512_set1_epi64(INT64_MIN)),
        magnitude(_mm512_set1_epi64(INT64_MAX)),
        scale(_mm512_set1_pd(form.scale)),
        low_scale(_mm512_set1_pd(form.low_scale)),
        total(_mm512_setzero_pd()),
        most_low(form.low_scale) {}

  // Those that the window does not take, and those that are not whole.
  [[gnu::always_inline]] SOW_TARGET_AVX512 inline uint32_t convert(const double* from,
                                                                   __m512i* pairs) {
    const __m512d values = _mm512_loadu_pd(from);
    const __m512i bits = _mm512_castpd_si512(values), size = _mm512_and_si512(bits, magnitude);
    minus_zeros |= _mm512_cmpeq_epi64_mask(bits, minus_zero);
    const uint32_t beyond =
        _mm512_cmpgt_epu64_mask(size, limit) |
        _mm512_mask_cmplt_epu64_mask(_mm512_test_epi64_mask(size, size), size, least);
    const __m512d scaled = _mm512_mul_pd(values, scale);
    total = _mm512_add_pd(total, _mm512_abs_pd(scaled));
    const __m512i first = _mm512_maskz_cvttpd_epi64(0xff, scaled);
    const __m512d part =
        _mm512_mul_pd(_mm512_sub_pd(scaled, _mm512_maskz_cvtepi64_pd(0xff, first)), low_scale);
    const __m512i second = _mm512_maskz_cvttpd_epi64(0xff, part);
    pairs[0] = _mm512_maskz_unpacklo_epi64(0xff, first, second);
    pairs[1] = _mm512_maskz_unpackhi_epi64(0xff, first, second);
    return beyond | _mm512_cmp_pd_mask(_mm512_maskz_cvtepi64_pd(0xff, second), part, _CMP_NEQ_UQ);
  }
  // Tells of so many values.
  SOW_TARGET_AVX512 void leave(Window& window, int64_t count) const {
    alignas(64) double lanes[kLanes];
    _mm512_store_pd(lanes, total);
    for (const double lane : lanes) window.sum += lane;
    window.sum += static_cast<double>(count) * most_low;
    window.minus_zeros |= minus_zeros != 0;
  }
};

template <int Which>
SOW_TARGET_AVX512 inline void add_pair(int64_t* cell, __m512i pairs) {
  __m128i* to = reinterpret_cast<__m128i*>(cell);
  const __m128i pair = _mm512_maskz_extracti64x2_epi64(0xff, pairs, Which);
  _mm_store_si128(to, _mm_add_epi64(_mm_load_si128(to), pair));
}
// Eight values, of which the even ones are in the first vector.
template <class Id>
SOW_TARGET_AVX512 inline void add_pairs(int64_t* cells, const Id* ids, const __m512i* pairs) {
  const auto cell = [&](int k) { return cells + int64_t{2} * ids[k]; };
  add_pair<0>(cell(0), pairs[0]);
  add_pair<0>(cell(1), pairs[1]);
  add_pair<1>(cell(2), pairs[0]);
  add_pair<1>(cell(3), pairs[1]);
  add_pair<2>(cell(4), pairs[0]);
  add_pair<2>(cell(5), pairs[1]);
  add_pair<3>(cell(6), pairs[0]);
  add_pair<3>(cell(7), pairs[1]);
}

template <bool Counts, bool Checks, class Reach, class Id>
SOW_TARGET_AVX512 int64_t add_some(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const double* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  constexpr int kCount = 2 * kLanes;
  Pairs converter{WindowForm<double>(window)};
  int64_t i = 0;
  for (; i + kCount + Reach::kAhead <= count; i += kCount) {
    __m512i pairs[4];
    uint32_t delicate =
        converter.convert(values + i, pairs) | converter.convert(values + i + kLanes, pairs + 2);
    if (Checks) delicate |= not_cells(ids + i, extent);
    if (__builtin_expect(delicate != 0, 0)) {
      const int64_t taken =
          Plain::add_each(cells, seen, ids + i, extent, values + i, kCount, window, rests);
      if (taken == kCount) continue;
      converter.leave(window, i);
      return i + taken;
    }
    if (!Checks) {
      send_for(soon, i * 8);
      send_for(soon, i * 8 + 64);
    }
    if (Checks) {
      send_ahead(values + i, kStream);
      send_ahead(values + i, kStream + 64);
      for (size_t at = 0; at < kCount * sizeof(Id); at += 64) {
        send_ahead(ids + i, kStream + static_cast<int64_t>(at));
      }
    }
    if constexpr (Reach::kAhead > 0) {
      for (int k = 0; k < kCount; ++k) {
        Reach::send(cells, static_cast<int64_t>(ids[i + k + Reach::kAhead]) * 16);
      }
    }
    add_pairs(cells, ids + i, pairs);
    add_pairs(cells, ids + i + kLanes, pairs + 2);
    for (int k = 0; Counts && k < kCount; ++k) ++seen[ids[i + k]];
  }
  converter.leave(window, i);
  if constexpr (Reach::kAhead > 0) {
    return i + add_some<Counts, Checks, Near>(cells, seen, ids + i, extent, values + i, count - i,
                                              window, rests, soon);
  }
  return i + Plain::add_each(cells, seen, ids + i, extent, values + i, count - i, window, rests);
}

template <bool Checks, class Id>
SOW_TARGET_AVX512 int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const double* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  auto* add =
      seen == nullptr ? add_some<false, Checks, Near, Id> : add_some<true, Checks, Near, Id>;
  if constexpr (Checks) {
    if (seen == nullptr && extent >= Beyond::kBytes / 16) add = add_some<false, true, Beyond, Id>;
    if (seen == nullptr && extent >= Far::kBytes / 16) add = add_some<false, true, Far, Id>;
  }
  return add(cells, seen, ids, extent, values, count, window, rests, soon);
}

SOW_TARGET_AVX512 int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids,
                              const char* values, int64_t count, Window& window, WindowRests& rests,
                              const char* soon) {
  const double* from = reinterpret_cast<const double*>(values);
  if (soon == nullptr) soon = values;
  return add_each<false>(cells, seen, ids, UINT32_MAX, from, count, window, rests, soon);
}

SOW_TARGET_AVX512 int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys,
                                   int64_t first, int64_t count, Window& window,
                                   WindowRests& rests) {
  const double* from = reinterpret_cast<const double*>(keys.values) + first;
  return with_keys(keys, first, [&](const auto* ids) SOW_TARGET_AVX512 {
    return add_each<true>(cells, seen, ids, keys.extent, from, count, window, rests, nullptr);
  });
}

SOW_TARGET_AVX512 inline __m512d two_sums(__m512d a, __m512d b, __m512d& error) {
  const __m512d sum = _mm512_add_pd(a, b), part = _mm512_sub_pd(sum, a);
  error = _mm512_add_pd(_mm512_sub_pd(a, _mm512_sub_pd(sum, part)), _mm512_sub_pd(b, part));
  return sum;
}

// Eight sums with their old values, written where three float64 hold them, rounded once; says which
// the others are.
struct PairEnd {
  __m512d unit, low_unit;

  SOW_TARGET_AVX512 __mmask8 write(const int64_t* cells, double* to) const {
    const __m512i low = _mm512_loadu_si512(cells), high = _mm512_loadu_si512(cells + kLanes);
    const __m512i evens = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odds = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    const __m512i first = _mm512_permutex2var_epi64(low, evens, high);
    const __m512i second = _mm512_permutex2var_epi64(low, odds, high);
    const __m512d old = _mm512_loadu_pd(to);
    const __m512d a = _mm512_maskz_cvtepi64_pd(0xff, first),
                  b = _mm512_maskz_cvtepi64_pd(0xff, second);
    const __m512i either = _mm512_or_si512(first, second);
    const __mmask8 some = _mm512_test_epi64_mask(either, either);
    const __m512d most = _mm512_set1_pd(0x1p53);
    __mmask8 exact = _mm512_cmp_pd_mask(_mm512_abs_pd(a), most, _CMP_LT_OQ);
    exact = _mm512_mask_cmp_pd_mask(exact, _mm512_abs_pd(b), most, _CMP_LT_OQ);
    __m512d error, rest, lost;
    const __m512d total = two_sums(old, _mm512_mul_pd(a, unit), error);
    const __m512d more = two_sums(total, _mm512_mul_pd(b, low_unit), rest);
    const __m512d end = two_sums(error, rest, lost);
    exact = _mm512_mask_cmp_pd_mask(exact, lost, _mm512_setzero_pd(), _CMP_EQ_OQ);
    constexpr int kNan = 0x81, kMinusZero = 0x04;
    const __mmask8 delicate = _mm512_fpclass_pd_mask(old, kNan | kMinusZero);
    // Zeros of two_sum are positive, as the sum's own is then.
    _mm512_mask_storeu_pd(to, some & exact, _mm512_add_pd(more, end));
    return static_cast<__mmask8>((some & ~exact) | (~some & delicate));
  }
};

SOW_TARGET_AVX512 int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                                 int64_t begin, int64_t end, Window window, Touched& refused,
                                 int64_t room) {
  if (seen != nullptr || block.step != 1 || !block.include_self) {
    return Plain::finish(cells, seen, block, begin, end, window, refused, room);
  }
  const WindowForm<double> form(window);
  const PairEnd each{_mm512_set1_pd(form.unit), _mm512_set1_pd(form.low_unit)};
  double* to = reinterpret_cast<double*>(block.first);
  int64_t i = begin;
  for (; i + kLanes <= end && refused.count + kLanes < room; i += kLanes) {
    for (uint32_t left = each.write(cells + 2 * i, to + i); left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      Plain::finish(cells, seen, block, cell, cell + 1, window, refused, room);
    }
  }
  return Plain::finish(cells, seen, block, i, std::min(end, i + kLanes - 1), window, refused, room);
}

}  // namespace

template <>
void use_avx512<double>(WindowKernels& kernels) {
  kernels.scan = scan;
  kernels.add = add;
  kernels.add_keys = add_keys;
  if (!kernels.counts) kernels.finish = finish;
}

}  // namespace sow::detail

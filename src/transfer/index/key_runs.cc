// SPDX-License-Identifier: Apache-2.0
// One loop for each, compiled for every instruction set.
#include "transfer/index/key_runs.h"

#include "core/isa.h"

namespace sow::detail {

namespace {

// A key in range has distances from both ends that are not negative: one sign bit answers for a
// whole run, without a comparison a key.
template <class K>
[[gnu::always_inline]] inline bool in_range(const K* keys, int64_t count, int64_t extent) {
  const uint64_t lowest = static_cast<uint64_t>(-extent),
                 highest = static_cast<uint64_t>(extent - 1);
  uint64_t distances = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<uint64_t>(static_cast<int64_t>(keys[i]));
    distances |= (key - lowest) | (highest - key);
  }
  return static_cast<int64_t>(distances) >= 0;
}

// Keys in [-extent, extent) fit 32 bits, so the rest of a longer one only repeats its sign.
template <class K>
[[gnu::always_inline]] inline void wrap(const K* keys, int64_t count, uint32_t extent,
                                        uint32_t first, uint32_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<int32_t>(keys[i]);
    out[i] = first + static_cast<uint32_t>(key) + (static_cast<uint32_t>(key >> 31) & extent);
  }
}

template <class K>
[[gnu::always_inline]] inline void place(const K* keys, int64_t count, const KeyRun& run,
                                         uint32_t* out) {
  const uint32_t extent = run.extent, first = run.first, scale = run.scale, walk = run.walk;
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<int32_t>(keys[i]);
    const uint32_t wrapped =
        static_cast<uint32_t>(key) + (static_cast<uint32_t>(key >> 31) & extent);
    out[i] = first + scale * wrapped + walk * static_cast<uint32_t>(i);
  }
}

template <class K>
SOW_TARGET_AVX2 bool in_range_avx2(const K* keys, int64_t count, int64_t extent) {
  return in_range(keys, count, extent);
}
template <class K>
SOW_TARGET_AVX512 bool in_range_avx512(const K* keys, int64_t count, int64_t extent) {
  return in_range(keys, count, extent);
}
template <class K>
SOW_TARGET_AVX2 void wrap_avx2(const K* keys, int64_t count, uint32_t extent, uint32_t first,
                               uint32_t* out) {
  wrap(keys, count, extent, first, out);
}
template <class K>
SOW_TARGET_AVX512 void wrap_avx512(const K* keys, int64_t count, uint32_t extent, uint32_t first,
                                   uint32_t* out) {
  wrap(keys, count, extent, first, out);
}

template <class K>
SOW_TARGET_AVX2 void place_avx2(const K* keys, int64_t count, const KeyRun& run, uint32_t* out) {
  place(keys, count, run, out);
}
template <class K>
SOW_TARGET_AVX512 void place_avx512(const K* keys, int64_t count, const KeyRun& run,
                                    uint32_t* out) {
  place(keys, count, run, out);
}

template <class K>
bool in_range_here(const K* keys, int64_t count, int64_t extent) {
  return by_isa(in_range<K>, in_range_avx2<K>, in_range_avx512<K>)(keys, count, extent);
}

template <class K>
void wrap_here(const K* keys, int64_t count, uint32_t extent, uint32_t first, uint32_t* out) {
  by_isa(wrap<K>, wrap_avx2<K>, wrap_avx512<K>)(keys, count, extent, first, out);
}

template <class K>
void place_here(const K* keys, int64_t count, const KeyRun& run, uint32_t* out) {
  by_isa(place<K>, place_avx2<K>, place_avx512<K>)(keys, count, run, out);
}

}  // namespace

bool keys_in_range(const int32_t* keys, int64_t count, int64_t extent) {
  return in_range_here(keys, count, extent);
}
bool keys_in_range(const int64_t* keys, int64_t count, int64_t extent) {
  return in_range_here(keys, count, extent);
}

void wrap_keys(const int32_t* keys, int64_t count, uint32_t extent, uint32_t first, uint32_t* out) {
  wrap_here(keys, count, extent, first, out);
}
void wrap_keys(const int64_t* keys, int64_t count, uint32_t extent, uint32_t first, uint32_t* out) {
  wrap_here(keys, count, extent, first, out);
}

void place_keys(const int32_t* keys, int64_t count, const KeyRun& run, uint32_t* out) {
  place_here(keys, count, run, out);
}
void place_keys(const int64_t* keys, int64_t count, const KeyRun& run, uint32_t* out) {
  place_here(keys, count, run, out);
}

}  // namespace sow::detail

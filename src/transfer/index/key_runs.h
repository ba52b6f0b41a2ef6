// SPDX-License-Identifier: Apache-2.0
// Keys that lie one after the other, in vectors: their check, and their places as small numbers.
#pragma once

#include <cstdint>

namespace sow::detail {

// Whether -extent <= key < extent for all of them; the extent is at most INT64_MAX / 2.
bool keys_in_range(const int32_t* keys, int64_t count, int64_t extent);
bool keys_in_range(const int64_t* keys, int64_t count, int64_t extent);

// out[i] = first + key, for checked keys of an extent of no more than 32 bits: negative ones wrap.
void wrap_keys(const int32_t* keys, int64_t count, uint32_t extent, uint32_t first, uint32_t* out);
void wrap_keys(const int64_t* keys, int64_t count, uint32_t extent, uint32_t first, uint32_t* out);

// out[i] = first + scale * key + walk * i, modulo 2^32, for the same keys.
struct KeyRun {
  uint32_t extent, first, scale, walk;
};
void place_keys(const int32_t* keys, int64_t count, const KeyRun& run, uint32_t* out);
void place_keys(const int64_t* keys, int64_t count, const KeyRun& run, uint32_t* out);

}  // namespace sow::detail

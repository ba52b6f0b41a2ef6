// SPDX-License-Identifier: Apache-2.0
// keys_in_range(), wrap_keys() and place_keys() against one key at a time, with every instruction
// set.
#include "transfer/index/key_runs.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/isa.h"

namespace sow::test {
namespace {

using detail::Isa;
using detail::isa_available;
using detail::keys_in_range;
using detail::place_keys;
using detail::ScopedIsa;
using detail::wrap_keys;

template <class F>
void with_every_isa(F&& f) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const ScopedIsa scoped(isa);
    f();
  }
}

template <class K>
void one_bad_key_is_seen(int64_t extent) {
  const int64_t lowest = std::numeric_limits<K>::min(), highest = std::numeric_limits<K>::max();
  for (const size_t count : {1, 7, 64, 100}) {
    std::vector<K> keys(count);
    for (size_t i = 0; i < count; ++i) keys[i] = static_cast<K>(i % 2 ? extent - 1 : -extent);
    EXPECT_TRUE(keys_in_range(keys.data(), static_cast<int64_t>(count), extent));
    for (const int64_t bad : {-extent - 1, extent, lowest, highest}) {
      for (const size_t at : {size_t{0}, count / 2, count - 1}) {
        std::vector<K> some = keys;
        some[at] = static_cast<K>(bad);
        EXPECT_FALSE(keys_in_range(some.data(), static_cast<int64_t>(count), extent));
      }
    }
  }
}

TEST(KeyRuns, OneBadKeyIsSeen) {
  with_every_isa([] {
    for (const int64_t extent : {int64_t{1}, int64_t{5}, int64_t{1} << 30}) {
      one_bad_key_is_seen<int32_t>(extent);
      one_bad_key_is_seen<int64_t>(extent);
    }
    one_bad_key_is_seen<int64_t>(INT64_MAX / 2);
  });
}

template <class K>
void negative_keys_wrap(uint32_t extent) {
  std::vector<K> keys;
  std::vector<uint32_t> expected;
  for (int64_t i = 0; i < 77; ++i) {
    const int64_t key = i * 1234567 % (2 * int64_t{extent}) - int64_t{extent};
    keys.push_back(static_cast<K>(key));
    expected.push_back(static_cast<uint32_t>(3 + (key < 0 ? key + int64_t{extent} : key)));
  }
  std::vector<uint32_t> found(keys.size());
  wrap_keys(keys.data(), static_cast<int64_t>(keys.size()), extent, 3, found.data());
  EXPECT_EQ(found, expected);

  std::vector<uint32_t> placed = expected;
  for (uint32_t i = 0; i < placed.size(); ++i) placed[i] = 11 + 1024 * (placed[i] - 3) + 2 * i;
  place_keys(keys.data(), static_cast<int64_t>(keys.size()), {extent, 11, 1024, 2}, found.data());
  EXPECT_EQ(found, placed);
}

TEST(KeyRuns, NegativeKeysWrap) {
  with_every_isa([] {
    for (const uint32_t extent : {1u, 10u, 1u << 30}) {
      negative_keys_wrap<int32_t>(extent);
      negative_keys_wrap<int64_t>(extent);
    }
  });
}

}  // namespace
}  // namespace sow::test

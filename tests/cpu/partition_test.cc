// SPDX-License-Identifier: Apache-2.0
// Strategy partition: many single elements against the reference, and bad keys found before
// anything is written.
#include "cpu/element_cases.h"

namespace sow::detail {
namespace {

struct PartitionTypes : testing::TestWithParam<int> {};

TEST_P(PartitionTypes, GiveTheReferenceBits) { expect_reference_bits(k_partition, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Types, PartitionTypes, testing::Range(0, kElementTypes));

TEST(Partition, ABadKeyWritesNothing) { expect_bad_key_writes_nothing(k_partition); }

TEST(Partition, WhatLiesBetweenPlacesIsLeftAlone) {
  expect_nothing_written_between_places(k_partition);
}

// Runs of one bucket are written by vectors: keys that are sorted, nearly sorted, and all the same.
TEST(Partition, KeysInOrderGiveTheReferenceBits) {
  constexpr int64_t kItems = 100001, kPlaces = 40000;
  std::mt19937_64 random(9);
  std::vector<int64_t> sorted(kItems);
  for (int64_t& key : sorted) key = static_cast<int64_t>(random() % kPlaces);
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> nearly = sorted;
  for (int i = 0; i < 300; ++i) std::swap(nearly[random() % kItems], nearly[random() % kItems]);
  for (int i = 0; i < 300; ++i) {
    int64_t& key = nearly[random() % kItems];
    if (key >= 0) key -= kPlaces;
  }
  std::vector<float> values(kItems);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 7.0f - 143.0f;
  for (const bool with_nan : {false, true}) {
    if (with_nan) values[kItems / 3] = std::nanf("");
    const Tensor src = Tensor::of(values, {kItems});
    for (const std::vector<int64_t>& keys :
         {sorted, nearly, std::vector<int64_t>(kItems, kPlaces - 1)}) {
      const Tensor index = Tensor::of(keys, {kItems});
      for (const Reduce reduce : {Reduce::add, Reduce::amax, Reduce::amin, Reduce::assign}) {
        const auto scatter = [&](const char* strategy) {
          const ForceStrategy forced(strategy);
          const Tensor x = Tensor::zeros({kPlaces}, DType::float32);
          if (reduce == Reduce::assign) {
            index_copy_(x, 0, index, src);
          } else {
            index_reduce_(x, 0, index, src, reduce);
          }
          return x;
        };
        const Tensor found = scatter("partition"), expected = scatter("reference");
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.nbytes()), 0) << name_of(reduce);
      }
    }
  }
}

}  // namespace
}  // namespace sow::detail

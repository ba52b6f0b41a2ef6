// SPDX-License-Identifier: Apache-2.0
// Strategy private: many single elements against the reference, and bad keys found before anything
// is written.
#include "cpu/element_cases.h"

namespace sow::detail {
namespace {

struct PrivateTypes : testing::TestWithParam<int> {};

TEST_P(PrivateTypes, GiveTheReferenceBits) { expect_reference_bits(k_private, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Types, PrivateTypes, testing::Range(0, kElementTypes));

TEST(Private, ABadKeyWritesNothing) { expect_bad_key_writes_nothing(k_private); }

TEST(Private, WhatLiesBetweenPlacesIsLeftAlone) {
  expect_nothing_written_between_places(k_private);
}

}  // namespace
}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Strategy direct: many single elements against the reference, and bad keys found before anything
// is written.
#include "cpu/element_cases.h"

namespace sow::detail {
namespace {

struct DirectTypes : testing::TestWithParam<int> {};

TEST_P(DirectTypes, GiveTheReferenceBits) { expect_reference_bits(k_direct, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Types, DirectTypes, testing::Range(0, kElementTypes));

TEST(Direct, ABadKeyWritesNothing) { expect_bad_key_writes_nothing(k_direct); }

TEST(Direct, WhatLiesBetweenPlacesIsLeftAlone) { expect_nothing_written_between_places(k_direct); }

}  // namespace
}  // namespace sow::detail

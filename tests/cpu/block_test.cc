// SPDX-License-Identifier: Apache-2.0
// Strategy block: many single elements against the reference, and bad keys found before anything is
// written.
#include "cpu/element_cases.h"

namespace sow::detail {
namespace {

struct BlockTypes : testing::TestWithParam<int> {};

TEST_P(BlockTypes, GiveTheReferenceBits) { expect_reference_bits(k_block, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Types, BlockTypes, testing::Range(0, kElementTypes));

TEST(Block, ABadKeyWritesNothing) { expect_bad_key_writes_nothing(k_block); }

TEST(Block, WhatLiesBetweenPlacesIsLeftAlone) { expect_nothing_written_between_places(k_block); }

}  // namespace
}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// canonicalize() and decode_items(): every update of a place is still there, in the same order.
#include "transfer/canonical.h"

#include <gtest/gtest.h>

#include <map>

#include "transfer/random_transfer.h"

namespace sow::test {
namespace {

using detail::Axis;
using detail::Canonical;
using detail::IndexOperand;
using detail::IndexOperands;
using detail::kDropped;
using detail::Transfer;

// What each place of the destination takes, in order: offsets into the source.
using Updates = std::map<int64_t, std::vector<int64_t>>;

// A pure gather writes zero where its key is dropped; any other update is left out.
bool left_out(const Transfer& t, int64_t dst, int64_t src) {
  const bool pure_gather = t.dst_index.empty() && t.reduce == Reduce::assign;
  return dst == kDropped || (src == kDropped && !pure_gather);
}

int64_t element_count(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int64_t address(const Transfer& t, const Dims& strides, const IndexOperands& indices,
                const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  for (const auto& index : indices) {
    int64_t key_offset = 0;
    for (size_t d = 0; d < at.size(); ++d) key_offset += at[d] * index.strides[d];
    const int64_t key = detail::resolve_key(load_key(index, key_offset), index.extent, t.bounds);
    if (key == kDropped) return kDropped;
    offset += key * index.scale;
  }
  return offset;
}

Updates updates_by_definition(const Transfer& t) {
  Updates updates;
  std::vector<int64_t> at(t.shape.size(), 0);
  for (int64_t i = 0; i < element_count(t.shape); ++i) {
    int64_t rest = i;
    for (size_t d = at.size(); d-- > 0; rest /= t.shape[d]) at[d] = rest % t.shape[d];
    const int64_t dst = address(t, t.dst.strides, t.dst_index, at);
    const int64_t src = address(t, t.src.strides, t.src_index, at);
    if (!left_out(t, dst, src)) updates[dst].push_back(src);
  }
  return updates;
}

Updates updates_as_decoded(const Transfer& t, const Canonical& canonical) {
  Updates updates;
  if (canonical.empty) return updates;
  for (int64_t o = 0; o < canonical.outer_count; ++o) {
    const auto base = outer_base(canonical, o);
    for_each_tile(t, canonical, base, 0, canonical.item_count, [&](const detail::Tile& tile) {
      for (int i = 0; i < tile.count; ++i) {
        if (left_out(t, tile.dst[i], tile.src[i])) continue;
        for (int64_t r = 0; r < canonical.row.size; ++r) {
          const int64_t src =
              tile.src[i] == kDropped ? kDropped : tile.src[i] + r * canonical.row.src;
          updates[tile.dst[i] + r * canonical.row.dst].push_back(src);
        }
      }
    });
  }
  return updates;
}

TEST(Canonical, KeepsEveryUpdateInOrder) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Draw draw(seed);
    const Problem problem = draw_problem(draw);
    const Transfer& t = problem.transfer;
    if (t.mask_side != detail::MaskSide::none) continue;
    const Canonical canonical = canonicalize(t);
    ASSERT_EQ(updates_as_decoded(t, canonical), updates_by_definition(t)) << "seed " << seed << "\n"
                                                                          << describe(problem);
  }
}

TEST(Canonical, SeparatesWhatMayMeetFromWhatMayNot) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Draw draw(seed);
    const Problem problem = draw_problem(draw);
    if (problem.transfer.mask_side != detail::MaskSide::none) continue;
    const Canonical canonical = canonicalize(problem.transfer);
    if (canonical.empty) continue;
    for (const Axis& axis : canonical.outer) EXPECT_NE(axis.dst, 0) << seed;
    for (const Axis& axis : canonical.items) EXPECT_EQ(axis.dst, 0) << seed;
    for (const int64_t stride : canonical.row.index) EXPECT_EQ(stride, 0) << seed;
  }
}

Transfer rows_of(int64_t items, int64_t row, const int64_t* keys, int64_t extent) {
  static char anything;
  Transfer t;
  t.src.data = &anything;  // not a scalar
  t.shape = {items, row};
  t.dst.strides = {0, 1};
  t.src.strides = {row, 1};
  IndexOperand index;
  index.data = reinterpret_cast<const char*>(keys);
  index.strides = {1, 0};
  index.extent = extent;
  index.scale = row;
  index.own_shape = {items, 1};
  index.own_strides = {1, 1};
  t.dst_index.push_back(index);
  return t;
}

TEST(Canonical, FindsTheRowsUnderABroadcastIndex) {
  const int64_t keys[] = {2, 0, -1};
  const Transfer t = rows_of(3, 8, keys, 4);
  const Canonical canonical = canonicalize(t);
  EXPECT_EQ(canonical.row.size, 8);
  EXPECT_EQ(canonical.row.dst, 1);
  EXPECT_EQ(canonical.row.src, 1);
  EXPECT_EQ(canonical.item_count, 3);
  EXPECT_EQ(canonical.outer_count, 1);
}

TEST(Canonical, MergesTheDimensionsOfADenseCopy) {
  Transfer t;
  t.shape = {4, 1, 5, 6};
  t.dst.strides = {30, 7, 6, 1};
  t.src.strides = {30, 0, 6, 1};
  const Canonical canonical = canonicalize(t);
  EXPECT_EQ(canonical.row.size, 120);
  EXPECT_EQ(canonical.outer_count, 1);
  EXPECT_EQ(canonical.item_count, 1);
}

TEST(Canonical, KnowsWhenThereIsNothingToDo) {
  Transfer t;
  t.shape = {4, 0};
  t.dst.strides = {1, 1};
  t.src.strides = {1, 1};
  EXPECT_TRUE(canonicalize(t).empty);
}

TEST(ResolveKey, FollowsEachPolicy) {
  using detail::resolve_key;
  EXPECT_EQ(resolve_key(-1, 5, Bounds::error), 4);
  EXPECT_EQ(resolve_key(-5, 5, Bounds::promise), 0);
  EXPECT_EQ(resolve_key(5, 5, Bounds::drop), kDropped);
  EXPECT_EQ(resolve_key(-6, 5, Bounds::drop), kDropped);
  EXPECT_EQ(resolve_key(4, 5, Bounds::drop), 4);
  EXPECT_EQ(resolve_key(0, 0, Bounds::drop), kDropped);
  EXPECT_EQ(resolve_key(5, 5, Bounds::clip), 4);
  EXPECT_EQ(resolve_key(-6, 5, Bounds::clip), 0);
  EXPECT_EQ(resolve_key(INT64_MIN, 5, Bounds::clip), 0);
  EXPECT_EQ(resolve_key(INT64_MAX, 5, Bounds::drop), kDropped);
}

}  // namespace
}  // namespace sow::test

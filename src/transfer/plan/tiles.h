// SPDX-License-Identifier: Apache-2.0
// Cuts a Transfer into parts that are done one after the other, each within a bound.
#pragma once

#include <functional>
#include <string>

#include "transfer/plan/plan_cache.h"

namespace sow::detail {

// Whether anybody has set a bound.
bool is_bounded();

// The extents to cut a Transfer at, one for each of its dimensions: of the tile shape that holds
// here. Empty: it stays whole.
Dims tiles_by_shape(const Transfer& transfer);
// The same on the CPU, or such that the scratch of each part is within the limit.
Dims tiles_for(const Transfer& transfer, const Planned& planned);

// A part of a Transfer, as of one whose keys were checked. Of its updates only those of `places` of
// the axis that dst_index[0] addresses belong to it, unless `by_place` is false.
struct TransferPart {
  Transfer part;
  bool by_place = false;
  int64_t first = 0, last = 0;  // the places
};

// Calls run(tile) for every part of a Transfer, in order: their results together are that of the
// whole, bit for bit. Dimensions of different destinations are cut by position. The axis that keys
// address is cut by place, so that all updates of a place are in one part. What can be cut neither
// way stays whole.
void for_each_tile_of(const Transfer& transfer, const Dims& tiles,
                      const std::function<void(const TransferPart&)>& run);

// The index of a part on its own: the dimensions it depends on, one key for each of their
// positions. How many keys that are.
int64_t describe_own_keys(const Dims& shape, IndexOperand& index);
// Takes these instead, one int64 after the other, of which those that are `extent` are dropped.
void replace_keys(IndexOperand& index, const void* keys, int64_t extent);
// The tile as a Transfer whose keys count from its first place, once they are replaced.
Transfer from_first_place(const TransferPart& tile);

// What the tiles come to, for explain().
std::string describe_tiles(const Transfer& transfer, const Dims& tiles);

}  // namespace sow::detail

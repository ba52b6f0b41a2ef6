// Cuts a Transfer into parts that are done one after the other, each within a bound.
#pragma once

#include <functional>
#include <string>

#include "transfer/plan/plan_cache.h"

namespace sow::detail {

// Whether anybody has set a bound.
bool is_bounded();

// The extents to cut a Transfer at, one for each of its dimensions: of the tile shape that holds
// here, or such that the scratch of each part is within the limit. Empty: it stays whole.
Dims tiles_for(const Transfer& transfer, const Planned& planned);

// Calls run(part) for every part of a checked Transfer, in order: their results together are that
// of the whole, bit for bit. Dimensions of different destinations are cut by position. The axis
// that keys address is cut by place, so that all updates of a place are in one part. What can be
// cut neither way stays whole.
void for_each_tile_of(const Transfer& transfer, const Dims& tiles,
                      const std::function<void(const Transfer&)>& run);

// What the tiles come to, for explain().
std::string describe_tiles(const Transfer& transfer, const Dims& tiles);

}  // namespace sow::detail

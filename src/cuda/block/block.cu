// SPDX-License-Identifier: Apache-2.0
// Strategies small and block: the items of the whole problem (small) or of each outer position
// (tile) are grouped by place and folded in the shared memory of one block; small reports bad keys
// in the same launch.
#include <algorithm>

#include "cuda/block/block_fold.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/plan/strategies.h"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

namespace {

// The last update wins, and what was there is not looked at.
template <int W>
struct LastFold {
  using Stored = WordOf<W>;
  using Overwrites = void;
};

bool supports_any(const Case& c, int64_t items) {
  const Problem& p = c.problem;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty()) return false;
  if (!fits_problem(c.transfer, c.canonical) || items > kMostBlockItems) return false;
  if (has_parts(p.dtype) && (p.reduce == Reduce::add || p.reduce == Reduce::mean)) return false;
  return p.places < (int64_t{1} << (62 - kItemBits)) && p.columns() < (int64_t{1} << 20);
}

bool supports_small(const Case& c) { return supports_any(c, c.problem.positions()); }
bool supports(const Case& c) {
  return supports_any(c, c.problem.item_count) && c.problem.outer_count < (int64_t{1} << 31);
}

double cost_small(const Case& c) {
  const Problem& p = c.problem;
  const double bytes = 3.0 * static_cast<double>(p.positions() * p.columns()) * p.width;
  return kLaunchNs + 3000 + (p.columns() == 1 ? 0 : 2500 + 8 * bytes / kBytesPerNs);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double elements = static_cast<double>(p.item_count) * p.columns();
  const double one = 3000 + elements * (p.columns() == 1 ? 2 : 0.2);
  return 4 * kLaunchNs + kCheckedCallNs +
         std::max(one, static_cast<double>(p.outer_count) * elements *
                           (p.columns() == 1 ? 0.025 : 0.078));
}

int power_above(int64_t count) {
  int size = 32;
  while (size < count) size *= 2;
  return size;
}

BlockArgs block_args(const Case& c, bool small) {
  const Problem& p = c.problem;
  const Canonical& canonical = c.canonical;
  BlockArgs a = {};
  a.small = small;
  a.items = static_cast<int>(small ? p.positions() : p.item_count);
  a.groups = small ? 1 : p.outer_count;
  a.bounds = p.bounds;
  a.plain = p.dst_keys == 1 && p.src_keys == 0 && canonical.items.size() <= 1 &&
            (!small || p.outer_count == 1) && p.keys[0].extent <= INT32_MAX;
  if (a.plain) {
    a.extent = p.keys[0].extent;
    a.scale = p.keys[0].scale;
    a.is_int32 = p.keys[0].is_int32;
    if (canonical.items.size() == 1) {
      a.src_step = p.walk.axis[p.walk.rank - 1].stride[1];
      a.key_step = p.walk.axis[p.walk.rank - 1].stride[2];
    }
  }
  if (a.plain && p.walk.rank == static_cast<int>(canonical.items.size()) + 1) {
    a.even = true;
    a.group_dst = p.walk.axis[0].stride[0];
    a.group_src = p.walk.axis[0].stride[1];
    a.group_key = p.walk.axis[0].stride[2];
  }
  const int64_t places = a.plain ? a.extent : p.places;
  const auto shift_for = [&](int size) {
    int shift = 32;
    for (; size > 1; size /= 2) --shift;
    return shift;
  };
  a.slots = power_above(2 * a.items);
  if (places > a.slots) a.hash_shift = shift_for(a.slots);
  if (!a.plain || small) return a;
  // 16 bits an item: few items that meet nobody seem to; what does meet is chained, and little of
  // it.
  a.slots = power_above(a.items);
  a.hash_shift = places > a.slots ? shift_for(a.slots) : 0;
  a.bits = power_above(std::min<int64_t>(16 * a.items, places));
  a.bit_shift = places > a.bits ? shift_for(a.bits) : 0;
  return a;
}

// A block for every few hundred elements; wide rows are cut, so that a place many items met is
// shared.
void share_rows(const Case& c, BlockArgs& a) {
  constexpr int64_t kMostTile = 512;
  const int64_t columns = c.problem.columns(), most = 2 * c.device.processors;
  a.tiles = static_cast<int>((columns + kMostTile - 1) / kMostTile);
  a.tile = (columns + a.tiles - 1) / a.tiles;
  if (!a.small) return;
  const int64_t wanted = std::min(most, a.items * columns / kRowsThreads) / a.tiles;
  a.parts = static_cast<int>(std::clamp<int64_t>(wanted, 1, std::max(a.items / 2, 1)));
}

template <bool Small>
void lay_out(const Case& c, Plan& plan) {
  BlockArgs a = block_args(c, Small);
  share_rows(c, a);
  plan.set_layout(a);
  // One index at most can be bad, and every block looks at all of it.
  plan.reports = Small && c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
}

void run(const Launch& launch) {
  BlockArgs a = launch.plan.layout_as<BlockArgs>();
  a.p = launch.problem;
  a.dst = a.p.dst;
  a.src = a.p.src;
  if (a.plain) a.keys = a.p.keys[0].data;
  a.flag = launch.flag;
  if (launch.flag == nullptr && launch.plan.reports)
    a.checked = make_reporter(launch.context, launch.transfer, a.reporter) == 1;
  // Keys of every block are looked at before any block writes.
  if (launch.flag != nullptr) mark_bad_keys(launch.context, launch.transfer, launch.flag);
  if (a.p.reduce != Reduce::assign) return fold_all(launch, {}, {}, &a);
  with_width(a.p.width, [&](auto w) { run_block(launch, a, LastFold<decltype(w)::value>{}); });
}

}  // namespace

const Strategy k_small = {
    "small",        "all items grouped and folded in shared memory, in one launch",
    supports_small, cost_small,
    lay_out<true>,  run};
const Strategy k_block = {
    "block",        "each outer position grouped and folded by one thread block in shared memory",
    supports,       cost,
    lay_out<false>, run};

}  // namespace sow::detail::cuda

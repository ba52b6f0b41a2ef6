// SPDX-License-Identifier: Apache-2.0
// Scatters whose every place is written again, through the same index, before anybody reads it.
#include <algorithm>

#include "program/plan/passes.h"

namespace sow::detail {
namespace {

bool is_scatter(const Step& step) {
  return step.kind == Step::Kind::transfer && step.device.type == DeviceType::cpu &&
         step.transfer.mask_side == MaskSide::none && !step.transfer.dst_index.empty();
}

// Whether `later` writes every place that `earlier` does, whatever lies there.
bool covers(const Transfer& later, const Transfer& earlier) {
  if (later.reduce != Reduce::assign || later.dst.data != earlier.dst.data) return false;
  if (later.dtype != earlier.dtype || later.bounds != earlier.bounds) return false;
  if (!(later.shape == earlier.shape) || !(later.dst.strides == earlier.dst.strides)) return false;
  // A dropped source drops its update.
  if (!later.src_index.empty() && later.bounds == Bounds::drop) return false;
  const auto same = [](const IndexOperand& a, const IndexOperand& b) {
    return same_keys(a, b) && a.strides == b.strides && a.scale == b.scale;
  };
  return std::equal(later.dst_index.begin(), later.dst_index.end(), earlier.dst_index.begin(),
                    earlier.dst_index.end(), same);
}

std::vector<int> key_blocks(const PlannedProgram& program, const Step& step) {
  std::vector<int> blocks;
  for (const IndexOperand& index : step.transfer.dst_index) {
    blocks.push_back(program.block_of(index.data));
  }
  return blocks;
}

// The step that makes `at` superfluous; -1 if there is none.
int overwriter(const PlannedProgram& program, size_t at) {
  const Step& earlier = program.steps[at];
  const int block = written_block(program, earlier);
  if (block < 0) return -1;
  const std::vector<int> keys = key_blocks(program, earlier);
  for (size_t i = at + 1; i < program.steps.size(); ++i) {
    const Step& later = program.steps[i];
    if (later.kind == Step::Kind::check) continue;
    const std::vector<int> touched = touched_blocks(program, later);
    const auto uses = std::count(touched.begin(), touched.end(), block);
    if (uses == 0) {
      const int written = written_block(program, later);
      if (written >= 0 && std::find(keys.begin(), keys.end(), written) != keys.end()) return -1;
      continue;
    }
    // Once: as the destination.
    const bool only_writes = is_scatter(later) && uses == 1;
    return only_writes && covers(later.transfer, earlier.transfer) ? static_cast<int>(i) : -1;
  }
  return -1;
}

}  // namespace

void drop_overwritten(PlannedProgram& program) {
  for (size_t i = program.steps.size(); i-- > 0;) {
    if (!is_scatter(program.steps[i]) || overwriter(program, i) < 0) continue;
    program.steps.erase(program.steps.begin() + static_cast<std::ptrdiff_t>(i));
    ++program.overwritten;
  }
}

}  // namespace sow::detail

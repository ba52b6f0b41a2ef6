// SPDX-License-Identifier: Apache-2.0
// Passes over a program's steps: fusing, checking early, planning, and one arena for everything.
#include "program/plan/passes.h"

#include <algorithm>

#include "core/device_table.h"
#include "core/fail.h"
#include "core/memory/memory.h"
#include "core/threads/parallel.h"
#include "sow/cuda.h"

namespace sow::detail {
namespace {

bool is_transfer(const Step& step) { return step.kind == Step::Kind::transfer; }

}  // namespace

int written_block(const PlannedProgram& program, const Step& step) {
  if (is_transfer(step)) return program.block_of(step.transfer.dst.data);
  if (step.kind == Step::Kind::backward) {
    const char* source = step.backward.source_grad;
    return program.block_of(source != nullptr ? source : step.backward.x_grad);
  }
  return step.kind == Step::Kind::map ? program.block_of(step.map.out) : -1;
}

std::vector<int> touched_blocks(const PlannedProgram& program, const Step& step) {
  std::vector<int> blocks;
  const auto note = [&](const void* address) {
    const int block = program.block_of(address);
    if (block >= 0) blocks.push_back(block);
  };
  for_each_pointer(const_cast<Step&>(step), [&](char** where) { note(*where); });
  if (step.kind == Step::Kind::eager) {
    for (const EagerOperand& operand : program.eager[step.eager].operands) {
      if (operand.tensor.defined() && operand.tensor.numel() != 0) note(operand.tensor.data());
    }
  }
  return blocks;
}

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// -- a gather that feeds one scatter

bool is_plain_gather(const Transfer& t) {
  return t.mask_side == MaskSide::none && t.reduce == Reduce::assign && t.dst_index.empty() &&
         !t.src_index.empty() && !t.negate &&
         (t.bounds == Bounds::error || t.bounds == Bounds::promise);
}

bool reads_what_gather_wrote(const Transfer& reader, const Transfer& gather) {
  if (reader.mask_side != MaskSide::none || reader.src.data != gather.dst.data) return false;
  if (!reader.src_index.empty() || !(reader.shape == gather.shape)) return false;
  for (size_t d = 0; d < reader.shape.size(); ++d) {
    if (reader.shape[d] > 1 && reader.src.strides[d] != gather.dst.strides[d]) return false;
  }
  return !reader.dst_index.empty() || reader.reduce != Reduce::assign;
}

// The only step but `writer` that touches the block; -1 if there are none or several.
int only_reader(const PlannedProgram& program, int block, size_t writer) {
  int reader = -1;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (i == writer || !contains(touched_blocks(program, program.steps[i]), block)) continue;
    if (reader >= 0 || i < writer) return -1;
    reader = static_cast<int>(i);
  }
  return reader;
}

// Whether what `gather` reads is as it was when `reader` runs, and is not what `reader` writes.
bool sources_stay(const PlannedProgram& program, size_t gather, size_t reader) {
  Step sources = program.steps[gather];
  sources.transfer.dst.data = nullptr;
  const std::vector<int> blocks = touched_blocks(program, sources);
  for (size_t i = gather + 1; i <= reader; ++i) {
    const int written = written_block(program, program.steps[i]);
    if (written >= 0 && contains(blocks, written)) return false;
  }
  return true;
}

double cheapest(const Transfer& transfer) {
  const Canonical canonical = canonicalize(transfer);
  const Plan plan = plan_transfer(transfer, canonical);
  return plan.strategy->cost(transfer, canonical, plan.threads);
}

}  // namespace

void fuse_gathers(PlannedProgram& program) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (!is_transfer(step) || step.device.type != DeviceType::cpu) continue;
    if (!is_plain_gather(step.transfer)) continue;
    const int block = written_block(program, step);
    if (block < 0 || program.blocks[block].kind != Block::Kind::arena) continue;
    const int at = only_reader(program, block, i);
    if (at < 0 || !is_transfer(program.steps[at])) continue;
    const Transfer& reader = program.steps[at].transfer;
    if (!reads_what_gather_wrote(reader, step.transfer) || !sources_stay(program, i, at)) continue;
    // Keys are checked by steps of their own, so that the bounds are the reader's.
    Transfer fused = reader;
    fused.src = step.transfer.src;
    fused.src_index = step.transfer.src_index;
    if (cheapest(fused) > cheapest(step.transfer) + cheapest(reader)) continue;
    program.steps[at].transfer = std::move(fused);
    program.steps.erase(program.steps.begin() + static_cast<std::ptrdiff_t>(i));
    ++program.fused;
    --i;
  }
}

bool same_keys(const IndexOperand& a, const IndexOperand& b) {
  return a.data == b.data && a.dtype == b.dtype && a.extent == b.extent &&
         a.own_shape == b.own_shape && a.own_strides == b.own_strides;
}

namespace {

// Whether a second check reads the very keys of the first, against the same axis.
bool same_check(const Step& a, const Step& b) {
  if (a.transfer.bounds != b.transfer.bounds) return false;
  const auto same_side = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_keys);
  };
  return same_side(a.transfer.dst_index, b.transfer.dst_index) &&
         same_side(a.transfer.src_index, b.transfer.src_index);
}

}  // namespace

// Indices that the caller feeds are checked before anything is written, and once.
void hoist_checks(PlannedProgram& program) {
  const auto of_inputs = [&](const Step& step) {
    if (step.kind != Step::Kind::check) return false;
    for (const int at : touched_blocks(program, step)) {
      const Block& block = program.blocks[at];
      if (block.kind != Block::Kind::input || program.signature.donated[block.number]) return false;
    }
    return true;
  };
  auto last = std::stable_partition(program.steps.begin(), program.steps.end(), of_inputs);
  auto kept = program.steps.begin();
  for (auto step = program.steps.begin(); step != last; ++step) {
    const bool again = std::any_of(program.steps.begin(), kept,
                                   [&](const Step& earlier) { return same_check(earlier, *step); });
    if (again) continue;
    if (kept != step) *kept = std::move(*step);
    ++kept;
  }
  program.steps.erase(kept, last);
}

void choose_plans(PlannedProgram& program) {
  uint64_t next = program.blocks.empty() ? kFirstPlanningAddress
                                         : program.blocks.back().address +
                                               (program.blocks.back().bytes + (2u << 20)) / 64 * 64;
  for (Step& step : program.steps) {
    const bool backward = step.kind == Step::Kind::backward;
    const bool orders = step.kind == Step::Kind::order;
    if (is_transfer(step) && step.device.type != DeviceType::cpu && sow::cuda::available()) {
      step.plan.on_device =
          device_table(step.device.type).make_plan(step.transfer, step.device.index);
    }
    if (!(is_transfer(step) || backward || orders) || step.device.type != DeviceType::cpu) continue;
    if (step.transfer.mask_side == MaskSide::none) step.canonical = canonicalize(step.transfer);
    if (orders) {
      step.plan.threads = program.signature.threads;
      step.plan.workspace = order_workspace(step.transfer, step.plan.threads);
    } else if (backward) {
      step.plan.threads = program.signature.threads;
      step.plan.workspace =
          indexed_backward_workspace(step.transfer, step.canonical, step.plan.threads);
    } else {
      step.plan = plan_transfer(step.transfer, step.canonical);
    }
    if (step.plan.workspace == 0) continue;
    Block block;
    block.bytes = step.plan.workspace;
    block.address = next;
    next += (block.bytes + (1u << 20)) / 64 * 64;
    step.workspace = reinterpret_cast<char*>(block.address);
    program.blocks.push_back(block);
  }
}

// Large blocks first, each in the lowest gap between those that live at the same time.
void place_blocks(PlannedProgram& program) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    for (const int at : touched_blocks(program, program.steps[i])) {
      Block& block = program.blocks[at];
      if (block.first < 0) block.first = static_cast<int>(i);
      block.last = static_cast<int>(i);
    }
  }
  std::vector<Block*> order;
  for (Block& block : program.blocks) {
    if (block.kind == Block::Kind::arena && block.first >= 0) order.push_back(&block);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::vector<Block*> placed;  // by offset
  for (Block* block : order) {
    const size_t bytes =
        (block->bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    size_t offset = 0;
    for (const Block* other : placed) {
      if (other->last < block->first || block->last < other->first) continue;
      if (other->offset >= offset + bytes) break;
      const size_t end = other->offset + other->bytes;
      offset = std::max(offset, (end + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment);
    }
    block->offset = offset;
    program.arena_bytes = std::max(program.arena_bytes, offset + bytes);
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Block* a, const Block* b) { return a->offset < b->offset; });
    placed.insert(after, block);
  }
}

}  // namespace sow::detail

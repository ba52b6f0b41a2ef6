// SPDX-License-Identifier: Apache-2.0
// Says what a plan does: every step, its strategy, its bytes.
#include "core/text.h"
#include "program/plan/plan_program.h"

namespace sow::detail {
namespace {

// Elements that strides reach over a shape: an expanded dimension is read once. Unsigned, because
// an expanded shape may be of any size.
uint64_t reached(const Dims& shape, const Dims& strides) {
  uint64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d < strides.size() && strides[d] != 0) count *= static_cast<uint64_t>(shape[d]);
  }
  return count;
}

uint64_t positions(const Dims& shape) {
  uint64_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}

uint64_t transfer_bytes(const Transfer& t) {
  const uint64_t size = size_of(t.dtype), all = positions(t.shape);
  const bool reduces = t.reduce != Reduce::assign;
  const uint64_t places = t.dst_index.empty() && t.mask_side != MaskSide::destination
                              ? reached(t.shape, t.dst.strides)
                              : all;
  uint64_t bytes = places * size * (reduces && t.include_self ? 2 : 1);
  if (t.src.data != nullptr) {
    const bool by_rank = t.mask_side == MaskSide::source || !t.src_index.empty();
    bytes += (by_rank ? all : reached(t.shape, t.src.strides)) * size;
  }
  for (const auto* side : {&t.dst_index, &t.src_index}) {
    for (const IndexOperand& index : *side) {
      bytes += positions(index.own_shape) * size_of(index.dtype);
    }
  }
  if (t.mask_side != MaskSide::none) bytes += reached(t.shape, t.mask.strides);
  if (t.base.data != nullptr) bytes += reached(t.shape, t.base.strides) * size;
  return bytes;
}

// The result's gradient and what is read besides, over the destinations or the updates.
int64_t backward_bytes(const Step& step) {
  const IndexedBackward& work = step.backward;
  const uint64_t all = positions(step.transfer.shape);
  uint64_t places = 1;
  for (const IndexOperand& index : step.transfer.dst_index)
    places *= static_cast<uint64_t>(index.extent);
  const uint64_t columns = reached(step.transfer.shape, step.transfer.dst.strides);
  uint64_t elements = 0;
  for (const char* pointer :
       {work.grad, work.result, work.x, static_cast<const char*>(work.x_grad)}) {
    if (pointer != nullptr) elements += places * columns;
  }
  for (const char* pointer : {work.source, static_cast<const char*>(work.source_grad)}) {
    if (pointer != nullptr) elements += all;
  }
  uint64_t bytes = elements * size_of(work.dtype);
  for (const IndexOperand& index : step.transfer.dst_index) {
    bytes += positions(index.own_shape) * size_of(index.dtype);
  }
  return static_cast<int64_t>(bytes);
}

std::string place_text(const PlannedProgram& program, const char* address) {
  const int at = program.block_of(address);
  if (at < 0) return "a constant";
  const Block& block = program.blocks[at];
  if (block.kind == Block::Kind::input) return text("input {}", block.number);
  if (block.kind == Block::Kind::output) return text("output {}", block.number);
  return text("arena at {}", block.offset + (reinterpret_cast<uint64_t>(address) - block.address));
}

}  // namespace

int64_t bytes_moved(const Step& step) {
  if (step.kind == Step::Kind::transfer) return static_cast<int64_t>(transfer_bytes(step.transfer));
  if (step.kind == Step::Kind::backward) return backward_bytes(step);
  if (step.kind != Step::Kind::map) return 0;
  uint64_t bytes = positions(step.map.shape) * size_of(step.map.out_dtype);
  for (int i = 0; i < step.map.arity; ++i) {
    const MapOperand& operand = step.map.in[i];
    if (operand.data == nullptr) continue;
    bytes += reached(step.map.shape, operand.strides) * size_of(operand.dtype);
  }
  return static_cast<int64_t>(bytes);
}

bool is_copy(const Step& step) {
  const Transfer& t = step.transfer;
  return step.kind == Step::Kind::transfer && t.mask_side == MaskSide::none &&
         t.reduce == Reduce::assign && t.dst_index.empty() && t.src_index.empty() &&
         t.src.data != nullptr;
}

ProgramStats stats_of(const PlannedProgram& program) {
  ProgramStats stats;
  for (const Step& step : program.steps) {
    const bool prepares = step.kind == Step::Kind::check || step.kind == Step::Kind::order;
    if (!prepares) ++stats.steps;
    if (is_copy(step)) ++stats.copies;
    stats.bytes_moved += bytes_moved(step);
  }
  stats.fused = program.fused;
  stats.arena_bytes = static_cast<int64_t>(program.arena_bytes);
  return stats;
}

std::string explain(const PlannedProgram& program) {
  const ProgramStats stats = stats_of(program);
  std::string words =
      text("{} steps, {} of them copies, {} fused into others; {} bytes moved, arena of {} bytes\n",
           stats.steps, stats.copies, stats.fused, stats.bytes_moved, stats.arena_bytes);
  if (program.overwritten != 0) {
    words += text("   {} left out: all they wrote was overwritten before it was read\n",
                  program.overwritten);
  }
  int number = 0;
  for (const Step& step : program.steps) {
    switch (step.kind) {
      case Step::Kind::order:
        words +=
            text("   order the keys of {}, for all steps that need it\n  workspace    {} bytes\n",
                 step.transfer.op, step.plan.workspace);
        continue;
      case Step::Kind::check:
        words += text("   check the index of {}\n", step.transfer.op);
        continue;
      case Step::Kind::transfer:
        words += text("{}. ", ++number);
        words += step.plan.strategy != nullptr || step.plan.on_device != nullptr
                     ? describe(step.transfer, step.canonical, step.plan, step.device)
                     : text("{}: on {}\n", step.transfer.op, to_string(step.device));
        words += text("  into         {}\n", place_text(program, step.transfer.dst.data));
        break;
      case Step::Kind::map:
        words += text("{}. {}: element by element to {} over {}\n  into         {}\n", ++number,
                      name_of(step.map.op), step.map.out_dtype, step.map.shape,
                      place_text(program, step.map.out));
        break;
      case Step::Kind::backward:
        words += text(
            "{}. {}: of {} over {}, each destination's updates in one walk\n  threads      up to "
            "{}\n  workspace    {} bytes\n  into         {}\n",
            ++number, step.transfer.op, name_of(step.backward.reduce), step.transfer.shape,
            step.plan.threads, step.plan.workspace,
            place_text(program, step.backward.source_grad != nullptr ? step.backward.source_grad
                                                                     : step.backward.x_grad));
        break;
      case Step::Kind::eager:
        words += text("{}. {}: its shape depends on data; planned when its turn comes\n", ++number,
                      program.eager[step.eager].op->name);
        continue;
    }
    words += text("  moves        {} bytes\n", bytes_moved(step));
  }
  return words;
}

}  // namespace sow::detail

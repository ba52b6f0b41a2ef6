// SPDX-License-Identifier: Apache-2.0
// Runs a plan: real addresses into the steps, then one step after the other.
#include <cassert>

#include "core/device_table.h"
#include "core/tensor/layout.h"
#include "core/threads/float_state.h"
#include "program/run/executable.h"

namespace sow::detail {

Arena::Arena(const PlannedProgram& program) : device_(program.device), bytes_(program.arena_bytes) {
  if (bytes_ == 0) return;
  data_ = static_cast<char*>(device_table(device_.type).allocate(bytes_, device_.index));
}

Arena::~Arena() {
  if (data_ != nullptr) device_table(device_.type).deallocate(data_, bytes_, device_.index);
}

RunContext::RunContext(std::shared_ptr<const PlannedProgram> planned)
    : program(std::move(planned)), arena(*program), steps(program->steps) {
  slots.resize(program->slots);
  make_orders();
  for (Step& step : steps) {
    // What is left without memory belongs to the caller. The addresses of these pointers are
    // stable: the steps never move again.
    for_each_pointer(step, [&](char** where) {
      const int at = program->block_of(*where);
      if (at < 0) return;
      const Block& block = program->blocks[at];
      const uint64_t offset = reinterpret_cast<uint64_t>(*where) - block.address;
      if (block.kind == Block::Kind::arena) {
        *where = arena.data() + block.offset + offset;
      } else {
        patches.push_back({where, block.kind == Block::Kind::input, block.number, offset});
      }
    });
  }
  inputs.resize(program->signature.inputs.size());
  outputs.resize(program->results.size());
}

// Orders of this context's own, with room for any keys.
void RunContext::make_orders() {
  for (const std::shared_ptr<IndexOrder>& planned : program->made_orders) {
    auto order = std::make_unique<IndexOrder>(*planned);
    const auto count = static_cast<size_t>(order->count);
    order->keys.reserve(count);
    order->positions.reserve(count);
    order->begins.reserve(count + 1);
    for (Step& step : steps) {
      if (step.made == planned.get()) step.made = order.get();
      if (step.transfer.order == planned.get()) step.transfer.order = order.get();
    }
    orders.push_back(std::move(order));
  }
}

namespace {

// Nothing that a step follows was left at an address of the planning.
[[maybe_unused]] bool has_real_addresses(Step& step) {
  bool real = true;
  for_each_pointer(
      step, [&](char** where) { real = real && !PlannedProgram::is_planning_address(*where); });
  return real;
}

}  // namespace

void RunContext::run() {
  const FloatStateGuard guard;
  for (const Patch& patch : patches) {
    *patch.where = (patch.input ? inputs : outputs)[patch.number] + patch.offset;
  }
  for (Step& step : steps) {
    assert(has_real_addresses(step));
    switch (step.kind) {
      case Step::Kind::check:
        check_indices(step.transfer);
        break;
      case Step::Kind::transfer:
        if (step.plan.strategy != nullptr) {
          step.plan.strategy->run(step.transfer, step.canonical, step.plan, step.workspace);
        } else if (step.plan.on_device != nullptr) {
          device_table(step.device.type)
              .run_plan(step.transfer, *step.plan.on_device, step.device.index);
        } else {
          execute(step.transfer, step.device);
        }
        break;
      case Step::Kind::map:
        execute(step.map, step.device);
        break;
      case Step::Kind::order:
        order_keys(step.transfer, step.plan.threads, step.workspace, *step.made);
        break;
      case Step::Kind::backward:
        run_indexed_backward(step.backward, step.transfer, step.canonical, step.plan.threads,
                             step.workspace);
        break;
      case Step::Kind::eager:
        run_eager(program->eager[step.eager]);
        break;
    }
  }
}

// A planned tensor where its block lies in this run.
Tensor RunContext::real(const Tensor& planned) const {
  const int at = planned.impl()->data == nullptr ? -1 : program->block_of(planned.data());
  if (at < 0) return planned;
  const Block& block = program->blocks[at];
  char* base = block.kind == Block::Kind::arena   ? arena.data() + block.offset
               : block.kind == Block::Kind::input ? inputs[block.number]
                                                  : outputs[block.number];
  char* address = base + (reinterpret_cast<uint64_t>(planned.data()) - block.address);
  return tensor_at(address, meta_of(planned), planned.strides());
}

void RunContext::run_eager(const EagerCall& call) {
  Call now{call.op, {}, call.attrs, call.in_place};
  for (const EagerOperand& operand : call.operands) {
    now.inputs.push_back(operand.slot >= 0 ? slots[operand.slot] : real(operand.tensor));
  }
  // In a program nothing is written through to the old value, and no result shares the arena.
  if (now.in_place) now.inputs[0] = now.inputs[0].clone();
  const Tensor result = apply(std::move(now));
  const bool shares = call.op->view != nullptr && call.operands[0].slot < 0;
  slots[call.slot] = shares ? result.clone() : result;
}

}  // namespace sow::detail

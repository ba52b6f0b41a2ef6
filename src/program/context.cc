// Runs a plan: real addresses into the steps, then one step after the other.
#include "core/device_table.h"
#include "core/float_state.h"
#include "core/layout.h"
#include "program/executable.h"

namespace sow::detail {

RunContext::RunContext(std::shared_ptr<const PlannedProgram> planned)
    : program(std::move(planned)), steps(program->steps) {
  const Device device = program->device;
  if (program->arena_bytes != 0) {
    arena = static_cast<char*>(
        device_table(device.type).allocate(program->arena_bytes, device.index));
  }
  slots.resize(program->slots);
  make_orders();
  for (Step& step : steps) {
    for_each_address(step, [&](const char*& address) {
      const int at = program->block_of(address);
      if (at < 0) return;
      const Block& block = program->blocks[at];
      if (block.kind == Block::Kind::arena) {
        address = arena + block.offset + (reinterpret_cast<uint64_t>(address) - block.address);
      }
    });
    // What is left without memory belongs to the caller. The addresses of these pointers are stable:
    // the steps never move again.
    const auto note = [&](auto& pointer) {
      const int at = pointer == nullptr ? -1 : program->block_of(pointer);
      if (at < 0) return;
      const Block& block = program->blocks[at];
      if (block.kind == Block::Kind::arena) return;  // of a check, which reads keys alone
      patches.push_back({const_cast<char**>(&pointer),
                         block.kind == Block::Kind::input, block.number,
                         reinterpret_cast<uint64_t>(pointer) - block.address});
    };
    for (IndexOperand& index : step.transfer.dst_index) note(index.data);
    for (IndexOperand& index : step.transfer.src_index) note(index.data);
    note(step.transfer.dst.data);
    note(step.transfer.src.data);
    note(step.transfer.mask.data);
    note(step.transfer.base.data);
    note(step.map.out);
    for (MapOperand& operand : step.map.in) note(operand.data);
    for_each_pointer(step.backward, note);
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

RunContext::~RunContext() {
  const Device device = program->device;
  if (arena != nullptr) {
    device_table(device.type).deallocate(arena, program->arena_bytes, device.index);
  }
}

void RunContext::run() {
  const FloatStateGuard guard;
  for (const Patch& patch : patches) {
    *patch.where = (patch.input ? inputs : outputs)[patch.number] + patch.offset;
  }
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::check:
        check_indices(step.transfer);
        break;
      case Step::Kind::transfer:
        if (step.plan.strategy != nullptr) {
          step.plan.strategy->run(step.transfer, step.canonical, step.plan, step.workspace);
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
  char* base = block.kind == Block::Kind::arena   ? arena + block.offset
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

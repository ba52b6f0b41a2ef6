// SPDX-License-Identifier: Apache-2.0
// Keys that a gradient's walk and another step both need ordered: they are ordered once.
#include <algorithm>

#include "core/tensor/layout.h"
#include "program/plan/passes.h"

namespace sow::detail {
namespace {

constexpr int64_t kWorthOrdering = 1 << 13;  // keys; fewer are ordered in no time

bool has_plain_keys(const Step& step) {
  const bool scatters = step.kind == Step::Kind::transfer || step.kind == Step::Kind::backward;
  const Transfer& t = step.transfer;
  if (!scatters || step.device.type != DeviceType::cpu || t.mask_side != MaskSide::none)
    return false;
  if (t.dst_index.size() != 1 || t.order != nullptr || t.bounds == Bounds::promise) return false;
  const IndexOperand& index = t.dst_index[0];
  int64_t count = 1;
  for (const int64_t extent : index.own_shape) count *= extent;
  constexpr int64_t kMost = int64_t{1} << 31;
  return count >= kWorthOrdering && count < kMost && index.extent > 0 && index.extent < kMost &&
         is_row_major(index.own_shape, index.own_strides);
}

bool share_keys(const Step& a, const Step& b) {
  return a.transfer.bounds == b.transfer.bounds &&
         same_keys(a.transfer.dst_index[0], b.transfer.dst_index[0]);
}

// Whether a step writes the keys that a later one of `users` reads.
bool keys_change(const PlannedProgram& program, const std::vector<size_t>& users) {
  const int block = program.block_of(program.steps[users[0]].transfer.dst_index[0].data);
  for (size_t i = users.front(); i < users.back(); ++i) {
    if (block >= 0 && written_block(program, program.steps[i]) == block) return true;
  }
  return false;
}

Step order_step(PlannedProgram& program, const Step& user) {
  const IndexOperand& index = user.transfer.dst_index[0];
  auto order = std::make_shared<IndexOrder>();
  order->size = index.extent;
  order->bounds = user.transfer.bounds;
  order->begins.push_back(0);  // there will be one
  const Tensor keys = tensor_at(const_cast<char*>(index.data), {index.dtype, index.own_shape, {}},
                                index.own_strides);
  order->count = keys.numel();
  Step step;
  step.kind = Step::Kind::order;
  step.transfer = keys_alone(keys, index.extent, user.transfer.bounds);
  step.transfer.op = user.transfer.op;
  step.made = order.get();
  program.made_orders.push_back(std::move(order));
  return step;
}

}  // namespace

void share_orders(PlannedProgram& program) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!has_plain_keys(program.steps[i])) continue;
    std::vector<size_t> users;
    bool walks = false;
    for (size_t k = i; k < program.steps.size(); ++k) {
      const Step& step = program.steps[k];
      if (!has_plain_keys(step) || !share_keys(program.steps[i], step)) continue;
      users.push_back(k);
      walks = walks || step.kind == Step::Kind::backward;
    }
    if (users.size() < 2 || !walks || keys_change(program, users)) continue;
    Step step = order_step(program, program.steps[i]);
    for (const size_t user : users) program.steps[user].transfer.order = step.made;
    program.steps.insert(program.steps.begin() + static_cast<std::ptrdiff_t>(i), std::move(step));
    ++i;
  }
}

}  // namespace sow::detail

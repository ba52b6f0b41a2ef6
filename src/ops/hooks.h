// SPDX-License-Identifier: Apache-2.0
// The hooks through which apply() hands calls to autograd and to programs, which implement them:
// operations know neither.
#pragma once

#include <string_view>

#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

namespace sow::detail {

// Runs the call and remembers how to go back. Only for calls that is_recorded() is true of.
Tensor record(Call call, const Meta& meta);

inline bool takes_part(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (input.impl()->autograd != nullptr) return true;
  }
  return false;
}

// A call that is recorded but not made, because its result is known: what gradients are made of
// where another library keeps the graph. It is the first call of this operation on its thread.
struct Rehearsal {
  std::string_view op;
  Tensor result;       // undefined: type and shape alone
  uint64_t saves = 0;  // the data that the rule reads: OpDef::saves of the recorded call
  bool met = false;
  Tensor made;  // what the recorded call gave
};
Rehearsal* current_rehearsal();
Tensor rehearse_call(Rehearsal& rehearsal, const Call& call, const Meta& meta);

// apply()'s second half: makes room and lowers (src/ops/apply.cc).
Tensor run_call(Call& call, const Meta& meta);

inline bool is_symbolic_call(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (input.defined() && input.impl()->symbolic != nullptr) return true;
  }
  return false;
}

// Appends the call to the program of its symbolic tensors.
Tensor record_in_program(const Call& call, const Meta& meta);

// apply() where an operand is symbolic: an in-place form gives its handle a new value.
Tensor apply_in_program(Call&& call);
// The rest of apply() (src/ops/apply.cc).
Tensor infer_and_run(Call& call);

// The tensor as the value it is now, whatever is written into what it is a view of.
Tensor without_view(const Tensor& tensor);
// Two handles of one symbolic tensor: what is written into one is seen through the other.
void remember_alias(const Tensor& alias, const Tensor& of);

}  // namespace sow::detail

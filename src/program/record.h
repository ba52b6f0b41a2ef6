// The hook through which apply() hands calls on symbolic tensors to their program.
#pragma once

#include "core/tensor_impl.h"
#include "ops/op.h"

namespace sow::detail {

inline bool is_symbolic_call(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (input.impl()->symbolic != nullptr) return true;
  }
  return false;
}

Tensor record_in_program(const Call& call, const Meta& meta);

}  // namespace sow::detail

// The hook through which apply() hands calls to autograd.
#pragma once

#include "core/tensor_impl.h"
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

// apply()'s second half: makes room and lowers (src/ops/apply.cc).
Tensor run_call(Call& call, const Meta& meta);

}  // namespace sow::detail

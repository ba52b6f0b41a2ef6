// SPDX-License-Identifier: Apache-2.0
// Gradients: reverse mode over everything the library does, to any order (docs/gradients.md).
//
//   Tensor w = Tensor::of({1.0f, 2.0f}).set_requires_grad();
//   Tensor loss = sum(w * w);
//   loss.backward();
//   w.grad();  // [2, 4]
#pragma once

#include <functional>

#include "sow/tensor.h"

namespace sow {

// Whether this thread records what it computes.
SOW_API bool grad_enabled();
// Sets it and says what it was; where a scope ends, the guards below are safer.
SOW_API bool set_grad_enabled(bool on);

// Records nothing on this thread while it lives; leaves may be changed in place.
class SOW_API NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

// Records again inside of a NoGrad.
class SOW_API EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};

// The gradients of the outputs, weighted by grad_outputs (ones for outputs of one element), with
// respect to the inputs; zeros for an input that no output depends on. With create_graph the
// gradients can be differentiated again.
SOW_API TensorList grad(const TensorList& outputs, const TensorList& inputs,
                        const TensorList& grad_outputs = {}, bool create_graph = false);

// A call that is recorded as if it had been made. Gradients come from `recorded`, which has the
// data of the result it was given, if any.
struct Rehearsed {
  Tensor recorded;
  uint64_t reads = 0;         // bit i: gradients read the data of tensor operand i,
  bool reads_result = false;  // and of the result
};
// For libraries that keep a graph of their own: records the first call of `op` that `call` makes
// without running it. Operands whose data is not read may be anything of their type and shape.
SOW_API Rehearsed rehearse(const char* op, const std::function<Tensor()>& call,
                           const Tensor& result = {});

// What a function returns, and how a gradient of it becomes gradients of its inputs: one for each,
// undefined where an input is not floating or complex.
struct Vjp {
  Tensor result;
  std::function<TensorList(const Tensor& grad)> pullback;
};
SOW_API Vjp vjp(const std::function<Tensor(const TensorList&)>& function, const TensorList& inputs);

}  // namespace sow

// SPDX-License-Identifier: Apache-2.0
// OpDef: the one definition of an operation that eager, autograd and static graph share.
#pragma once

#include <optional>
#include <vector>

#include "core/fail.h"
#include "core/inline_vector.h"
#include "sow/ops.h"
#include "transfer/transfer.h"

namespace sow::detail {

// What is known of a tensor without its data. An extent of -1 is unknown (static graph only).
struct Meta {
  DType dtype = DType::float32;
  Dims shape;
  Device device;
};
using Metas = InlineVector<Meta, 4>;

// Every argument of every operation that is not a tensor. Plain data, so that a program can save
// it.
struct Attrs {
  int64_t axis = 0;
  int64_t axis2 = 1;
  int64_t offset = 0;
  int64_t start = 0;
  int64_t stop = kEnd;
  int64_t step = 1;
  Reduce reduce = Reduce::assign;
  bool include_self = true;
  bool broadcast = true;
  bool accumulate = false;
  bool wrap = false;
  Bounds bounds = Bounds::error;
  std::optional<Scalar> scalar;             // a scalar source; then there is no source tensor
  Dims shape;                               // a shape, or the axes of a sum
  bool keepdim = false;                     // of a sum
  bool scalar_first = false;                // scalar - x, scalar / x
  DType dtype = DType::float32;             // what `to` makes
  std::shared_ptr<const IndexOrder> order;  // of the index, if it is held
  int64_t held_size = -1;                   // of the axis it was held for
};

struct OpDef;

// One use of an operation. In place, inputs[0] is the destination.
struct Call {
  const OpDef* op = nullptr;
  TensorList inputs;
  Attrs attrs;
  bool in_place = false;
};

// What a gradient rule is given. Inputs that the rule did not ask to save have a type and a shape
// but no data.
struct Backward {
  const Call& call;  // out of place, whatever it was: rules know values only
  const Tensor& result;
  const Tensor& grad;   // of the result, in its shape
  uint64_t needs_mask;  // bit i: input i wants a gradient

  bool needs(size_t i) const { return (needs_mask >> i & 1) != 0; }
  const Tensor& input(size_t i) const { return call.inputs[i]; }
};

inline constexpr uint64_t kSaveResult = uint64_t{1} << 63;

struct OpDef {
  const char* name;
  const char* in_place_name;  // null where there is no in-place form
  // Checks all that needs no data and says what comes out. Throws the eager message in both modes.
  Meta (*infer)(const Call& call, const Metas& inputs);
  // Writes the result into `out` (fresh, or inputs[0] in place) by execute()-ing Transfers.
  // Null for views.
  void (*lower)(const Call& call, const Tensor& out) = nullptr;
  // A view of inputs[0]; then there is no lower.
  Tensor (*view)(const Call& call) = nullptr;
  // Operations whose result shape depends on data make their result themselves.
  Tensor (*dynamic)(const Call& call) = nullptr;
  // Whether the result keeps input's dimension order (diagonal/select/slice_scatter).
  bool keeps_layout = false;
  // The inputs' gradients, undefined where none is needed, made of differentiable operations: that
  // is what makes higher orders come by themselves. Null: the result is a constant.
  TensorList (*gradient)(const Backward& backward) = nullptr;
  // Whose data the rule reads: bit i for input i, kSaveResult for the result. Null: nobody's.
  uint64_t (*saves)(const Call& call, uint64_t needs) = nullptr;
  // Run before a call that will be differentiated: work that forward and backward can share.
  void (*prepare)(Call& call, uint64_t needs) = nullptr;
  // Bit i: of input i only type and shape count, never its data.
  uint64_t shape_only = 0;
};

// The name messages print: the one the caller wrote.
inline const char* op_name(const Call& call) {
  return call.in_place ? call.op->in_place_name : call.op->name;
}

// The operation that returns a new tensor instead. copy and fill are none that a user can call.
const char* twin_name(const Call& call);

// Runs a call: infers, checks what in-place forms must not do, makes room, lowers. The single door
// through which every public function goes (autograd and programs hook in here).
Tensor apply(Call&& call);

// Lowering helpers
// ---------------------------------------------------------------------------------

// out = a copy of x (broadcast to out's shape); nothing if they are the same tensor.
void copy_into(const Tensor& out, const Tensor& x, const char* op);
// A Transfer of out's type over `shape` with the call's policy and reduction filled in.
Transfer transfer_for(const Call& call, const Tensor& out, const Dims& shape);
// Points `transfer` at the call's source: tensor `source` with these strides, or the scalar.
void set_source(Transfer& transfer, const Call& call, const Tensor* source, const Dims& strides);

// Checks that several infer functions share; messages as in section 10 of the contract.
void expect_same_dtype(const char* op, const char* name_a, DType a, const char* name_b, DType b);
void expect_index_dtype(const char* op, DType dtype);
void expect_reducible(const char* op, Reduce reduce, DType dtype);
void expect_same_device(const char* op, const Metas& inputs);
Meta meta_of(const Tensor& tensor);

}  // namespace sow::detail

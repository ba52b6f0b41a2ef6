// SPDX-License-Identifier: Apache-2.0
// What the operations share: shape rules on known and unknown extents, and how a call is built.
#pragma once

#include "core/tensor/layout.h"
#include "ops/op.h"

namespace sow::detail {

// -- building a call

// The call of an operation on x and a second tensor.
Tensor apply_to(const OpDef& op, const Tensor& x, const Tensor& second);
// Appends the index to the inputs, and its policy and order to the attributes.
void add_index(Call& call, const Index& index);
// Keys as int32 or int64: those of narrower integers are widened.
Tensor index_keys(const Tensor& keys);
// Appends a source tensor to the inputs, or its scalar to the attributes. Under add and mean, which
// attrs.reduce says by then, a narrower type is widened to the destination's.
void add_source(Call& call, const Source& source);
void add_source(Call& call, const Tensor& source);
// Whether every value of `from` is one of `to`, and a cast takes it there.
bool widens(DType from, DType to);
// A value that fills every place may come as [1].
Source fill_source(const Source& value);
// Keys of shape [n, 1], as Paddle's scatter and gather take them, as [n].
Index flat_keys(const Index& index);
Call make_call(const OpDef& op, bool in_place, const Tensor& first);

// -- rules on shapes; an extent of -1 is unknown and taken to fit
// --------------------------------------

inline bool known(int64_t extent) { return extent >= 0; }
inline bool may_equal(int64_t a, int64_t b) { return a == b || !known(a) || !known(b); }
inline bool may_exceed(int64_t a, int64_t b) { return known(a) && known(b) && a > b; }
bool may_equal(const Dims& a, const Dims& b);

// A 0-d tensor counts as one of shape [1].
inline Dims at_least_1d(const Dims& dims) { return dims.empty() ? Dims{1} : dims; }
// Extents or strides [from, rank).
inline Dims tail(const Dims& dims, size_t from) {
  return Dims(dims.data() + from, dims.size() - from);
}
Dims concat(const Dims& a, const Dims& b);

// -- checks
// --------------------------------------------------------------------------------------------

// A tensor source has the destination's type, a scalar one is in its range. `at` is the source's
// place among the inputs.
void expect_source_dtype(const Call& call, const char* destination, const char* source,
                         const Metas& inputs, size_t at);
// A source that fills every place with one value: a scalar or a 0-d tensor.
void expect_fill_value(const Call& call, const char* destination, const Metas& inputs, size_t at);
void expect_mask_dtype(const char* op, DType dtype);
// An index that is held for an axis of one size is of no use on an axis of another.
void expect_held_size(const char* op, int64_t held_size, int64_t axis, int64_t extent);

// -- lowering
// ------------------------------------------------------------------------------------------

// The operand that adds `scale` times the keys of `index`, which has `strides` over the Transfer.
IndexOperand index_operand(const Tensor& index, const Dims& strides, int64_t axis, int64_t extent,
                           int64_t scale);
// The source tensor of the call; null if it is a scalar.
inline const Tensor* source_of(const Call& call, size_t at) {
  return call.attrs.scalar ? nullptr : &call.inputs[at];
}
// The one value of a scalar or 0-d source, for every position.
void set_fill_value(Transfer& transfer, const Call& call, size_t at);
// Strides of `tensor` expanded to `shape`; none for a scalar source.
Dims expanded_strides(const Tensor* tensor, const Dims& shape);
inline Operand operand(const Tensor& tensor, const Dims& strides) {
  return {static_cast<char*>(tensor.data()), strides};
}

}  // namespace sow::detail

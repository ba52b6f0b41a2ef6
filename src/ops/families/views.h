// SPDX-License-Identifier: Apache-2.0
// The geometry of views: which part of a tensor diagonal, select and slice mean.
#pragma once

#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

namespace sow::detail {

// A part of a strided tensor. On shapes alone (infer) the strides may be empty, and extents -1.
struct Part {
  int64_t offset = 0;
  Dims shape;
  Dims strides;
};

// By the call's attributes: offset, axis, axis2 | axis, start | axis, start, stop, step.
// `name` is what messages call the tensor.
Part diagonal_part(const Call& call, const char* name, const Dims& shape, const Dims& strides);
Part select_part(const Call& call, const char* name, const Dims& shape, const Dims& strides);
Part slice_part(const Call& call, const char* name, const Dims& shape, const Dims& strides);

// What the view call shows becomes `part`: its input with that in place of it.
Tensor write_back(const Call& view, const Tensor& part);

inline Tensor view_of(const Tensor& tensor, const Part& part) {
  return make_view(tensor, part.offset, part.shape, part.strides);
}

}  // namespace sow::detail

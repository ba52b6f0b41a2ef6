// SPDX-License-Identifier: Apache-2.0
// The gradient rules, one per kind of operation; OpDefs point here.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// indexed_families.cc: scatters by an index, and the gathers that read by one.
TensorList grad_along_axis(const Backward& backward);
TensorList grad_rows(const Backward& backward);
TensorList grad_tensor_scatter_nd(const Backward& backward);
TensorList grad_scatter_nd(const Backward& backward);
TensorList grad_index_put(const Backward& backward);
TensorList grad_take_along_axis(const Backward& backward);
TensorList grad_index_select(const Backward& backward);
TensorList grad_gather_nd(const Backward& backward);
TensorList grad_index_get(const Backward& backward);
// Orders a plain index once, for the scatter and for its gradient.
void prepare_along_axis(Call& call, uint64_t needs);
void prepare_rows(Call& call, uint64_t needs);
void prepare_nd(Call& call, uint64_t needs);
uint64_t saves_index(const Call& call, uint64_t needs);  // every input but the first
uint64_t saves_scatter_nd(const Call& call, uint64_t needs);

// regular_grad.cc: masks, regular places, views and copies.
TensorList grad_masked_scatter(const Backward& backward);
TensorList grad_masked_fill(const Backward& backward);
TensorList grad_masked_select(const Backward& backward);
uint64_t saves_mask(const Call& call, uint64_t needs);
TensorList grad_part_scatter(const Backward& backward);  // diagonal, select, slice
TensorList grad_fill_diagonal(const Backward& backward);
TensorList grad_part(const Backward& backward);
TensorList grad_unsqueeze(const Backward& backward);
TensorList grad_broadcast_to(const Backward& backward);
TensorList grad_permute(const Backward& backward);
TensorList grad_self_inverse(const Backward& backward);  // transpose, flip
TensorList grad_reshape(const Backward& backward);
TensorList grad_clone(const Backward& backward);
TensorList grad_copy(const Backward& backward);
TensorList grad_fill(const Backward& backward);

// elementwise_grad.cc
TensorList grad_add(const Backward& backward);
TensorList grad_sub(const Backward& backward);
TensorList grad_mul(const Backward& backward);
TensorList grad_div(const Backward& backward);
TensorList grad_neg(const Backward& backward);
TensorList grad_conj(const Backward& backward);
TensorList grad_pow(const Backward& backward);
TensorList grad_abs(const Backward& backward);
TensorList grad_exp(const Backward& backward);
TensorList grad_log(const Backward& backward);
uint64_t saves_both(const Call& call, uint64_t needs);
TensorList grad_remainder(const Backward& backward);
TensorList grad_where(const Backward& backward);
TensorList grad_to(const Backward& backward);
uint64_t saves_first(const Call& call, uint64_t needs);
uint64_t saves_mul(const Call& call, uint64_t needs);
uint64_t saves_remainder(const Call& call, uint64_t needs);
uint64_t saves_div(const Call& call, uint64_t needs);

}  // namespace sow::detail

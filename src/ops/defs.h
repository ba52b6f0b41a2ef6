// SPDX-License-Identifier: Apache-2.0
// The OpDef of every operation, for whoever meets one by name or compares a call with it.
#pragma once

#include <string_view>

#include "ops/op.h"

namespace sow::detail {

// along_axis.cc
extern const OpDef kPutAlongAxis, kScatter, kScatterAdd, kScatterReduce, kTakeAlongAxis, kGather;
// masked.cc, nonzero.cc
extern const OpDef kMaskedScatter, kMaskedFill, kMaskedSelect, kNonzero;
// rows.cc
extern const OpDef kIndexAdd, kIndexCopy, kIndexFill, kIndexReduce, kIndexSelect;
// nd.cc
extern const OpDef kScatterNd, kTensorScatterNdUpdate, kTensorScatterNdAdd, kTensorScatterNdSub,
    kTensorScatterNdMax, kTensorScatterNdMin, kTensorScatterNdMul, kGatherNd;
// index_put.cc
extern const OpDef kIndexPut, kIndexGet;
// slices.cc
extern const OpDef kDiagonalScatter, kSelectScatter, kSliceScatter, kFillDiagonal;
// views.cc, reshape.cc
extern const OpDef kDiagonal, kSelect, kSlice, kBroadcastTo, kFlatten, kReshape, kTranspose,
    kUnsqueeze, kPermute, kFlip;

// copy.cc
extern const OpDef kClone, kCopy, kFill;
// elementwise.cc, sums.cc
extern const OpDef kAdd, kSub, kMul, kDiv, kNeg, kConj, kPow, kEq, kNe, kLt, kLe, kGt, kGe, kWhere,
    kTo, kAbs, kExp, kLog, kRemainder, kBitwiseAnd, kBitwiseOr, kBitwiseXor, kSum, kMean;

// Every one of the above, and those that only gradient rules use (like.h, rule_ops.h).
const std::vector<const OpDef*>& all_ops();
// By its out-of-place name; null if there is none.
const OpDef* find_op(std::string_view name);

}  // namespace sow::detail

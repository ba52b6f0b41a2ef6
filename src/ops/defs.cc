// SPDX-License-Identifier: Apache-2.0
// The list of every operation.
#include "ops/defs.h"
#include "ops/gradients/rule_ops.h"
#include "ops/groups/grouping.h"
#include "ops/like.h"

namespace sow::detail {

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> ops{&kPutAlongAxis,
                                             &kScatter,
                                             &kScatterAdd,
                                             &kScatterReduce,
                                             &kTakeAlongAxis,
                                             &kGather,
                                             &kMaskedScatter,
                                             &kMaskedFill,
                                             &kMaskedSelect,
                                             &kNonzero,
                                             &kIndexAdd,
                                             &kIndexCopy,
                                             &kIndexFill,
                                             &kIndexReduce,
                                             &kIndexSelect,
                                             &kScatterNd,
                                             &kTensorScatterNdUpdate,
                                             &kTensorScatterNdAdd,
                                             &kTensorScatterNdSub,
                                             &kTensorScatterNdMax,
                                             &kTensorScatterNdMin,
                                             &kTensorScatterNdMul,
                                             &kGatherNd,
                                             &kIndexPut,
                                             &kDiagonalScatter,
                                             &kSelectScatter,
                                             &kSliceScatter,
                                             &kFillDiagonal,
                                             &kDiagonal,
                                             &kSelect,
                                             &kSlice,
                                             &kBroadcastTo,
                                             &kUnsqueeze,
                                             &kFlatten,
                                             &kReshape,
                                             &kTranspose,
                                             &kPermute,
                                             &kFlip,
                                             &kClone,
                                             &kCopy,
                                             &kFill,
                                             &kAdd,
                                             &kSub,
                                             &kMul,
                                             &kDiv,
                                             &kNeg,
                                             &kConj,
                                             &kPow,
                                             &kEq,
                                             &kNe,
                                             &kLt,
                                             &kLe,
                                             &kGt,
                                             &kGe,
                                             &kWhere,
                                             &kTo,
                                             &kAbs,
                                             &kExp,
                                             &kLog,
                                             &kRemainder,
                                             &kBitwiseAnd,
                                             &kBitwiseOr,
                                             &kBitwiseXor,
                                             &kSum,
                                             &kMean,
                                             &kIndexGet,
                                             &kGroupReduce,
                                             &kGroupSoftmax,
                                             &kGroupLogSoftmax,
                                             &kSegmentIds,
                                             &kSegmentReduce,
                                             &kGatherCsr,
                                             &kSegmentCumsum,
                                             &kBincount,
                                             &kBinIndex,
                                             &kSendURecv,
                                             &kSendUeRecv,
                                             &kSendUv,
                                             &kFullLike,
                                             &kSumTo,
                                             &kExpandLike,
                                             &kReshapeLike,
                                             &kShareAmong,
                                             &kCornerLike,
                                             &kPadLike,
                                             &kShare,
                                             &kSame,
                                             &kPositionsLike,
                                             &kMaskedCompress,
                                             &kVanish,
                                             &kProductGate,
                                             &kProductLimit,
                                             &kProductChecked};
  return ops;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : all_ops()) {
    if (op->name == name) return op;
  }
  return nullptr;
}

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// What the operations by group share: folding a source into its groups, spreading groups over it.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// A call on a source and an index: the index names the group of each slice of the source along
// attrs.axis (one key per slice), or of each element (an index of the source's rank, which
// broadcasts off the axis). attrs.shape holds the number of groups.
class Grouping {
 public:
  explicit Grouping(const Call& call) : Grouping(call, call.inputs[1]) {}
  Grouping(const Call& call, const Tensor& index) : call_(call), index_(index) {}

  const Tensor& source() const { return call_.inputs[0]; }
  int64_t size() const { return call_.attrs.shape[0]; }
  bool by_slices() const { return index_.dim() <= 1; }

  // For lowering: reduces `from`, of the source's shape, into `out`. Old values do not count.
  void fold_into(const Tensor& out, const Tensor& from, Reduce reduce) const;
  // The same into a new tensor, where groups without elements hold `empty`.
  Tensor folded(const Tensor& from, Reduce reduce, const Scalar& empty) const;

  // For lowering and for rules: groups, of the result's shape, over the source.
  Tensor spread(const Tensor& groups) const;
  // How many elements a group has, int64; broadcasts to `result`.
  Tensor counts(const Tensor& result) const;
  // false over the source where its index is dropped; undefined where none can be.
  Tensor kept(const Tensor& result) const;

  // The scatter that a plain reduction is, for its gradient: inputs are the result, the index and
  // the source.
  Call as_scatter(const Tensor& source, const Tensor& result, Reduce reduce) const;
  // The source's gradient of that scatter.
  Tensor scatter_gradient(const Call& scatter, const Tensor& result, const Tensor& grad) const;

 private:
  Call scatter_call(const Tensor& onto, Reduce reduce) const;

  const Call& call_;
  Tensor index_;
};

// The result of a call on a source and an index: the source's shape with the groups on the axis.
Meta infer_groups(const Call& call, const Metas& inputs);

// Which of the reductions by group that no scatter has (attrs.offset).
enum class GroupKind : int64_t { plain, count, var, std, logsumexp, first, last, argmax, argmin };
GroupKind group_kind(const Call& call);

// What a group without elements has.
Scalar empty_value(Reduce reduce, DType dtype);

// All over `out`: one value; x rounded to its type.
void fill_with(const Tensor& out, const Scalar& value);
void round_into(const Tensor& out, const Tensor& x);

// The gradient of a reduction by group, for an index that may not be the call's own.
Tensor group_gradient(const Backward& backward, const Grouping& groups);
void lower_groups(const Call& call, const Grouping& groups, const Tensor& out);
Meta infer_group_reduce(const Call& call, const Metas& inputs);
uint64_t saves_group_reduce(const Call& call, uint64_t needs);
// Reads "sum", "var", ... into attrs, and adds the inputs that the reduction needs.
void set_group_reduction(Call& call, std::string_view reduce, int64_t correction);

// The largest key plus one: reads the data.
int64_t size_of_groups(const char* op, const Index& index);

extern const OpDef kGroupReduce, kGroupSoftmax, kGroupLogSoftmax, kSegmentReduce, kSegmentIds,
    kGatherCsr, kSegmentCumsum, kBincount, kBinIndex, kSendURecv, kSendUeRecv, kSendUv;

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Inference without data: unknown extents (-1) pass where they may fit and are handed on.
#include "ops/defs.h"
#include "ops/plain.h"

namespace sow::testing {
namespace {

using detail::Attrs;
using detail::Call;
using detail::Meta;
using detail::Metas;
using detail::OpDef;

Meta meta(const Dims& shape, DType dtype = DType::float32) { return {dtype, shape, {}}; }
Meta keys(const Dims& shape) { return meta(shape, DType::int64); }
Meta mask(const Dims& shape) { return meta(shape, DType::bool_); }

Dims infer(const OpDef& op, const Metas& inputs, const Attrs& attrs = {}, bool in_place = false) {
  Call call;
  call.op = &op;
  call.inputs = TensorList(inputs.size());
  call.attrs = attrs;
  call.in_place = in_place;
  return op.infer(call, inputs).shape;
}

Attrs axis(int64_t value, bool broadcast = true) {
  Attrs attrs;
  attrs.axis = value;
  attrs.broadcast = broadcast;
  return attrs;
}

TEST(Infer, every_operation_is_whole) {
  for (const OpDef* op : detail::all_ops()) {
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_EQ((op->lower != nullptr) + (op->view != nullptr) + (op->dynamic != nullptr), 1)
        << op->name;
    EXPECT_EQ(detail::find_op(op->name), op);
    const std::string in_place = std::string(op->name) + "_";
    EXPECT_EQ(op->in_place_name ? op->in_place_name : in_place, in_place);
  }
  EXPECT_EQ(detail::find_op("sow"), nullptr);
}

TEST(Infer, along_axis) {
  EXPECT_EQ(infer(detail::kPutAlongAxis, {meta({-1, 4}), keys({-1, 2}), meta({-1, 2})}, axis(1)),
            (Dims{-1, 4}));
  EXPECT_EQ(infer(detail::kTakeAlongAxis, {meta({-1, 4}), keys({7, 2})}, axis(1)), (Dims{7, 2}));
  EXPECT_EQ(infer(detail::kTakeAlongAxis, {meta({-1, 4}), keys({1, -1})}, axis(1)), (Dims{-1, -1}));
  EXPECT_EQ(infer(detail::kGather, {meta({-1, 4}), keys({-1, 2})}, axis(0, false)), (Dims{-1, 2}));
  EXPECT_THROW(infer(detail::kPutAlongAxis, {meta({-1, 4}), keys({-1, 2}), meta({-1, 3})}, axis(1)),
               Error);
  EXPECT_THROW(infer(detail::kGather, {meta({-1, 4}), keys({-1, 5})}, axis(0, false)), Error);
}

TEST(Infer, masked) {
  const OpDef& op = detail::kMaskedScatter;
  EXPECT_EQ(infer(op, {meta({-1, 5}), mask({-1, 5}), meta({-1})}), (Dims{-1, 5}));
  EXPECT_EQ(infer(op, {meta({3, 5}), mask({-1, 5}), meta({-1})}), (Dims{3, 5}));
  EXPECT_EQ(infer(op, {meta({-1, 5}), mask({2, 1, 5}), meta({-1})}), (Dims{2, -1, 5}));
  EXPECT_EQ(infer(op, {meta({-1, 5}), mask({1, 5}), meta({-1})}, {}, true), (Dims{-1, 5}));
  EXPECT_THROW(infer(op, {meta({-1, 5}), mask({2, 1, 5}), meta({-1})}, {}, true), Error);
  EXPECT_THROW(infer(op, {meta({-1, 5}), mask({4}), meta({-1})}), Error);
  EXPECT_EQ(infer(detail::kMaskedSelect, {meta({-1, 5}), mask({5})}), (Dims{-1}));
  EXPECT_EQ(infer(detail::kNonzero, {meta({-1, 5})}), (Dims{-1, 2}));
}

TEST(Infer, rows_and_coordinates) {
  EXPECT_EQ(infer(detail::kIndexAdd, {meta({-1, 4}), keys({-1}), meta({9, 4})}), (Dims{-1, 4}));
  EXPECT_EQ(infer(detail::kIndexSelect, {meta({-1, 4}), keys({-1})}, axis(1)), (Dims{-1, -1}));
  EXPECT_THROW(infer(detail::kIndexAdd, {meta({-1, 4}), keys({-1}), meta({9, 3})}), Error);
  EXPECT_EQ(infer(detail::kGatherNd, {meta({3, -1}), keys({-1, 1})}), (Dims{-1, -1}));
  EXPECT_THROW(infer(detail::kGatherNd, {meta({3, -1}), keys({4, -1})}), Error);
  Attrs sizes;
  sizes.shape = {-1, -1};
  EXPECT_EQ(
      infer(detail::kIndexPut, {meta({-1, 4, 5}), mask({-1}), keys({-1}), meta({-1, 5})}, sizes),
      (Dims{-1, 4, 5}));
}

TEST(Infer, parts_and_views) {
  EXPECT_EQ(infer(detail::kDiagonalScatter, {meta({-1, 4}), meta({3})}), (Dims{-1, 4}));
  EXPECT_EQ(infer(detail::kDiagonal, {meta({2, -1, 4})}), (Dims{4, -1}));
  EXPECT_EQ(infer(detail::kSlice, {meta({-1, 4})}), (Dims{-1, 4}));
  EXPECT_EQ(infer(detail::kSelect, {meta({-1, 4})}), (Dims{4}));
  EXPECT_EQ(infer(detail::kFlatten, {meta({2, -1, 4})},
                  [] {
                    Attrs attrs;
                    attrs.axis2 = -1;
                    return attrs;
                  }()),
            (Dims{-1}));
  EXPECT_EQ(infer(detail::kFlip, {meta({2, -1})}, axis(1)), (Dims{2, -1}));
  EXPECT_EQ(infer(detail::kTranspose, {meta({2, -1})}), (Dims{-1, 2}));
}

TEST(Infer, a_held_size_must_fit_the_axis) {
  Attrs held = axis(0);
  held.held_size = 5;
  EXPECT_EQ(infer(detail::kIndexAdd, {meta({5, 4}), keys({2}), meta({2, 4})}, held), (Dims{5, 4}));
  try {
    infer(detail::kIndexAdd, {meta({6, 4}), keys({2}), meta({2, 4})}, held);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::argument);
    EXPECT_STREQ(
        error.what(),
        "index_add: the index is held for an axis of size 5, but axis 0 has size 6; hold it "
        "for that");
  }
}

}  // namespace
}  // namespace sow::testing

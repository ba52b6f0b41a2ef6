// SPDX-License-Identifier: Apache-2.0
// index_add, index_copy, index_fill, index_reduce and index_select against plain loops.
#include "ops/plain.h"

namespace sow::testing {
namespace {

struct Problem {
  Plain x, index, source;
  int64_t axis;
};

Problem draw_problem(Draw& draw) {
  const Dims shape = draw.shape(static_cast<int>(draw.number(1, 3)));
  const int64_t axis = draw.number(0, shape.rank() - 1);
  Dims source = shape;
  source[axis] = draw.number(0, 6);
  return {draw.array(shape), draw.array({source[axis]}, -shape[axis], shape[axis] - 1),
          draw.array(source), axis};
}

Plain expected_rows(const Problem& p, const Plain& source, Reduce reduce,
                    bool include_self = true) {
  Updates updates(p.x);
  for_each(source.shape, [&](const Dims& at) {
    Dims to = at;
    to[p.axis] = wrapped(p.index[{at[p.axis]}], p.x.shape[p.axis]);
    updates.add(to, source[at]);
  });
  return updates.result(reduce, include_self);
}

TEST(Rows, scatters_equal_plain_loops) {
  Draw draw(8);
  for (int i = 0; i < 500; ++i) {
    const Problem p = draw_problem(draw);
    const Tensor x = lay_out(p.x, draw.layout());
    const Tensor index = lay_out<int32_t>(p.index, draw.layout());
    const Tensor source = lay_out(p.source, draw.layout());
    const int64_t axis = draw.coin() ? p.axis : p.axis - p.x.shape.rank();
    const Reduce reduce = draw.reduce();
    const bool include_self = draw.coin();
    const Plain added = expected_rows(p, p.source, Reduce::add);
    const Plain copied = expected_rows(p, p.source, Reduce::assign);
    const Plain reduced = expected_rows(p, p.source, reduce, include_self);
    const Plain filled = expected_rows(p, Plain(p.source.shape, 7), Reduce::assign);
    ASSERT_EQ(Plain(index_add(x, axis, index, source)), added) << "problem " << i;
    ASSERT_EQ(Plain(index_copy(x, axis, index, source)), copied) << "problem " << i;
    ASSERT_EQ(Plain(index_reduce(x, axis, index, source, reduce, include_self)), reduced);
    ASSERT_EQ(Plain(index_fill(x, axis, index, 7)), filled) << "problem " << i;
    const Tensor seven = Tensor::scalar(7, DType::int64);
    ASSERT_EQ(Plain(index_fill(x, axis, index, seven)), filled) << "problem " << i;
    ASSERT_EQ(Plain(x), p.x);
    const auto fresh = [&] { return lay_out(p.x, draw.layout()); };
    ASSERT_EQ(Plain(index_add_(fresh(), axis, index, source)), added) << "problem " << i;
    ASSERT_EQ(Plain(index_copy_(fresh(), axis, index, source)), copied) << "problem " << i;
    ASSERT_EQ(Plain(index_reduce_(fresh(), axis, index, source, reduce, include_self)), reduced);
    ASSERT_EQ(Plain(index_fill_(fresh(), axis, index, 7)), filled) << "problem " << i;
  }
}

TEST(Rows, index_select_equals_plain_loops) {
  Draw draw(9);
  for (int i = 0; i < 300; ++i) {
    const Problem p = draw_problem(draw);
    Plain expected(p.source.shape);
    for_each(expected.shape, [&](const Dims& at) {
      Dims from = at;
      from[p.axis] = wrapped(p.index[{at[p.axis]}], p.x.shape[p.axis]);
      expected[at] = p.x[from];
    });
    const Tensor index = lay_out(p.index, draw.layout());
    ASSERT_EQ(Plain(index_select(lay_out(p.x, draw.layout()), p.axis, index)), expected);
  }
}

TEST(Rows, zero_dimensions_count_as_one) {
  const Tensor zero = Tensor::scalar(0, DType::int64);
  const Tensor x = Tensor::scalar(5, DType::int64);
  EXPECT_EQ(index_add(x, 0, zero, x).item<int64_t>(), 10);
  EXPECT_EQ(index_add(x, 0, zero, x).dim(), 0);
  EXPECT_EQ(index_select(x, 0, zero).dim(), 0);
  EXPECT_EQ(index_select(x, -1, Tensor::of<int64_t>({0})).dim(), 0);
  EXPECT_THROW(index_select(x, -1, Tensor::of<int64_t>({0, 0})), Error);  // as PyTorch
  const Tensor table = Tensor::of<int64_t>({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(index_select(table, 1, zero).shape(), (Dims{2, 1}));
  EXPECT_EQ(index_fill(table, 0, zero, 9).to_vector<int64_t>(), (std::vector<int64_t>{9, 9, 3, 4}));
}

TEST(Rows, the_shape_of_a_source_is_told) {
  const Tensor x = Tensor::zeros({3, 4}, DType::float32);
  const Tensor index = Tensor::of<int64_t>({0, 2});
  try {
    index_add(x, 0, index, Tensor::zeros({3, 4}, DType::float32));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "index_add: source has shape [3, 4], but x [3, 4] with 2 indices on axis 0 takes a "
        "source of shape [2, 4]");
  }
}

}  // namespace
}  // namespace sow::testing

// SPDX-License-Identifier: Apache-2.0
// put_along_axis, the scatter family, take_along_axis and gather against plain loops.
#include "ops/plain.h"

namespace sow::testing {
namespace {

struct Problem {
  Plain arr, index, source;
  int64_t axis;
  Reduce reduce;
  bool include_self;
  bool broadcast;
};

Problem draw_problem(Draw& draw) {
  const int rank = static_cast<int>(draw.number(1, 3));
  const Dims arr = draw.shape(rank);
  const int64_t axis = draw.number(0, rank - 1);
  const bool broadcast = draw.coin();
  Dims index = arr;
  Dims source;
  for (int d = 0; d < rank; ++d) {
    if (d == axis)
      index[d] = draw.number(0, 6);
    else if (broadcast)
      index[d] = draw.coin() ? 1 : arr[d];
    else
      index[d] = draw.number(0, arr[d]);
  }
  if (broadcast) {
    const int lower = static_cast<int>(draw.number(0, rank));
    for (int d = lower; d < rank; ++d) {
      const int64_t full = d == axis ? index[d] : arr[d];
      source.push_back(draw.coin() ? 1 : full);
    }
  } else {
    source = index;
    for (int64_t& extent : source) extent += draw.number(0, 2);
  }
  return {draw.array(arr),    draw.array(index, -arr[axis], arr[axis] - 1),
          draw.array(source), axis,
          draw.reduce(),      draw.coin(),
          broadcast};
}

Dims space_of(const Problem& p) {
  if (!p.broadcast) return p.index.shape;
  Dims space = p.arr.shape;
  space[p.axis] = p.index.shape[p.axis];
  return space;
}

Plain expected_scatter(const Problem& p) {
  Updates updates(p.arr);
  for_each(space_of(p), [&](const Dims& at) {
    Dims to = at;
    to[p.axis] = wrapped(p.index.expanded(at), p.arr.shape[p.axis]);
    updates.add(to, p.broadcast ? p.source.expanded(at) : p.source[at]);
  });
  return updates.result(p.reduce, p.include_self);
}

TEST(AlongAxis, put_along_axis_equals_plain_loops) {
  Draw draw(1);
  for (int i = 0; i < 1500; ++i) {
    const Problem p = draw_problem(draw);
    const Tensor arr = lay_out(p.arr, draw.layout());
    const Tensor index = draw.coin() ? lay_out<int32_t>(p.index, draw.layout())
                                     : lay_out<int64_t>(p.index, draw.layout());
    const Tensor values = lay_out(p.source, draw.layout());
    const int64_t axis = draw.coin() ? p.axis : p.axis - p.arr.shape.rank();
    const Plain expected = expected_scatter(p);
    const Tensor out =
        put_along_axis(arr, index, values, axis, p.reduce, p.include_self, p.broadcast);
    ASSERT_EQ(Plain(out), expected) << "problem " << i;
    ASSERT_TRUE(out.is_contiguous());
    ASSERT_EQ(Plain(arr), p.arr) << "problem " << i;
    const Tensor same =
        put_along_axis_(arr, index, values, axis, p.reduce, p.include_self, p.broadcast);
    ASSERT_TRUE(same.same_object(arr));
    ASSERT_EQ(Plain(arr), expected) << "problem " << i << " in place";
  }
}

TEST(AlongAxis, scatter_family_equals_put_along_axis_without_broadcast) {
  Draw draw(2);
  for (int i = 0; i < 400; ++i) {
    Problem p = draw_problem(draw);
    if (p.broadcast) continue;
    const Tensor arr = lay_out(p.arr, draw.layout());
    const Tensor index = lay_out(p.index, draw.layout());
    const Tensor src = lay_out(p.source, draw.layout());
    ASSERT_EQ(Plain(scatter_reduce(arr, p.axis, index, src, p.reduce, p.include_self)),
              expected_scatter(p));
    p.include_self = true;
    ASSERT_EQ(Plain(scatter(arr, p.axis, index, src, p.reduce)), expected_scatter(p));
    p.reduce = Reduce::add;
    ASSERT_EQ(Plain(scatter_add(arr, p.axis, index, src)), expected_scatter(p));
    const Tensor other = arr.clone();
    ASSERT_EQ(Plain(scatter_add_(arr, p.axis, index, src)), expected_scatter(p));
    ASSERT_EQ(Plain(scatter_reduce_(other, p.axis, index, src, "sum")), expected_scatter(p));
  }
}

TEST(AlongAxis, a_scalar_stands_for_every_place) {
  const Tensor x = Tensor::zeros({3, 5}, DType::float32);
  const Tensor y = Tensor::of<int64_t>({1, 2, 0, 1}, {2, 2});
  scatter_(x, 0, y, 2.0);
  EXPECT_EQ(x.to_vector<float>(),
            (std::vector<float>{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(put_along_axis(x, y, 1, 0, "add", true, false).to_vector<float>(),
            (std::vector<float>{3, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 3, 0, 0, 0}));
}

TEST(AlongAxis, gathers_equal_plain_loops) {
  Draw draw(3);
  for (int i = 0; i < 600; ++i) {
    const Problem p = draw_problem(draw);
    const Tensor arr = lay_out(p.arr, draw.layout());
    const Tensor index = lay_out<int32_t>(p.index, draw.layout());
    Plain expected(space_of(p));
    for_each(expected.shape, [&](const Dims& at) {
      Dims from = at;
      from[p.axis] = wrapped(p.index.expanded(at), p.arr.shape[p.axis]);
      expected[at] = p.arr[from];
    });
    ASSERT_EQ(Plain(take_along_axis(arr, index, p.axis, p.broadcast)), expected) << "problem " << i;
    if (p.broadcast) continue;
    ASSERT_EQ(Plain(gather(arr, p.axis, index)), expected) << "problem " << i;
  }
}

TEST(AlongAxis, zero_dimensions_count_as_one) {
  const Tensor x = Tensor::scalar(5, DType::int64);
  const Tensor zero = Tensor::scalar(0, DType::int64);
  const Tensor three = Tensor::scalar(3, DType::int64);
  const Tensor out = scatter_add(x, 0, zero, three);
  EXPECT_EQ(out.dim(), 0);
  EXPECT_EQ(out.item<int64_t>(), 8);
  EXPECT_EQ(put_along_axis(x, Tensor::of<int64_t>({0, 0}), three, -1).item<int64_t>(), 11);
  const Tensor line = Tensor::of<int64_t>({4, 5, 6});
  EXPECT_EQ(scatter(line, 0, zero, three).to_vector<int64_t>(), (std::vector<int64_t>{3, 5, 6}));
  EXPECT_EQ(gather(line, 0, zero).dim(), 0);
  EXPECT_EQ(gather(line, 0, zero).item<int64_t>(), 4);
  EXPECT_EQ(take_along_axis(x, Tensor::of<int64_t>({0, -1}), 0).to_vector<int64_t>(),
            (std::vector<int64_t>{5, 5}));
}

TEST(AlongAxis, an_empty_index_changes_nothing_and_is_checked) {
  const Tensor x = Tensor::of<int64_t>({1, 2, 3, 4}, {2, 2});
  const Tensor none = Tensor::empty({0, 2}, DType::int64);
  EXPECT_EQ(Plain(scatter_add(x, 0, none, none)), Plain(x));
  EXPECT_EQ(Plain(put_along_axis(x, none, 1, 0)), Plain(x));
  EXPECT_EQ(gather(x, 0, none).shape(), (Dims{0, 2}));
  EXPECT_THROW(scatter_add(x, 0, Tensor::empty({0}, DType::int64), none), Error);
  EXPECT_THROW(scatter_add(x, 0, Tensor::empty({0, 3}, DType::int64), none), Error);
}

TEST(AlongAxis, bounds_reach_the_lowering) {
  const Tensor x = Tensor::zeros({3}, DType::int64);
  const Tensor index = Tensor::of<int64_t>({7, 1, -9});
  const Tensor src = Tensor::of<int64_t>({1, 2, 4});
  EXPECT_EQ(scatter_add(x, 0, Index(index, Bounds::drop), src).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 2, 0}));
  EXPECT_EQ(scatter_add(x, 0, Index(index, Bounds::clip), src).to_vector<int64_t>(),
            (std::vector<int64_t>{4, 2, 1}));
  EXPECT_EQ(gather(src, 0, Index(index, Bounds::drop)).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 2, 0}));
  try {
    scatter_add(x, 0, index, src);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "scatter_add: index 7 at position [0] is out of range for axis 0 of size 3 "
                 "(valid: -3 to 2)");
  }
}

}  // namespace
}  // namespace sow::testing

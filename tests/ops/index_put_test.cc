// SPDX-License-Identifier: Apache-2.0
// index_put against plain loops: index tensors, masks, both at once.
#include "ops/plain.h"

namespace sow::testing {
namespace {

// Indices as the plain loop sees them: coordinates of x for each position of the common shape.
struct Problem {
  Plain x{Dims{}};
  std::vector<Index> indices;
  std::vector<Plain> columns;  // one an addressed axis, to be expanded to `common`
  Dims common;
};

void add_mask(Draw& draw, Problem& p, size_t first, size_t axes) {
  const Plain mask = draw.array(Dims(p.x.shape.data() + first, axes), 0, 1);
  p.indices.push_back(mask_of(mask));
  std::vector<std::vector<int64_t>> places(axes);
  for_each(mask.shape, [&](const Dims& at) {
    for (size_t k = 0; k < axes && mask[at]; ++k) places[k].push_back(at[k]);
  });
  for (const auto& column : places) {
    Plain plain({static_cast<int64_t>(column.size())});
    plain.values = column;
    p.columns.push_back(plain);
  }
}

void add_tensor(Draw& draw, Problem& p, size_t axis, const Dims& shape) {
  const int64_t extent = p.x.shape[axis];
  p.columns.push_back(draw.array(shape, -extent, extent - 1));
  p.indices.push_back(draw.coin() ? lay_out<int32_t>(p.columns.back(), draw.layout())
                                  : lay_out(p.columns.back(), draw.layout()));
}

Problem draw_problem(Draw& draw, bool mask) {
  Problem p;
  p.x = draw.array(draw.shape(3));
  const size_t addressed = static_cast<size_t>(draw.number(1, 3));
  size_t axis = 0;
  Dims shape = draw.shape(static_cast<int>(draw.number(0, 2)), 0, 3);
  if (mask) {
    const size_t axes = static_cast<size_t>(draw.number(1, static_cast<int64_t>(addressed)));
    add_mask(draw, p, 0, axes);
    axis = axes;
    shape = p.columns[0].shape;
  }
  p.common = shape;
  for (; axis < addressed; ++axis) {
    Dims own = shape;
    if (axis > 0 && !own.empty() && draw.coin()) own[0] = 1;
    add_tensor(draw, p, axis, own);
  }
  return p;
}

Plain expected(const Problem& p, const Plain& value, bool accumulate) {
  Updates updates(p.x);
  Dims space = p.common;
  for (size_t d = p.columns.size(); d < p.x.shape.size(); ++d) space.push_back(p.x.shape[d]);
  for_each(space, [&](const Dims& at) {
    Dims to;
    const Dims outer(at.data(), p.common.size());
    for (size_t k = 0; k < p.columns.size(); ++k) {
      to.push_back(wrapped(p.columns[k].expanded(outer), p.x.shape[k]));
    }
    for (size_t d = p.common.size(); d < at.size(); ++d) to.push_back(at[d]);
    updates.add(to, value.expanded(at));
  });
  return updates.result(accumulate ? Reduce::add : Reduce::assign);
}

Plain draw_value(Draw& draw, const Problem& p) {
  Dims space = p.common;
  for (size_t d = p.columns.size(); d < p.x.shape.size(); ++d) space.push_back(p.x.shape[d]);
  Dims shape;
  for (int d = static_cast<int>(draw.number(0, space.rank())); d < space.rank(); ++d) {
    shape.push_back(draw.number(0, 3) == 0 ? 1 : space[d]);
  }
  return draw.array(shape);
}

void compare(unsigned seed, bool mask) {
  Draw draw(seed);
  for (int i = 0; i < 600; ++i) {
    const Problem p = draw_problem(draw, mask);
    const Plain value = draw_value(draw, p);
    const bool accumulate = draw.coin();
    const Tensor x = lay_out(p.x, draw.layout());
    const Tensor v = lay_out(value, draw.layout());
    ASSERT_EQ(Plain(index_put(x, p.indices, v, accumulate)), expected(p, value, accumulate))
        << "problem " << i;
    ASSERT_EQ(Plain(index_put(x, p.indices, 7, accumulate)), expected(p, Plain({}, 7), accumulate))
        << "problem " << i << " with a scalar";
    ASSERT_EQ(Plain(x), p.x);
    ASSERT_TRUE(index_put_(x, p.indices, v, accumulate).same_object(x));
    ASSERT_EQ(Plain(x), expected(p, value, accumulate)) << "problem " << i << " in place";
  }
}

TEST(IndexPut, index_tensors_equal_plain_loops) { compare(12, false); }

TEST(IndexPut, masks_equal_plain_loops) { compare(13, true); }

TEST(IndexPut, values_for_a_mask_are_counted) {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4});
  const Tensor mask = Tensor::of<bool>({true, false, true, true}, {4});
  try {
    index_put_(x, {mask}, Tensor::of<float>({9, 9}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape);
    EXPECT_STREQ(error.what(),
                 "index_put_: value [2] does not broadcast to shape [3] (the indices' shape, then "
                 "the axes of x that none addresses)");
  }
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(IndexPut, policies_must_agree) {
  const Tensor x = Tensor::zeros({2, 2}, DType::float32);
  const Tensor at = Tensor::of<int64_t>({0, 5});
  EXPECT_THROW(index_put(x, {Index(at, Bounds::drop), Index(at, Bounds::clip)}, 1), Error);
  EXPECT_EQ(index_put(x, {Index(at, Bounds::drop), Index(at, Bounds::drop)}, 1).to_vector<float>(),
            (std::vector<float>{1, 0, 0, 0}));
}

TEST(IndexPut, zero_dimensions_count_as_one) {
  const Tensor x = Tensor::scalar(5, DType::int64);
  EXPECT_EQ(index_put(x, {Tensor::scalar(0, DType::int64)}, 2, true).item<int64_t>(), 7);
  EXPECT_EQ(index_put(x, {Tensor::scalar(true, DType::bool_)}, 2).item<int64_t>(), 2);
  EXPECT_EQ(index_put(x, {Tensor::scalar(false, DType::bool_)}, 2).item<int64_t>(), 5);
  EXPECT_EQ(index_put(x, {Tensor::scalar(true, DType::bool_)}, 2, true).dim(), 0);
}

}  // namespace
}  // namespace sow::testing

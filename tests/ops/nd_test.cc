// SPDX-License-Identifier: Apache-2.0
// scatter_nd, tensor_scatter_nd_* and gather_nd against plain loops.
#include "ops/plain.h"

namespace sow::testing {
namespace {

struct Problem {
  Plain x, indices, updates;
};

Problem draw_problem(Draw& draw) {
  const Dims shape = draw.shape(static_cast<int>(draw.number(1, 3)));
  const int64_t k = draw.number(0, shape.rank());
  Dims indices = draw.shape(static_cast<int>(draw.number(0, 2)), 0, 4);
  Dims updates = indices;
  indices.push_back(k);
  for (int d = static_cast<int>(k); d < shape.rank(); ++d) updates.push_back(shape[d]);
  Plain keys(indices);
  for_each(indices, [&](const Dims& at) {
    const int64_t extent = shape[at.back()];
    keys[at] = draw.number(-extent, extent - 1);
  });
  return {draw.array(shape), keys, draw.array(updates)};
}

// The place in x that position `at` of the updates means.
Dims target(const Problem& p, const Dims& at) {
  Dims outer(at.data(), p.indices.shape.size() - 1);
  Dims to;
  outer.push_back(0);
  for (int64_t k = 0; k < p.indices.shape.back(); ++k) {
    outer[outer.size() - 1] = k;
    to.push_back(wrapped(p.indices[outer], p.x.shape[k]));
  }
  for (size_t d = outer.size() - 1; d < at.size(); ++d) to.push_back(at[d]);
  return to;
}

Plain expected(const Problem& p, Reduce reduce, int64_t sign = 1) {
  Updates updates(p.x);
  for_each(p.updates.shape,
           [&](const Dims& at) { updates.add(target(p, at), sign * p.updates[at]); });
  return updates.result(reduce);
}

TEST(Nd, scatters_equal_plain_loops) {
  Draw draw(10);
  for (int i = 0; i < 500; ++i) {
    Problem p = draw_problem(draw);
    const Tensor x = lay_out(p.x, draw.layout());
    const Tensor at = lay_out<int32_t>(p.indices, draw.layout());
    const Tensor u = lay_out(p.updates, draw.layout());
    ASSERT_EQ(Plain(tensor_scatter_nd_update(x, at, u)), expected(p, Reduce::assign)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_add(x, at, u)), expected(p, Reduce::add)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_sub(x, at, u)), expected(p, Reduce::add, -1)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_max(x, at, u)), expected(p, Reduce::amax)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_min(x, at, u)), expected(p, Reduce::amin)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_mul(x, at, u)), expected(p, Reduce::mul)) << i;
    ASSERT_EQ(Plain(x), p.x);
    const auto fresh = [&] { return lay_out(p.x, draw.layout()); };
    ASSERT_EQ(Plain(tensor_scatter_nd_update_(fresh(), at, u)), expected(p, Reduce::assign)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_add_(fresh(), at, u)), expected(p, Reduce::add)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_sub_(fresh(), at, u)), expected(p, Reduce::add, -1)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_max_(fresh(), at, u)), expected(p, Reduce::amax)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_min_(fresh(), at, u)), expected(p, Reduce::amin)) << i;
    ASSERT_EQ(Plain(tensor_scatter_nd_mul_(fresh(), at, u)), expected(p, Reduce::mul)) << i;
    p.x = Plain(p.x.shape);
    ASSERT_EQ(Plain(scatter_nd(at, u, p.x.shape)), expected(p, Reduce::add)) << i;
  }
}

TEST(Nd, gather_nd_equals_plain_loops) {
  Draw draw(11);
  for (int i = 0; i < 300; ++i) {
    const Problem p = draw_problem(draw);
    Plain out(p.updates.shape);
    for_each(out.shape, [&](const Dims& at) { out[at] = p.x[target(p, at)]; });
    const Tensor at = lay_out(p.indices, draw.layout());
    ASSERT_EQ(Plain(gather_nd(lay_out(p.x, draw.layout()), at)), out) << "problem " << i;
  }
}

TEST(Nd, a_bad_coordinate_is_named) {
  const Tensor x = Tensor::zeros({3, 4}, DType::float32);
  const Tensor at = Tensor::of<int64_t>({0, 0, 2, 4, 3, 0}, {3, 2});
  try {
    tensor_scatter_nd_add_(x, at, Tensor::ones({3}, DType::float32));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "tensor_scatter_nd_add_: index 4 at position [1, 1] is out of range for axis 1 of "
                 "size 4 (valid: -4 to 3)");
  }
}

}  // namespace
}  // namespace sow::testing

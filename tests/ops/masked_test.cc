// SPDX-License-Identifier: Apache-2.0
// masked_scatter, masked_fill, masked_select and nonzero against plain loops.
#include <cmath>
#include <limits>

#include "ops/plain.h"

namespace sow::testing {
namespace {

// A shape that expands to `shape`, or to a part of it that the other operand completes.
Dims narrowed(Draw& draw, const Dims& shape) {
  Dims out;
  for (int d = static_cast<int>(draw.number(0, shape.rank())); d < shape.rank(); ++d) {
    out.push_back(draw.coin() ? 1 : shape[d]);
  }
  return out;
}

// The common shape of two that expand to the same one.
Dims common(const Dims& a, const Dims& b) {
  Dims out = a.size() > b.size() ? a : b;
  const Dims& shorter = a.size() > b.size() ? b : a;
  for (size_t d = 0; d < shorter.size(); ++d) {
    int64_t& extent = out[out.size() - shorter.size() + d];
    if (extent == 1) extent = shorter[d];
  }
  return out;
}

Plain expected_masked(const Plain& x, const Plain& mask, const std::vector<int64_t>& values,
                      bool one_value) {
  Plain out(common(x.shape, mask.shape));
  size_t rank = 0;
  for_each(out.shape, [&](const Dims& at) {
    out[at] = mask.expanded(at) ? values[one_value ? 0 : rank++] : x.expanded(at);
  });
  return out;
}

TEST(Masked, scatter_and_fill_equal_plain_loops) {
  Draw draw(4);
  for (int i = 0; i < 800; ++i) {
    const Dims shape = draw.shape(static_cast<int>(draw.number(0, 3)), 0, 4);
    const Plain mask = draw.array(narrowed(draw, shape), 0, 1);
    const Plain wide = draw.array(shape), narrow = draw.array(narrowed(draw, shape));
    const Plain value = draw.array({draw.number(2, 3), 40});
    const Tensor v = lay_out(value, draw.layout());
    for (const Plain* x : {&wide, &narrow}) {
      const Tensor t = lay_out(*x, draw.layout());
      const Tensor out = masked_scatter(t, mask_of(mask), v);
      ASSERT_EQ(Plain(out), expected_masked(*x, mask, value.values, false)) << "problem " << i;
      ASSERT_EQ(Plain(masked_fill(t, mask_of(mask), 7)), expected_masked(*x, mask, {7}, true));
      ASSERT_EQ(Plain(t), *x);
    }
    const Tensor t = lay_out(wide, draw.layout());
    const Tensor copy = t.clone();
    ASSERT_TRUE(masked_scatter_(t, mask_of(mask), v).same_object(t));
    ASSERT_EQ(Plain(t), expected_masked(wide, mask, value.values, false)) << "problem " << i;
    masked_fill_(copy, mask_of(mask), Tensor::scalar(3, DType::int64));
    ASSERT_EQ(Plain(copy), expected_masked(wide, mask, {3}, true)) << "problem " << i;
  }
}

TEST(Masked, strided_lines_of_values_are_read_in_order) {
  const Tensor x = Tensor::zeros({6}, DType::int64);
  const Tensor mask = Tensor::of<bool>({true, false, true, true, false, true}, {6});
  for (const Layout layout : kLayouts) {
    const Plain value = Draw(5).array({5});
    const Tensor out = masked_scatter(x, mask, lay_out(value, layout));
    EXPECT_EQ(out.to_vector<int64_t>(),
              (std::vector<int64_t>{value.values[0], 0, value.values[1], value.values[2], 0,
                                    value.values[3]}));
  }
}

TEST(Masked, select_equals_plain_loops) {
  Draw draw(6);
  for (int i = 0; i < 500; ++i) {
    const Dims shape = draw.shape(static_cast<int>(draw.number(0, 3)), 0, 4);
    const Plain mask = draw.array(narrowed(draw, shape), 0, 1);
    const Plain x = draw.array(draw.coin() ? shape : narrowed(draw, shape));
    std::vector<int64_t> expected;
    for_each(common(x.shape, mask.shape), [&](const Dims& at) {
      if (mask.expanded(at)) expected.push_back(x.expanded(at));
    });
    const Tensor out = masked_select(lay_out(x, draw.layout()), mask_of(mask));
    ASSERT_EQ(out.dim(), 1);
    ASSERT_EQ(out.to_vector<int64_t>(), expected) << "problem " << i;
  }
}

TEST(Masked, nonzero_lists_coordinates) {
  Draw draw(7);
  for (int i = 0; i < 200; ++i) {
    const Dims shape = draw.shape(static_cast<int>(draw.number(0, 3)), 0, 4);
    const Plain x = draw.array(shape, -1, 1);
    std::vector<int64_t> expected;
    int64_t count = 0;
    for_each(shape, [&](const Dims& at) {
      if (x[at] == 0) return;
      ++count;
      expected.insert(expected.end(), at.begin(), at.end());
    });
    for (const Tensor& t : {lay_out(x, draw.layout()), lay_out<double>(x, draw.layout()),
                            lay_out<int8_t>(x), mask_of(x)}) {
      const Tensor out = nonzero(t);
      ASSERT_EQ(out.shape(), (Dims{count, shape.rank()}));
      ASSERT_EQ(out.to_vector<int64_t>(), expected) << "problem " << i;
    }
  }
}

TEST(Masked, nonzero_looks_at_values_not_at_signs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<double> values{0.0, -0.0, nan, tiny, 1.0};
  const std::vector<int64_t> places{2, 3, 4};
  EXPECT_EQ(nonzero(Tensor::of(values, {5})).to_vector<int64_t>(), places);
  std::vector<std::complex<float>> complex{{0, -0.0f}, {-0.0f, 0}, {0, 1}, {1, 0}, {0, NAN}};
  EXPECT_EQ(nonzero(Tensor::of(complex, {5})).to_vector<int64_t>(), places);
  std::vector<float16> halves;
  for (const double value : {0.0, -0.0, 1.0, -1.0, nan}) halves.push_back(float16(value));
  EXPECT_EQ(nonzero(Tensor::of(halves, {5})).to_vector<int64_t>(), places);
}

}  // namespace
}  // namespace sow::testing

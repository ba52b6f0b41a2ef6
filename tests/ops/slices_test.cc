// SPDX-License-Identifier: Apache-2.0
// diagonal_scatter, select_scatter, slice_scatter and fill_diagonal against plain loops.
#include "ops/plain.h"

namespace sow::testing {
namespace {

// Where a test's slice lies: the place in the input of each position of src.
struct Slice {
  Dims shape;
  std::function<Dims(const Dims&)> place;
};

Plain expected(const Plain& input, const Plain& src, const Slice& slice) {
  Plain out = input;
  for_each(slice.shape, [&](const Dims& at) { out[slice.place(at)] = src[at]; });
  return out;
}

Slice draw_diagonal(Draw& draw, const Dims& shape, int64_t& offset, int64_t& axis1,
                    int64_t& axis2) {
  axis1 = draw.number(0, shape.rank() - 1);
  do axis2 = draw.number(0, shape.rank() - 1);
  while (axis2 == axis1);
  offset = draw.number(-5, 5);
  Slice slice;
  int64_t length = 0;
  for (int64_t i = 0; i < shape[axis1]; ++i) length += i + offset >= 0 && i + offset < shape[axis2];
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis1 && d != axis2) slice.shape.push_back(shape[d]);
  }
  slice.shape.push_back(length);
  const int64_t a = axis1, b = axis2, o = offset;
  const size_t rank = shape.size();
  slice.place = [a, b, o, rank](const Dims& at) {
    Dims to(rank, 0);
    size_t next = 0;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t axis = static_cast<int64_t>(d);
      if (axis == a)
        to[d] = at.back() + std::max<int64_t>(-o, 0);
      else if (axis == b)
        to[d] = at.back() + std::max<int64_t>(o, 0);
      else
        to[d] = at[next++];
    }
    return to;
  };
  return slice;
}

// Dense in some order of the dimensions: every place of the memory is used once.
bool is_dense(const Tensor& tensor) {
  int64_t reach = 0;
  for (size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.strides()[d] <= 0) return false;
    reach += (tensor.shape()[d] - 1) * tensor.strides()[d];
  }
  return tensor.numel() == 0 || reach == tensor.numel() - 1;
}

TEST(Slices, diagonal_scatter_equals_plain_loops) {
  Draw draw(14);
  for (int i = 0; i < 500; ++i) {
    const Plain input = draw.array(draw.shape(static_cast<int>(draw.number(2, 4)), 0, 4));
    int64_t offset = 0, axis1 = 0, axis2 = 0;
    const Slice slice = draw_diagonal(draw, input.shape, offset, axis1, axis2);
    const Plain src = draw.array(slice.shape);
    const Tensor x = lay_out(input, draw.layout());
    const Tensor s = lay_out(src, draw.layout());
    if (draw.coin()) axis1 -= input.shape.rank();
    const Tensor out = diagonal_scatter(x, s, offset, axis1, axis2);
    ASSERT_EQ(Plain(out), expected(input, src, slice)) << "problem " << i;
    ASSERT_TRUE(is_dense(out));
    ASSERT_EQ(Plain(x), input);
    ASSERT_TRUE(diagonal_scatter_(x, s, offset, axis1, axis2).same_object(x));
    ASSERT_EQ(Plain(x), expected(input, src, slice)) << "problem " << i << " in place";
  }
}

TEST(Slices, select_scatter_equals_plain_loops) {
  Draw draw(15);
  for (int i = 0; i < 300; ++i) {
    const Plain input = draw.array(draw.shape(static_cast<int>(draw.number(1, 3))));
    const int64_t axis = draw.number(0, input.shape.rank() - 1);
    const int64_t position = draw.number(-input.shape[axis], input.shape[axis] - 1);
    Slice slice;
    slice.shape = input.shape;
    slice.shape.erase(axis);
    slice.place = [&](const Dims& at) {
      Dims to = at;
      to.insert(axis, wrapped(position, input.shape[axis]));
      return to;
    };
    const Plain src = draw.array(slice.shape);
    const Tensor x = lay_out(input, draw.layout());
    const Tensor s = lay_out(src, draw.layout());
    ASSERT_EQ(Plain(select_scatter(x, s, axis, position)), expected(input, src, slice));
    ASSERT_EQ(Plain(select_scatter_(x, s, axis, position)), expected(input, src, slice));
  }
}

TEST(Slices, slice_scatter_equals_plain_loops) {
  Draw draw(16);
  for (int i = 0; i < 500; ++i) {
    const Plain input = draw.array(draw.shape(static_cast<int>(draw.number(1, 3)), 0, 5));
    const int64_t axis = draw.number(0, input.shape.rank() - 1);
    const int64_t n = input.shape[axis];
    const int64_t start = draw.number(-8, 8), step = draw.number(1, 3);
    const int64_t stop = draw.coin() ? draw.number(-8, 8) : kEnd;
    // Python's rule, spelled out: the positions below stop that a walk from start meets.
    const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
    std::vector<int64_t> positions;
    for (int64_t at = bound(start); at < bound(stop); at += step) positions.push_back(at);
    Slice slice;
    slice.shape = input.shape;
    slice.shape[axis] = static_cast<int64_t>(positions.size());
    slice.place = [&](const Dims& at) {
      Dims to = at;
      to[axis] = positions[static_cast<size_t>(at[axis])];
      return to;
    };
    const Plain src = draw.array(slice.shape);
    const Tensor x = lay_out(input, draw.layout());
    const Tensor s = lay_out(src, draw.layout());
    ASSERT_EQ(Plain(x.slice(axis, start, stop, step)).shape, slice.shape) << "problem " << i;
    const Plain result = expected(input, src, slice);
    ASSERT_EQ(Plain(slice_scatter(x, s, axis, start, stop, step)), result) << "problem " << i;
    ASSERT_EQ(Plain(slice_scatter_(x, s, axis, start, stop, step)), result) << "problem " << i;
  }
}

TEST(Slices, results_keep_the_order_of_dimensions) {
  const Tensor x = lay_out(Draw(17).array({3, 4}), Layout::column_major);
  const Tensor src = Tensor::zeros({3}, DType::int64);
  EXPECT_EQ(diagonal_scatter(x, src).strides(), (Dims{1, 3}));
  EXPECT_EQ(select_scatter(x, src, 1, 0).strides(), (Dims{1, 3}));
  EXPECT_EQ(scatter(x, 0, Tensor::zeros({1, 1}, DType::int64), 1).strides(), (Dims{4, 1}));
  const Tensor overlapping = Tensor::zeros({3}, DType::int64).broadcast_to({3, 3});
  EXPECT_EQ(diagonal_scatter(overlapping, src).strides(), (Dims{3, 1}));
}

TEST(Slices, fill_diagonal_wraps_tall_matrices) {
  Draw draw(18);
  for (int i = 0; i < 200; ++i) {
    const Plain input = draw.array(draw.shape(2, 0, 13));
    const int64_t rows = input.shape[0], columns = input.shape[1];
    const bool wrap = draw.coin();
    Plain out = input;
    for_each(input.shape, [&](const Dims& at) {
      // The diagonal, and under wrap every columns + 1st element in row-major order.
      const bool chosen =
          wrap && rows > columns ? (at[0] * columns + at[1]) % (columns + 1) == 0 : at[0] == at[1];
      if (chosen) out[at] = 7;
    });
    const Tensor x = lay_out(input, draw.layout());
    ASSERT_EQ(Plain(fill_diagonal(x, 7, wrap)), out) << to_string(input.shape);
    ASSERT_EQ(Plain(fill_diagonal_(x, Tensor::scalar(7, DType::int64), wrap)), out);
  }
}

TEST(Slices, fill_diagonal_of_cubes) {
  const Tensor cube = Tensor::zeros({3, 3, 3}, DType::int64);
  fill_diagonal_(cube, 1);
  for_each(cube.shape(),
           [&](const Dims& at) { EXPECT_EQ(Plain(cube)[at], at[0] == at[1] && at[1] == at[2]); });
  EXPECT_THROW(fill_diagonal(Tensor::zeros({3, 3, 2}, DType::int64), 1), Error);
  EXPECT_THROW(fill_diagonal(Tensor::zeros({3}, DType::int64), 1), Error);
}

TEST(Slices, the_shape_of_the_slice_is_told) {
  const Tensor x = Tensor::zeros({3, 4}, DType::float32);
  try {
    diagonal_scatter(x, Tensor::zeros({2}, DType::float32), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "diagonal_scatter: src has shape [2], but the diagonal of input [3, 4] with offset "
        "1 has shape [3]");
  }
}

}  // namespace
}  // namespace sow::testing

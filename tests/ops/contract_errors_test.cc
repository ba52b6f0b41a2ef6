// SPDX-License-Identifier: Apache-2.0
// Section 10 of the contract: every documented error with its kind and its whole message, and a
// destination that is the same afterwards, byte for byte.
#include <cmath>
#include <functional>

#include "ops/expect.h"
#include "sow/cuda.h"

namespace sow::test {
namespace {

struct ErrorCase {
  ErrorKind kind;
  const char* message;
  std::function<void(const Tensor& x)> call;
};

// Each case gets a destination of its own, [[1 2 3] [4 5 6]] as float32.
void expect_errors(const std::vector<ErrorCase>& cases) {
  for (const ErrorCase& c : cases) {
    const Tensor x = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
    expect_error_untouched(c.kind, c.message, x, [&] { c.call(x); });
  }
}

Tensor keys(const Dims& shape) { return Tensor::zeros(shape, DType::int64); }
Tensor floats(const Dims& shape) { return Tensor::ones(shape, DType::float32); }
Tensor mask(const Dims& shape) { return Tensor::ones(shape, DType::bool_); }

TEST(Errors, AlongAnAxis) {
  expect_errors({
      {ErrorKind::argument, "scatter_: axis 2 is out of range for 2 dimensions (valid: -2 to 1)",
       [](const Tensor& x) {
         scatter_(x, 2, keys({1, 1}), 1);
       }},
      {ErrorKind::shape,
       "scatter_: index [3] has rank 1, but input [2, 3] has rank 2; they must have the same rank",
       [](const Tensor& x) { scatter_(x, 0, keys({3}), 1); }},
      {ErrorKind::shape,
       "scatter_: index [1, 4] is larger than input [2, 3] in dimension 1; off dim 0 it may be no "
       "larger",
       [](const Tensor& x) {
         scatter_(x, 0, keys({1, 4}), 1);
       }},
      {ErrorKind::shape,
       "scatter_add_: index [2, 3] is larger than src [2, 2] in dimension 1; it may be no larger",
       [](const Tensor& x) {
         scatter_add_(x, 0, keys({2, 3}), floats({2, 2}));
       }},
      {ErrorKind::shape,
       "scatter_add_: src [6] has rank 1, but index [2, 3] has rank 2; they must have the same "
       "rank",
       [](const Tensor& x) {
         scatter_add_(x, 0, keys({2, 3}), floats({6}));
       }},
      {ErrorKind::shape,
       "put_along_axis_: indices [3, 1] do not expand to arr [2, 3]: in dimension 0, off axis 1, "
       "they "
       "must have extent 1 or arr's 2 (arr itself is never expanded)",
       [](const Tensor& x) {
         put_along_axis_(x, keys({3, 1}), 1, 1);
       }},
      {ErrorKind::shape,
       "put_along_axis_: values [4] do not broadcast to the indices' shape [2, 3]",
       [](const Tensor& x) {
         put_along_axis_(x, keys({1, 3}), floats({4}), 1);
       }},
      {ErrorKind::argument,
       "reduce: unknown reduction \"sub\"; the names are assign, add = sum, mul = multiply = prod, "
       "amax = max, amin = min, mean, bitwise_and, bitwise_or, bitwise_xor",
       [](const Tensor& x) {
         put_along_axis_(x, keys({1, 3}), 1, 1, "sub");
       }},
  });
}

TEST(Errors, Types) {
  expect_errors({
      {ErrorKind::type, "scatter_: the index is float32; an index must be of an integer type",
       [](const Tensor& x) {
         scatter_(x, 0, floats({1, 1}), 1);
       }},
      {ErrorKind::type, "index_add_: the index is complex64; an index must be of an integer type",
       [](const Tensor& x) { index_add_(x, 0, Tensor::zeros({2}, DType::complex64), x); }},
      {ErrorKind::type,
       "scatter_add_: input is float32 but src is float64; they must have the same type",
       [](const Tensor& x) {
         scatter_add_(x, 0, keys({1, 1}), Tensor::ones({1, 1}, DType::float64));
       }},
      {ErrorKind::type, "masked_fill_: mask is int64; a mask must be bool",
       [](const Tensor& x) { masked_fill_(x, keys({3}), 1); }},
      {ErrorKind::type, "scatter_reduce: amax needs an order, and complex64 has none",
       [](const Tensor&) {
         const Tensor c = Tensor::zeros({2}, DType::complex64);
         scatter_reduce(c, 0, keys({2}), c, "amax");
       }},
      {ErrorKind::type, "index_reduce: bool has no mean",
       [](const Tensor&) { index_reduce(mask({2}), 0, keys({2}), mask({2}), "mean"); }},
      {ErrorKind::type, "tensor_scatter_nd_sub: x is bool; bool has no subtraction",
       [](const Tensor&) {
         tensor_scatter_nd_sub(mask({2}), keys({2, 1}), mask({2}));
       }},
  });
}

template <class F>
void expect_unfit(DType dtype, const Scalar& value, const std::string& message, F&& op) {
  const Tensor x = Tensor::ones({3}, dtype);
  expect_error_untouched(ErrorKind::type, message, x, [&] { op(x, value); });
}

TEST(Errors, ScalarsThatDoNotFit) {
  const auto fill = [](const Tensor& x, const Scalar& value) {
    index_fill_(x, 0, keys({1}), value);
  };
  expect_unfit(DType::uint8, -1,
               "index_fill_: the scalar -1 does not fit uint8: it is out of range", fill);
  expect_unfit(DType::int8, 128,
               "index_fill_: the scalar 128 does not fit int8: it is out of range", fill);
  expect_unfit(DType::int32, 0.5,
               "index_fill_: the scalar 0.5 does not fit int32: an integer type takes no fraction, "
               "infinity or NaN",
               fill);
  expect_unfit(DType::int64, NAN,
               "index_fill_: the scalar nan does not fit int64: an integer type takes no fraction, "
               "infinity or NaN",
               fill);
  expect_unfit(DType::float16, 65520,
               "index_fill_: the scalar 65520 does not fit float16: it would become infinite",
               fill);
  expect_unfit(DType::float32, 1e39,
               "index_fill_: the scalar 1e+39 does not fit float32: it would become infinite",
               fill);
  expect_unfit(
      DType::float32, std::complex<double>(1, 2),
      "index_fill_: the scalar 1+2j does not fit float32: a complex number has no place in "
      "a real type",
      fill);
  expect_unfit(DType::bool_, 2,
               "index_fill_: the scalar 2 does not fit bool: bool takes true, false, 0 and 1",
               fill);
}

TEST(Errors, ScalarsThatFit) {
  const auto filled = [](DType dtype, const Scalar& value) {
    return index_fill(Tensor::zeros({1}, dtype), 0, keys({1}), value);
  };
  EXPECT_EQ(filled(DType::uint8, 255.0).item<uint8_t>(), 255);
  EXPECT_EQ(filled(DType::float32, 0.1).item<float>(), 0.1f);
  EXPECT_EQ(filled(DType::float32, INFINITY).item<float>(), INFINITY);
  EXPECT_TRUE(std::isnan(filled(DType::float64, NAN).item<double>()));
  EXPECT_EQ(static_cast<float>(filled(DType::float16, 65519.99).item<float16>()), 65504.0f);
  EXPECT_EQ(filled(DType::complex64, 2).item<std::complex<float>>(), std::complex<float>(2, 0));
  EXPECT_EQ(filled(DType::bool_, 1).item<bool>(), true);
  EXPECT_EQ(filled(DType::int64, INT64_MIN).item<int64_t>(), INT64_MIN);
}

TEST(Errors, WholeSlices) {
  expect_errors({
      {ErrorKind::shape, "index_fill_: index has shape [1, 2]; it must have one dimension",
       [](const Tensor& x) {
         index_fill_(x, 0, keys({1, 2}), 1);
       }},
      {ErrorKind::shape,
       "index_add_: source has shape [2, 2], but x [2, 3] with 2 indices on axis 0 takes a source "
       "of "
       "shape [2, 3]",
       [](const Tensor& x) {
         index_add_(x, 0, keys({2}), floats({2, 2}));
       }},
      {ErrorKind::shape,
       "index_fill_: value has shape [3]; it must be a scalar, or a tensor of shape [] or [1]",
       [](const Tensor& x) { index_fill_(x, 0, keys({1}), floats({3})); }},
      {ErrorKind::index,
       "index_select: index 3 at position [1] is out of range for axis 1 of size 3 (valid: -3 to "
       "2)",
       [](const Tensor& x) {
         index_select(x, 1, Tensor::of<int64_t>({0, 3}));
       }},
  });
}

TEST(Errors, Coordinates) {
  expect_errors({
      {ErrorKind::argument, "index_put_: there are no indices; it needs at least one",
       [](const Tensor& x) { index_put_(x, {}, 1); }},
      {ErrorKind::shape,
       "index_put_: indices[1] [3] does not broadcast with the indices before it [2]",
       [](const Tensor& x) {
         index_put_(x, {keys({2}), keys({3})}, 1);
       }},
      {ErrorKind::shape,
       "index_put_: a mask of shape [3] stands for axes 0 to 0 of x, which have shape [2]; they "
       "must "
       "be equal",
       [](const Tensor& x) { index_put_(x, {mask({3})}, 1); }},
      {ErrorKind::argument,
       "index_put_: the indices have different bounds policies; they must agree",
       [](const Tensor& x) {
         index_put_(x, {Index(keys({1}), Bounds::drop), keys({1})}, 1);
       }},
      {ErrorKind::shape,
       "index_put_: value [2] does not broadcast to shape [1, 3] (the indices' shape, then the "
       "axes of "
       "x that none addresses)",
       [](const Tensor& x) { index_put_(x, {keys({1})}, floats({2})); }},
      {ErrorKind::shape,
       "gather_nd: indices are 0-d; they need a last dimension that holds the coordinates",
       [](const Tensor& x) { gather_nd(x, keys({})); }},
      {ErrorKind::shape,
       "gather_nd: indices [1, 3] hold 3 coordinates each, but x [2, 3] has only 2 dimensions",
       [](const Tensor& x) {
         gather_nd(x, keys({1, 3}));
       }},
      {ErrorKind::index,
       "gather_nd: index 5 at position [0, 1] is out of range for axis 1 of size 3 (valid: -3 to "
       "2)",
       [](const Tensor& x) {
         gather_nd(x, Tensor::of<int64_t>({1, 5}, {1, 2}));
       }},
  });
}

TEST(Errors, RegularPlaces) {
  expect_errors({
      {ErrorKind::shape, "diagonal_scatter_: input [3] has 1 dimension; it needs at least 2",
       [](const Tensor& x) { diagonal_scatter_(x.select(0, 0), floats({1})); }},
      {ErrorKind::argument,
       "diagonal_scatter_: axis1 1 and axis2 -1 are the same axis; they must differ",
       [](const Tensor& x) { diagonal_scatter_(x, floats({2}), 0, 1, -1); }},
      {ErrorKind::shape,
       "diagonal_scatter_: src has shape [1], but the diagonal of input [2, 3] with offset 9 has "
       "shape "
       "[0]",
       [](const Tensor& x) { diagonal_scatter_(x, floats({1}), 9); }},
      {ErrorKind::index,
       "select_scatter_: index 3 is out of range for axis 1 of size 3 (valid: -3 to 2)",
       [](const Tensor& x) { select_scatter_(x, floats({2}), 1, 3); }},
      {ErrorKind::shape,
       "select_scatter_: src has shape [3], but position 0 on axis 1 of input [2, 3] has shape [2]",
       [](const Tensor& x) { select_scatter_(x, floats({3}), 1, 0); }},
      {ErrorKind::shape,
       "slice_scatter_: src has shape [2, 3], but the slice 1:end:1 on axis 1 of input [2, 3] has "
       "shape "
       "[2, 2]",
       [](const Tensor& x) {
         slice_scatter_(x, floats({2, 3}), 1, 1);
       }},
      {ErrorKind::argument, "slice_scatter_: step is 0; it must be positive",
       [](const Tensor& x) { slice_scatter_(x, x, 1, 0, 3, 0); }},
      {ErrorKind::shape, "fill_diagonal_: x [3] has 1 dimension; it needs at least 2",
       [](const Tensor& x) { fill_diagonal_(x.select(0, 0), 1); }},
      {ErrorKind::shape,
       "fill_diagonal_: x [2, 3, 2] has more than 2 dimensions, whose extents must all be equal",
       [](const Tensor&) {
         fill_diagonal_(floats({2, 3, 2}), 1);
       }},
      {ErrorKind::shape, "reshape: x [2, 3] has 6 elements, which do not fill shape [4, ?]",
       [](const Tensor& x) {
         x.reshape({4, -1});
       }},
      {ErrorKind::shape, "broadcast_to: x [2, 3] does not broadcast to shape [2, 2]",
       [](const Tensor& x) {
         x.broadcast_to({2, 2});
       }},
      {ErrorKind::index, "select: index 2 is out of range for axis 0 of size 2 (valid: -2 to 1)",
       [](const Tensor& x) { x.select(0, 2); }},
  });
}

// Whatever is missing here (backend, driver, device), the error is the line that cuda::status()
// has.
TEST(Errors, DevicesThatAreNotThere) {
  const int missing = 63;
  const std::string why =
      cuda::available() ? "there is no cuda:63; " + std::to_string(cuda::device_count()) + " found"
                        : cuda::status();
  expect_error(ErrorKind::device, "device: " + why, [&] {
    Tensor::zeros({2}, DType::float32, Device{DeviceType::cuda, missing});
  });
}

TEST(Errors, DestinationsThatMustNotBeWritten) {
  expect_errors({
      {ErrorKind::overlap,
       "scatter_: the destination of shape [2, 3] and strides [0, 1] overlaps itself; write into a "
       "copy",
       [](const Tensor& x) {
         scatter_(x.select(0, 0).broadcast_to({2, 3}), 0, keys({1, 1}), 1);
       }},
      {ErrorKind::argument, "tensor: this Tensor is undefined (default-constructed)",
       [](const Tensor& x) { scatter_(x, 0, Tensor(), 1); }},
  });
}

}  // namespace
}  // namespace sow::test

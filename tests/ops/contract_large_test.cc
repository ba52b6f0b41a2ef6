// More than 2^31 elements, with one-byte types and sources and indices of stride 0.
#include "ops/expect.h"

namespace sow::test {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 3;

Tensor everywhere(const Scalar& value, DType dtype, const Dims& shape) {
  return Tensor::scalar(value, dtype).broadcast_to(shape);
}

TEST(Large, PlacesBeyond31BitsAreReached) {
  const Tensor x = Tensor::zeros({kFar}, DType::uint8);
  const Tensor index = Tensor::of<int64_t>({kFar - 1, -2, 5, kFar - 1});
  scatter_add_(x, 0, index, Tensor::of<uint8_t>({1, 2, 3, 4}));
  expect_tensor<uint8_t>(x.slice(0, kFar - 4, kFar), {4}, {0, 0, 2, 5});
  expect_tensor<uint8_t>(gather(x, 0, index), {4}, {5, 2, 3, 5});
  slice_scatter_(x, Tensor::of<uint8_t>({7, 8}), 0, kFar - 4, kFar, 2);
  expect_tensor<uint8_t>(x.slice(0, kFar - 4, kFar), {4}, {7, 0, 8, 5});
  expect_error(ErrorKind::index,
               "scatter_: index 2147483651 at position [0] is out of range for axis 0 of size "
               "2147483651 (valid: -2147483651 to 2147483650)",
               [&] { scatter_(x, 0, Tensor::of<int64_t>({kFar}), 1); });
  // A mask as large as that: every other byte of it, and only its ends are true.
  const Tensor mask = everywhere(false, DType::bool_, {kFar - 2});
  masked_fill_(x.slice(0, 1, kFar - 1), mask, 9);
  expect_tensor<uint8_t>(x.slice(0, kFar - 4, kFar), {4}, {7, 0, 8, 5});
  expect_tensor<int64_t>(nonzero(x), {4, 1}, {5, kFar - 4, kFar - 2, kFar - 1});
}

TEST(Large, MoreUpdatesThan31BitsAreSummed) {
  const Tensor x = Tensor::zeros({2}, DType::int64);
  const Tensor index = everywhere(1, DType::int32, {kFar});
  scatter_add_(x, 0, index, everywhere(3, DType::int64, {kFar}));
  expect_tensor<int64_t>(x, {2}, {0, 3 * kFar});
  // A mean of bytes: the sum needs more than 32 bits.
  const Tensor bytes = Tensor::zeros({2}, DType::uint8);
  scatter_reduce_(bytes, 0, index, everywhere(200, DType::uint8, {kFar}), "mean", false);
  expect_tensor<uint8_t>(bytes, {2}, {0, 200});
}

}  // namespace
}  // namespace sow::test

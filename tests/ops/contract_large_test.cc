// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements, with one-byte types and sources and indices of stride 0.
#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "memory_peak.h"
#include "ops/expect.h"

namespace sow::test {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 3;

// Whoever asks for few problems runs under a sanitizer or an emulator, where 2^31 of anything takes
// minutes.
bool quick_run() {
  const char* problems = std::getenv("SOW_TEST_PROBLEMS");
  return problems != nullptr && std::strtoull(problems, nullptr, 10) < 5000;
}

Tensor everywhere(const Scalar& value, DType dtype, const Dims& shape) {
  return Tensor::scalar(value, dtype).broadcast_to(shape);
}

// Zeros that take memory only where somebody writes.
Tensor sparse_zeros(int64_t bytes, DType dtype) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  Tensor::Foreign foreign;
  foreign.data = memory;
  foreign.dtype = dtype;
  foreign.shape = {bytes};
  foreign.deleter = [memory, bytes] { munmap(memory, bytes); };
  return Tensor::wrap(std::move(foreign));
}

TEST(Large, PlacesBeyond31BitsAreReached) {
  const Tensor x = sparse_zeros(kFar, DType::uint8);
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
}

TEST(Large, MasksBeyond31BitsAreRead) {
  if (quick_run()) GTEST_SKIP() << "a quick run";
  const Tensor mask = sparse_zeros(kFar, DType::bool_);
  const std::vector<int64_t> places = {5, kFar - 4, kFar - 1};
  scatter_(mask, 0, Tensor::of(places, {3}), true);
  expect_tensor<int64_t>(nonzero(mask), {3, 1}, places);
  const Tensor x = everywhere(7, DType::int16, {kFar});
  expect_tensor<int16_t>(masked_select(x, mask), {3}, {7, 7, 7});
}

TEST(Large, MoreUpdatesThan31BitsAreSummed) {
  if (quick_run()) GTEST_SKIP() << "a quick run";
  constexpr int64_t kHalf = kFar / 2 + 1;  // two rows, so that two threads have something to do
  const Tensor x = Tensor::zeros({2, 2}, DType::int64);
  const Tensor index = everywhere(1, DType::int32, {2, kHalf});
  scatter_add_(x, 1, index, everywhere(3, DType::int64, {2, kHalf}));
  expect_tensor<int64_t>(x, {2, 2}, {0, 3 * kHalf, 0, 3 * kHalf});
}

// Sums of floats take scratch for the places, not for the updates: at 2^31 of them as below.
TEST(Large, FloatsBeyond31BitsAreSummedInLittleMemory) {
  if (quick_run()) GTEST_SKIP() << "a quick run";
  // 2^31 + 4096 terms: the same 4096, of which some cancel, again and again.
  constexpr int64_t kTerms = 4096, kTimes = (int64_t{1} << 31) / kTerms + 1;
  const Tensor row = Tensor::empty({kTerms}, DType::float32);
  double sum = 0;  // exact: every term is a small multiple of 2^-3
  for (int64_t i = 0; i < kTerms; ++i) {
    row.data<float>()[i] = static_cast<float>((i * 37 % 101 - 49) * 0.125);
    sum += row.data<float>()[i];
  }
  const Tensor terms = row.broadcast_to({kTimes, kTerms});
  const int before = get_num_threads();
  set_num_threads(2);
  Tensor total;
  EXPECT_LE(detail::peak_of([&] { total = sow::sum(terms, {0, 1}); }), 1 << 20);
  EXPECT_EQ(total.item<float>(), static_cast<float>(sum * kTimes));
  // Into three places, one of them untouched, by one thread that has two shares.
  set_num_threads(1);
  constexpr int64_t kHalf = kTimes * kTerms / 2;
  const Tensor x = Tensor::of<float>({1, 2, 3});
  const Tensor index = Tensor::of<int64_t>({2, 0}).reshape({2, 1}).broadcast_to({2, kHalf});
  const Tensor src = everywhere(0.5, DType::float32, {2, kHalf});
  EXPECT_LE(detail::peak_of([&] { index_put_(x, {Index(index)}, src, true); }), 1 << 20);
  const float half = static_cast<float>(0.5 * kHalf);
  expect_tensor<float>(x, {3}, {1 + half, 2, 3 + half});
  set_num_threads(before);
}

}  // namespace
}  // namespace sow::test

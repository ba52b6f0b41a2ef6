// SPDX-License-Identifier: Apache-2.0
// Errors that depend on data: the message is the CPU's, nothing is written, later calls run.
#include <cstring>

#include "cuda/device_problem.h"
#include "sow/ops.h"

namespace sow::test {
namespace {

std::string cpu_message(const detail::Transfer& transfer) {
  try {
    check_indices(transfer);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string gpu_message() {
  try {
    cuda::check();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Puts a key out of range somewhere; false if the Transfer has no key to spoil.
bool spoil(Problem& problem, Draw& draw) {
  auto& t = problem.transfer;
  std::vector<detail::IndexOperand*> operands;
  for (auto& index : t.dst_index) operands.push_back(&index);
  for (auto& index : t.src_index) operands.push_back(&index);
  if (operands.empty()) return false;
  const auto& index =
      *operands[static_cast<size_t>(draw.between(0, static_cast<int64_t>(operands.size()) - 1))];
  int64_t offset = 0;
  for (int d = 0; d < index.own_shape.rank(); ++d) {
    if (index.own_shape[d] == 0) return false;
    offset += draw.between(0, index.own_shape[d] - 1) * index.own_strides[d];
  }
  const int64_t key = draw.pick<int64_t>({index.extent, -index.extent - 1, index.extent + 1000});
  const int32_t narrow = static_cast<int32_t>(key);
  char* data = const_cast<char*>(index.data);
  if (index.dtype == DType::int32)
    std::memcpy(data + 4 * offset, &narrow, 4);
  else
    std::memcpy(data + 8 * offset, &key, 8);
  return true;
}

TEST_F(Cuda, ABadIndexGivesTheCpusMessageAndWritesNothing) {
  int spoiled = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Draw draw(seed);
    Problem problem = draw_problem(draw);
    problem.transfer.bounds = Bounds::error;
    problem.transfer.order = nullptr;  // held keys are checked when they are held
    for (int i = static_cast<int>(draw.between(1, 3)); i > 0; --i) spoil(problem, draw);
    const std::string expected = cpu_message(problem.transfer);
    if (expected.empty()) continue;
    ++spoiled;
    const Buffer before = problem.destination;
    DeviceProblem on_device(problem, draw);
    execute(on_device.transfer(), kGpu);
    EXPECT_EQ(gpu_message(), expected) << describe(problem);
    EXPECT_EQ(gpu_message(), "");
    const bool gathers =
        problem.transfer.dst_index.empty() && problem.transfer.reduce == Reduce::assign;
    if (!gathers) {
      EXPECT_EQ(on_device.destination(), before) << describe(problem);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(spoiled, 500);
}

TEST_F(Cuda, TheFirstFailingCallIsKeptAndLaterCallsRun) {
  const Tensor x = Tensor::zeros({4}, DType::float32, kGpu);
  const Tensor source = Tensor::ones({2}, DType::float32, kGpu);
  const Tensor good = Tensor::of<int64_t>({0, 3}).to(kGpu);
  const Tensor bad = Tensor::of<int64_t>({1, 9}).to(kGpu);
  const Tensor worse = Tensor::of<int64_t>({-7, 1}).to(kGpu);
  x.scatter_add_(0, good, source);
  x.scatter_add_(0, bad, source);
  x.scatter_add_(0, good, source);
  x.scatter_(0, worse, source);
  EXPECT_EQ(gpu_message(),
            "scatter_add_: index 9 at position [1] is out of range for axis 0 of size 4 (valid: -4 "
            "to 3)");
  x.scatter_add_(0, good, source);
  EXPECT_EQ(gpu_message(), "");
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{3, 0, 0, 3}));
}

TEST_F(Cuda, AGatherHasZerosWhereItsIndexIsBad) {
  const Tensor x = Tensor::of<float>({1, 2, 3}).to(kGpu);
  const Tensor out = x.index_select(0, Tensor::of<int64_t>({2, 5, 0}).to(kGpu));
  EXPECT_EQ(gpu_message(),
            "index_select: index 5 at position [1] is out of range for axis 0 of size 3 (valid: -3 "
            "to 2)");
  EXPECT_EQ(out.to_vector<float>(), (std::vector<float>{3, 0, 1}));
}

TEST_F(Cuda, OutOfPlaceResultsEqualTheirInput) {
  const Tensor x = Tensor::of<float>({1, 2, 3}).to(kGpu);
  const Tensor index = Tensor::of<int64_t>({0, 3}).to(kGpu);
  const Tensor out = x.scatter_add(0, index, Tensor::ones({2}, DType::float32, kGpu));
  EXPECT_NE(gpu_message(), "");
  EXPECT_EQ(out.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  const Tensor mask = Tensor::of<bool>({true, false, true}).to(kGpu);
  const Tensor masked = x.masked_scatter(mask, Tensor::of<float>({7}).to(kGpu));
  EXPECT_EQ(gpu_message(), "masked_scatter: mask has 2 true values but value has only 1 elements");
  EXPECT_EQ(masked.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(Cuda, DebugChecksRaiseAtOnce) {
  const Tensor x = Tensor::zeros({4}, DType::float32, kGpu);
  const Tensor bad = Tensor::of<int64_t>({9}).to(kGpu);
  cuda::set_debug_checks(true);
  EXPECT_THROW(x.scatter_add_(0, bad, Tensor::ones({1}, DType::float32, kGpu)), Error);
  cuda::set_debug_checks(false);
  EXPECT_EQ(gpu_message(), "");
}

TEST(CudaBackend, SaysInOneLineWhatThereIs) {
  const std::string status = cuda::status();
  EXPECT_FALSE(status.empty());
  EXPECT_EQ(status.find('\n'), std::string::npos);
  if (cuda::available()) return;
  try {
    Tensor::zeros({2}, DType::float32, kGpu);
    FAIL() << "a tensor on a device that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
  }
}

}  // namespace
}  // namespace sow::test

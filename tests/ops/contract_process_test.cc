// SPDX-License-Identifier: Apache-2.0
// What surrounds a call must not show: floating-point modes, threads, forks, whose memory it is.
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <cmath>
#include <thread>

#include "core/memory/memory.h"
#include "core/memory/system_memory.h"
#include "ops/expect.h"
#include "test_threads.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sow::test {
namespace {

// Results that change if a subnormal is flushed or anything is rounded another way.
std::vector<Tensor> delicate_results() {
  constexpr int64_t kCount = 3000;
  std::vector<float> subnormals(kCount), near_ones(kCount);
  std::vector<double> tiny(kCount, 5e-324);
  std::vector<int64_t> keys(kCount);
  for (int64_t i = 0; i < kCount;
       ++i) {  // from bits: arithmetic out here follows the caller's mode
    const uint32_t subnormal = static_cast<uint32_t>(i + 1);
    const uint32_t near_one = 0x3f800000u + static_cast<uint32_t>(i) * 7;
    std::memcpy(&subnormals[i], &subnormal, 4);
    std::memcpy(&near_ones[i], &near_one, 4);
    keys[i] = i % 7;
  }
  const Tensor index = Tensor::of(keys, {kCount});
  const Tensor x = Tensor::ones({7}, DType::float32), zero = Tensor::zeros({7}, DType::float32);
  const Tensor a = Tensor::of(subnormals, {kCount}), b = Tensor::of(near_ones, {kCount});
  return {
      scatter_add(zero, 0, index, a),
      scatter_add(x, 0, index, b),
      scatter_reduce(zero, 0, index, a, "mean"),
      scatter_reduce(x, 0, index, b, "mean"),
      scatter_reduce(x, 0, index, b, "mul"),
      scatter_reduce(zero, 0, index, a, "amax"),
      scatter_reduce(zero, 0, index, a, "amin", false),
      scatter_add(Tensor::zeros({7}, DType::float64), 0, index, Tensor::of(tiny, {kCount})),
      index_fill(x, 0, Tensor::of<int64_t>({0, 3}), 0.1),
      Tensor::full({2}, 1.0 / 3, DType::float16),
      Tensor::full({2}, 16777217, DType::float32),
      nonzero(a),
  };
}

void expect_delicate(const std::vector<Tensor>& expected) {
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    const std::vector<Tensor> results = delicate_results();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bytes_of(results[i]) == bytes_of(expected[i])) << "result " << i;
    }
  }
}

TEST(FloatState, RoundingModesOfTheCallerChangeNothing) {
  const std::vector<Tensor> expected = delicate_results();
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    expect_delicate(expected);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, mode);
  }
}

#if defined(__x86_64__)
TEST(FloatState, FlushingOfTheCallerChangesNothing) {
  const std::vector<Tensor> expected = delicate_results();
  const unsigned before = _mm_getcsr();
  for (const unsigned bits : {0x8000u, 0x0040u, 0x8040u, 0xe040u}) {
    _mm_setcsr(before | bits);
    expect_delicate(expected);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & 0xffc0u, (before | bits) & 0xffc0u);
  }
}
#endif

TEST(Fork, AChildGoesOnAlone) {
  const ThreadCount count(3);
  const std::vector<Tensor> expected = delicate_results();  // the parent has used its threads
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(120);  // a hang ends as a failure
    bool same = true;
    const std::vector<Tensor> results = delicate_results();
    for (size_t i = 0; i < expected.size(); ++i) {
      same = same && bytes_of(results[i]) == bytes_of(expected[i]);
    }
    _exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_delicate(expected);  // and the parent still has them
}

TEST(Threads, ManyCallersAtOnce) {
  const ThreadCount count(2);
  const std::vector<Tensor> expected = delicate_results();
  std::vector<std::vector<Tensor>> results(5);
  run_in_threads(5, [&](int t) { results[static_cast<size_t>(t)] = delicate_results(); });
  for (const auto& mine : results) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bytes_of(mine[i]) == bytes_of(expected[i])) << "result " << i;
    }
  }
}

TEST(Memory, ALoopOutOfPlaceReusesItsMemory) {
  const Tensor index = Tensor::of<int64_t>({3, 5}, {1, 2});
  Tensor x = Tensor::zeros({1000, 500}, DType::float32);
  for (int i = 0; i < 3; ++i) x = scatter(x, 0, index, i);  // the pool fills
  const auto before = detail::memory_stats();
  for (int i = 0; i < 20; ++i) x = scatter(x, 0, index, i);
  const auto after = detail::memory_stats();
  EXPECT_GE(after.allocations, before.allocations + 20);
  // AddressSanitizer finds more without a pool.
  if (!detail::kMemoryIsPooled) return;
  EXPECT_EQ(after.system_allocations, before.system_allocations);
}

Tensor foreign(std::vector<float>& memory, std::function<void()> deleter) {
  Tensor::Foreign f;
  f.data = memory.data();
  f.shape = {static_cast<int64_t>(memory.size())};
  f.deleter = std::move(deleter);
  return Tensor::wrap(std::move(f));
}

TEST(Memory, ForeignMemoryIsUsedInPlaceAndGivenBackOnce) {
  std::vector<float> memory = {1, 2, 3};
  int given_back = 0;
  {
    const Tensor x = foreign(memory, [&] { ++given_back; });
    const Tensor view = x.slice(0, 1, 3);
    const Tensor copy = x;
    scatter_(x, 0, Tensor::of<int64_t>({2}), 9);
    expect_tensor<float>(view, {2}, {2, 9});
    EXPECT_EQ(given_back, 0);
  }
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 9}));
}

TEST(Memory, ForeignMemoryIsGivenBackOnWhicheverThread) {
  std::vector<float> memory = {1, 2, 3};
  std::thread::id where;
  int given_back = 0;
  std::thread::id other;
  {
    Tensor x = foreign(memory, [&] {
      where = std::this_thread::get_id();
      ++given_back;
    });
    TestThreads holder;
    holder.start([kept = x.select(0, 1), &x, &other]() mutable {
      other = std::this_thread::get_id();
      x = Tensor();     // the first handle goes here
      kept = Tensor();  // and the view, the last one
    });
    holder.join();
    EXPECT_EQ(given_back, 1);
  }
  EXPECT_EQ(where, other);
  EXPECT_EQ(given_back, 1);
}

TEST(Memory, AFailedWrapGivesBackToo) {
  std::vector<float> memory = {1, 2, 3};
  int given_back = 0;
  Tensor::Foreign f;
  f.data = memory.data();
  f.shape = {-1};
  f.deleter = [&] { ++given_back; };
  EXPECT_THROW(Tensor::wrap(std::move(f)), Error);
  EXPECT_EQ(given_back, 1);
}

TEST(Memory, ASizeBeyond63BitsIsAnError) {
  expect_error(ErrorKind::memory,
               "tensor: shape [4611686018427387904, 4] needs more than 2^63 - 1 bytes", [] {
                 Tensor::empty({int64_t{1} << 62, 4}, DType::float32);
               });
  EXPECT_THROW(Tensor::empty({int64_t{1} << 60}, DType::float32), Error);
}

}  // namespace
}  // namespace sow::test

// SPDX-License-Identifier: Apache-2.0
// A held Index: its keys are copied, checked and ordered once, and then used by anybody.
#include "ops/expect.h"
#include "test_threads.h"

namespace sow::test {
namespace {

Tensor edges() { return Tensor::of<int64_t>({2, 0, 2, -1, 0, 2}); }
Tensor messages() { return Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {6, 2}); }

TEST(HeldIndex, GivesTheBitsOfAPlainOne) {
  const Index held = Index::hold(edges(), 4);
  EXPECT_TRUE(held.held());
  EXPECT_EQ(held.size(), 4);
  const Tensor x = Tensor::ones({4, 2}, DType::float32);
  for (int i = 0; i < 3; ++i) {
    for (const char* reduce : {"add", "mul", "amax", "amin", "mean"}) {
      for (const bool include_self : {true, false}) {
        expect_same_bytes(index_reduce(x, 0, held, messages(), reduce, include_self),
                          index_reduce(x, 0, edges(), messages(), reduce, include_self));
      }
    }
    expect_same_bytes(index_copy(x, 0, held, messages()), index_copy(x, 0, edges(), messages()));
    expect_same_bytes(index_select(x, 0, held), index_select(x, 0, edges()));
  }
}

TEST(HeldIndex, KnowsNothingOfLaterChanges) {
  const Tensor keys = edges();
  const Index held = Index::hold(keys, 4);
  keys.fill_(100);
  const Tensor x = Tensor::zeros({4, 2}, DType::float32);
  expect_same_bytes(index_add(x, 0, held, messages()), index_add(x, 0, edges(), messages()));
}

TEST(HeldIndex, ChecksItsKeysWhenItIsMade) {
  EXPECT_THROW(Index::hold(edges(), 2), Error);
  EXPECT_NO_THROW(Index::hold(edges(), 2, Bounds::drop));
  EXPECT_THROW(Index::hold(Tensor::zeros({2}, DType::float32), 2), Error);
  EXPECT_NO_THROW(
      Index::hold(Tensor::of<int64_t>({0, 1, 1, 3}), 4, Bounds::error, {.sorted = true}));
  EXPECT_THROW(Index::hold(Tensor::of<int64_t>({0, 2, 1}), 4, Bounds::error, {.sorted = true}),
               Error);
  EXPECT_NO_THROW(Index::hold(Tensor::of<int64_t>({3, 2, 1}), 4, Bounds::error, {.unique = true}));
  EXPECT_THROW(Index::hold(Tensor::of<int64_t>({0, 2, 0}), 4, Bounds::error, {.unique = true}),
               Error);
  // -4 and 0 are one place.
  EXPECT_THROW(Index::hold(Tensor::of<int64_t>({0, -4}), 4, Bounds::error, {.unique = true}),
               Error);
}

TEST(HeldIndex, DropsWhatItWasToldToDrop) {
  const Tensor keys = Tensor::of<int32_t>({0, 7, 1, -9, 1});
  const Index held = Index::hold(keys, 2, Bounds::drop);
  const Tensor source = Tensor::of<float>({1, 10, 2, 20, 3});
  const Tensor x = Tensor::zeros({2}, DType::float32);
  expect_tensor<float>(index_add(x, 0, held, source), {2}, {1, 5});
  expect_tensor<float>(index_copy(x, 0, held, source), {2}, {1, 3});
  expect_tensor<float>(index_reduce(x, 0, held, source, "mean", false), {2}, {1, 2.5});
}

TEST(HeldIndex, ClipsWhatItWasToldToClip) {
  const Index held = Index::hold(Tensor::of<int32_t>({0, 7, 1, -9}), 2, Bounds::clip);
  expect_tensor<float>(
      index_add(Tensor::zeros({2}, DType::float32), 0, held, Tensor::of<float>({1, 10, 2, 20})),
      {2}, {21, 12});
}

TEST(HeldIndex, ServesAnIndexOfAnyShape) {
  const Tensor keys = Tensor::of<int64_t>({0, 1, 1, 1, 0, 0}, {2, 3});
  const Index held = Index::hold(keys, 2);
  const Tensor x = Tensor::zeros({2, 3}, DType::int32);
  const Tensor src = Tensor::of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_same_bytes(scatter_add(x, 0, held, src), scatter_add(x, 0, keys, src));
  expect_same_bytes(scatter(x, 0, held, src), scatter(x, 0, keys, src));
  expect_same_bytes(put_along_axis(x, held, src, 0), put_along_axis(x, keys, src, 0));
}

TEST(HeldIndex, RefusesAnAxisOfAnotherSize) {
  const Index held = Index::hold(edges(), 4);
  const Tensor x = Tensor::zeros({5, 2}, DType::float32);
  expect_error_untouched(ErrorKind::argument,
                         "index_add_: the index is held for an axis of size 4, but axis 0 has size "
                         "5; hold it for that",
                         x, [&] { index_add_(x, 0, held, messages()); });
}

TEST(HeldIndex, OrdersManyKeys) {
  constexpr int64_t kCount = 20000, kPlaces = 300;
  std::vector<int64_t> keys(kCount);
  std::vector<float> values(kCount * 3);
  uint32_t state = 1;
  for (auto& key : keys) key = (state = state * 1664525u + 1013904223u) % kPlaces;
  for (auto& value : values) value = static_cast<float>((state = state * 1664525u + 1) % 1000) / 7;
  for (int64_t i = 0; i < kCount; i += 3) keys[i] = 17;
  const Tensor index = Tensor::of(keys, {kCount}), source = Tensor::of(values, {kCount, 3});
  const Index held = Index::hold(index, kPlaces);
  const Tensor x = Tensor::ones({kPlaces, 3}, DType::float32);
  for (const int threads : {1, 2, 7}) {
    const ThreadCount count(threads);
    for (const char* reduce : {"add", "mul", "amax", "mean"}) {
      expect_same_bytes(index_reduce(x, 0, held, source, reduce),
                        index_reduce(x, 0, index, source, reduce));
    }
    expect_same_bytes(index_copy(x, 0, held, source), index_copy(x, 0, index, source));
  }
}

TEST(HeldIndex, IsSharedByThreads) {
  const Index held = Index::hold(edges(), 4);
  const Tensor x = Tensor::zeros({4, 2}, DType::float32);
  const Tensor expected = index_add(x, 0, edges(), messages());
  std::vector<Tensor> results(6);
  run_in_threads(
      6, [&](int t) { results[static_cast<size_t>(t)] = index_add(x, 0, held, messages()); });
  for (const Tensor& result : results) expect_same_bytes(result, expected);
}

}  // namespace
}  // namespace sow::test

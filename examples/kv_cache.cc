// SPDX-License-Identifier: Apache-2.0
// A KV cache: each sequence of a batch writes its newest key at its own position, in place.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Bounds;
using sow::DType;
using sow::Index;
using sow::Tensor;

int main() {
  constexpr int64_t kBatch = 3, kLength = 4, kWidth = 2;
  const Tensor cache = Tensor::zeros({kBatch, kLength, kWidth}, DType::bfloat16);
  std::cout << "the cache: " << kBatch << " sequences, " << kLength << " positions, keys of "
            << kWidth << "\n"
            << cache << "\n\n";

  // One step of decoding: the sequences are 0, 2 and 3 tokens long.
  const Tensor sequence = Tensor::arange(kBatch);
  const Tensor position = Tensor::of<int64_t>({0, 2, 3});
  std::vector<sow::bfloat16> numbers;
  for (const float v : {1.0f, 1.5f, 2.0f, 2.5f, 3.0f, 3.5f}) numbers.emplace_back(v);
  const Tensor keys = Tensor::of(numbers, {kBatch, kWidth});
  index_put_(cache, {sequence, position}, keys);
  std::cout << "index_put_(cache, {sequence, position}, keys) with positions " << position << "\n"
            << cache << "\n\n";

  // The next step: the last sequence is full. A policy says what becomes of its key.
  const Tensor next = Tensor::of<int64_t>({1, 3, 4});
  std::string complaint;
  try {
    index_put_(cache, {sequence, next}, keys);
  } catch (const sow::Error& error) {
    complaint = error.what();
  }
  std::cout << complaint << "\n\n";
  index_put_(cache, {Index(sequence, Bounds::drop), Index(next, Bounds::drop)}, keys);
  std::cout << "with Bounds::drop\n" << cache << "\n";

  const bool wrote =
      static_cast<float>(cache.select(0, 1).select(0, 3).to_vector<sow::bfloat16>()[0]) == 2;
  return wrote && !complaint.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

// SPDX-License-Identifier: Apache-2.0
// Gathers of single elements and of narrow rows, of lengths that allow several keys at once and of
// others.
#include <random>

#include "cuda/on_device.h"

namespace sow::test {
namespace {

Tensor drawn_keys(const Dims& shape, int64_t extent, uint64_t seed) {
  std::mt19937_64 engine(seed);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<int64_t> keys(static_cast<size_t>(count));
  for (int64_t& key : keys)
    key = static_cast<int64_t>(engine() % static_cast<uint64_t>(2 * extent)) - extent;
  return Tensor::of(keys, shape);
}

Tensor counted(const Dims& shape, DType dtype) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return in_type(reshape(to(Tensor::arange(count), DType::float32), shape), dtype);
}

TEST_F(Cuda, GathersAlongAnAxisGiveTheCpusBytes) {
  uint64_t seed = 0;
  for (const DType dtype : kCaseTypes) {
    for (const int64_t line : {1, 4, 8, 100, 101, 4096}) {
      for (const int64_t lines : {1, 33}) {
        const Tensor x = counted({lines, 37}, dtype);
        const Tensor keys = drawn_keys({lines, line}, 37, ++seed);
        const Tensor index = seed % 2 == 0 ? keys : to(keys, DType::int32);
        const Tensor found = take_along_axis(x.to(kGpu), index.to(kGpu), 1);
        EXPECT_TRUE(same_bits(found.to({}), take_along_axis(x, index, 1)))
            << lines << " lines of " << line << ", " << name_of(dtype);
        const Tensor y = counted({37, line}, dtype);
        EXPECT_TRUE(same_bits(take_along_axis(y.to(kGpu), index.to(kGpu), 0).to({}),
                              take_along_axis(y, index, 0)))
            << lines << " of axis 0 of " << line << ", " << name_of(dtype);
      }
    }
  }
  cuda::check();
}

TEST_F(Cuda, GathersOfNarrowRowsGiveTheCpusBytes) {
  uint64_t seed = 100;
  for (const DType dtype : kCaseTypes) {
    for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
      for (const int64_t count : {1, 5, 1024, 5003}) {
        const Tensor x = counted({211, width}, dtype);
        const Tensor index = drawn_keys({count}, 211, ++seed);
        EXPECT_TRUE(same_bits(index_select(x.to(kGpu), 0, index.to(kGpu)).to({}),
                              index_select(x, 0, index)))
            << count << " rows of " << width << ", " << name_of(dtype);
      }
    }
  }
  cuda::check();
}

// Keys beside the range give zeros under drop, and an error otherwise.
TEST_F(Cuda, GathersByBadKeys) {
  for (const int64_t width : {1, 3}) {
    const Tensor x = counted({9, width}, DType::float32);
    for (const int64_t count : {8, 1024}) {
      const Tensor wide = drawn_keys({count}, 40, static_cast<uint64_t>(count + width));
      const Tensor expected = index_select(x, 0, Index(wide, Bounds::drop));
      const Tensor found = index_select(x.to(kGpu), 0, Index(wide.to(kGpu), Bounds::drop));
      EXPECT_TRUE(same_bits(found.to({}), expected)) << count << " rows of " << width;
      EXPECT_THROW(
          {
            const Tensor out = index_select(x.to(kGpu), 0, wide.to(kGpu));
            cuda::check();
          },
          Error);
    }
  }
}

}  // namespace
}  // namespace sow::test

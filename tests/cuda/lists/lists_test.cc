// SPDX-License-Identifier: Apache-2.0
// Places that list what comes to them: lists that overflow, the order of products, and what a bad
// key leaves.
#include "cuda/on_device.h"
#include "random_values.h"
#include "sow/sow.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

Tensor numbers(const Dims& shape, ValueKind kind, uint64_t seed) {
  Draw draw(seed);
  const Tensor out = Tensor::empty(shape, DType::float32);
  fill_random(draw, DType::float32, kind, out.numel(), out.data());
  return out;
}

// Half of all rows to one place, so that its list overflows and chunks of 256 are cut; wide
// exponents, so that sums are inconclusive.
TEST_F(Cuda, ListsThatOverflow) {
  const int64_t items = 4000, places = 400;
  const Tensor even = keys({items}, places), hot = even.clone();
  hot.slice(0, items / 4, 3 * items / 4).fill_(7);
  for (const auto& [width, index] :
       {std::pair{int64_t{5}, hot}, {64, hot}, {300, hot}, {64, even}, {70, even}}) {
    for (const ValueKind kind : {ValueKind::near_one, ValueKind::wide}) {
      const Tensor source = numbers({items, width}, kind, 2), x = numbers({places, width}, kind, 3);
      for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
        const Tensor a = to(x, dtype), s = to(source, dtype);
        for (const char* reduce : {"sum", "mean", "prod"}) {
          const detail::ForceStrategy forced(reduce[0] == 'p' ? "lists" : "sums");
          for (const bool self : {true, false}) {
            const Tensor expected = a.index_reduce(0, index, s, reduce, self);
            const Tensor found =
                a.to(kGpu).index_reduce(0, index.to(kGpu), s.to(kGpu), reduce, self).to({});
            EXPECT_TRUE(same_bits(found, expected))
                << name_of(dtype) << " " << reduce << self << " rows of " << width;
          }
        }
      }
    }
  }
}

TEST_F(Cuda, ListsAreEmptyAfterABadKey) {
  const int64_t items = 5000, places = 1700;
  const Tensor x = numbers({places, 3}, ValueKind::near_one, 1),
               source = numbers({items, 3}, ValueKind::near_one, 2);
  const Tensor index = keys({items}, places), bad = index.clone();
  bad.slice(0, items / 2, items / 2 + 1).fill_(places);
  const Tensor gpu_source = source.to(kGpu), gpu_index = index.to(kGpu), gpu_bad = bad.to(kGpu);
  for (const char* reduce : {"sum", "prod"}) {
    const detail::ForceStrategy forced(reduce[0] == 'p' ? "lists" : "sums");
    const Tensor expected = x.index_reduce(0, index, source, reduce, true);
    for (int round = 0; round < 3; ++round) {
      const Tensor kept = x.to(kGpu);
      kept.index_reduce_(0, gpu_bad, gpu_source, reduce, true);
      EXPECT_THROW(cuda::check(), Error);
      EXPECT_TRUE(same_bits(kept.to({}), x)) << reduce;
      const Tensor found = x.to(kGpu).index_reduce(0, gpu_index, gpu_source, reduce, true);
      cuda::check();
      EXPECT_TRUE(same_bits(found.to({}), expected)) << reduce;
    }
  }
}

// Keys that differ along every column, in destinations with gaps: what lies in a gap stays,
// whatever it is.
TEST_F(Cuda, ElementsAlongEveryAxis) {
  const Tensor all = numbers({9, 60, 11}, ValueKind::special, 4);
  const Tensor source = numbers({7, 50, 9}, ValueKind::near_one, 5);
  for (const char* strategy : {"sums", "cells", "last_value", "direct", "lists"}) {
    const detail::ForceStrategy forced(strategy);
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor index = keys({7, 50, 9}, all.shape()[axis]);
      for (const char* reduce : {"sum", "mean", "amax", "amin", "prod"}) {
        for (const bool self : {true, false}) {
          const Tensor expected = all.scatter_reduce(axis, index, source, reduce, self);
          const Tensor found =
              all.to(kGpu)
                  .scatter_reduce(axis, index.to(kGpu), source.to(kGpu), reduce, self)
                  .to({});
          EXPECT_TRUE(same_bits(found, expected)) << strategy << " " << reduce << " axis " << axis;
        }
      }
      EXPECT_TRUE(same_bits(all.to(kGpu).scatter(axis, index.to(kGpu), source.to(kGpu)).to({}),
                            all.scatter(axis, index, source)))
          << strategy << " axis " << axis;
    }
  }
}

}  // namespace
}  // namespace sow::test

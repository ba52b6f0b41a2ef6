// SPDX-License-Identifier: Apache-2.0
// Float sums made to hurt: exponents from end to end, cancellation, hot places; always the same
// bits, and those of the exact sum.
#include <cstring>

#include "cuda/on_device.h"
#include "random_values.h"
#include "sow/sow.h"

namespace sow::test {
namespace {

// Sums of 2^26 multiples of 2^-40: what they are exactly is a matter of integers.
TEST_F(Cuda, HundredTimesOneBitPattern) {
  const int64_t updates = int64_t{1} << 26, places = 8;
  std::vector<float> numbers(static_cast<size_t>(updates));
  std::vector<int32_t> where(static_cast<size_t>(updates));
  __int128 exact[places] = {};
  uint64_t state = 1;
  for (int64_t i = 0; i < updates; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const int64_t mantissa = static_cast<int64_t>(state >> 40) - (int64_t{1} << 23);
    const int shift = static_cast<int>(state >> 33 & 31);  // 32 binades
    const auto place = static_cast<size_t>(state >> 29 & 7);
    const __int128 quanta = static_cast<__int128>(mantissa) << shift;
    numbers[static_cast<size_t>(i)] = std::ldexp(static_cast<float>(mantissa), shift - 40);
    where[static_cast<size_t>(i)] = static_cast<int32_t>(place);
    exact[place] += quanta;
  }
  std::vector<float> expected(places);
  for (size_t k = 0; k < places; ++k) {
    // To nearest: a long double holds 64 bits, a sticky last one stands for the rest.
    const bool negative = exact[k] < 0;
    unsigned __int128 rest = static_cast<unsigned __int128>(negative ? -exact[k] : exact[k]);
    int dropped = 0;
    bool sticky = false;
    while (rest >> 60 != 0) {
      sticky = sticky || (rest & 1) != 0;
      rest >>= 1;
      ++dropped;
    }
    const auto bits = static_cast<uint64_t>(rest) << 1 | (sticky ? 1 : 0);
    const long double value = std::ldexp(static_cast<long double>(bits), dropped - 1 - 40);
    expected[k] = static_cast<float>(negative ? -value : value);
  }
  const Tensor source = Tensor::of(numbers, {updates}).to(kGpu),
               index = Tensor::of(where, {updates}).to(kGpu);
  for (int round = 0; round < 100; ++round) {
    const Tensor x = Tensor::zeros({places}, DType::float32, kGpu);
    x.scatter_add_(0, index, source);
    ASSERT_EQ(x.to_vector<float>(), expected) << "round " << round;
  }
}

TEST_F(Cuda, SumsOverHostileDataAreTheCpus) {
  for (const DType dtype :
       {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::complex64}) {
    for (const int64_t places : {1, 8, 1000, 300000}) {
      for (const ValueKind kind :
           {ValueKind::wide, ValueKind::ties, ValueKind::subnormal, ValueKind::mixed}) {
        Draw draw(static_cast<uint64_t>(places) * 31 + static_cast<uint64_t>(kind));
        const int64_t updates = 200000;
        const Tensor source = Tensor::empty({updates}, dtype);
        fill_random(draw, dtype, kind, updates / 2, source.data());
        // The second half takes the first away again, but for its last element.
        const Tensor half = source.slice(0, 0, updates / 2);
        source.slice(0, updates / 2, updates).copy_(neg(half));
        source.slice(0, updates - 1, updates).copy_(half.slice(0, 5, 6));
        const Tensor index = keys({updates / 2}, places);
        const Tensor both = Tensor::empty({updates}, DType::int64);
        both.slice(0, 0, updates / 2).copy_(index);
        both.slice(0, updates / 2, updates).copy_(index);
        const Tensor x = Tensor::empty({places}, dtype);
        fill_random(draw, dtype, kind, places, x.data());
        for (const bool self : {true, false}) {
          const Tensor expected = x.scatter_reduce(0, both, source, "sum", self);
          const Tensor found =
              x.to(kGpu).scatter_reduce(0, both.to(kGpu), source.to(kGpu), "sum", self);
          EXPECT_TRUE(same_bits(found.to({}), expected))
              << name_of(dtype) << ", " << places << " places";
        }
      }
    }
  }
}

TEST_F(Cuda, RowsOverHostileDataAreTheCpus) {
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    Draw draw(5);
    const int64_t rows = 20000, places = 50, width = 33;
    const Tensor source = Tensor::empty({rows, width}, dtype),
                 x = Tensor::empty({places, width}, dtype);
    fill_random(draw, dtype, ValueKind::wide, source.numel(), source.data());
    fill_random(draw, dtype, ValueKind::wide, x.numel(), x.data());
    const Tensor index = keys({rows}, places);
    EXPECT_TRUE(same_bits(x.to(kGpu).index_add(0, index.to(kGpu), source.to(kGpu)).to({}),
                          x.index_add(0, index, source)))
        << name_of(dtype);
  }
}

}  // namespace
}  // namespace sow::test

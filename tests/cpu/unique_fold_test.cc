// SPDX-License-Identifier: Apache-2.0
// Blocks of places that meet few updates, one after the other through one UniqueFold, and the
// quick rounding of single updates to the 16-bit types.
#include "cpu/fold/unique_fold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/exact/exact_checked.h"
#include "cpu/sum/half_rounding.h"

namespace sow::detail {
namespace {

enum class Blocks { of_any_size, of_one_size };

// Whole numbers, whose sums every way of adding gives.
void run_blocks(int64_t places, const std::vector<int64_t>& counts,
                Blocks blocks = Blocks::of_any_size) {
  const FoldKernels& kernels = *fold_kernels(DType::float32, Reduce::add);
  int64_t most = 0;
  for (const int64_t count : counts) most = std::max(most, count);
  const auto make = [&](Carver& carver) {
    return blocks == Blocks::of_one_size
               ? UniqueFold::for_each_of(kernels, places, most, false, carver)
               : UniqueFold(kernels, places, most, carver);
  };
  Carver measure(nullptr);
  make(measure);
  constexpr size_t kBehind = 1 << 20;
  std::vector<char> memory(measure.used() + 64 + kBehind, '\x5a');
  char* const first = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
  Carver carver(first);
  UniqueFold fold = make(carver);
  fold.clear();
  std::mt19937_64 random(11);
  std::vector<float> data(static_cast<size_t>(places)), expected;
  for (const int64_t count : counts) {
    for (float& x : data) x = static_cast<float>(random() % 100);
    expected = data;
    std::vector<uint32_t> cells(static_cast<size_t>(count));
    std::vector<float> values(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i] = static_cast<uint32_t>(random() % static_cast<uint64_t>(places));
      values[i] = static_cast<float>(random() % 100);
      expected[cells[i]] += values[i];
    }
    PlaceRange block{reinterpret_cast<char*>(data.data())};
    block.far = random() % 2 == 0;
    fold.run(block, count, [&](auto&& f) {
      for (int64_t at = 0; at < count; at += kTileItems) {
        f(cells.data() + at, reinterpret_cast<const char*>(values.data() + at),
          static_cast<int>(std::min<int64_t>(kTileItems, count - at)));
      }
    });
    ASSERT_TRUE(data == expected) << count << " of " << places;
    for (const char* at = first + measure.used(); at < memory.data() + memory.size(); ++at)
      ASSERT_EQ(*at, '\x5a') << count << " of " << places << ": wrote past the workspace";
  }
}

TEST(UniqueUpdates, NumbersRunOut) {
  run_blocks(3000, std::vector<int64_t>(300, 1000));
  run_blocks(100, {99, 0, 1, 100, 200, 201, 50});
  run_blocks(50000, {30000, 30000, 30000, 5535, 5536, 65535, 65536, 7});
}

TEST(UniqueUpdates, NarrowAndWideNumbersTakeTurns) {
  run_blocks(400000, {40000, 1000, 70000, 40000, 40000, 1000, 900000, 1000, 800000});
}

// Where some updates are left out.
TEST(UniqueUpdates, HaveRoomForFewer) {
  run_blocks(40000, {5000, 100, 1, 0, 5000}, Blocks::of_one_size);
  run_blocks(400000, {30000, 22000, 3, 29999, 10000}, Blocks::of_one_size);
}

template <class T>
class QuickHalf : public testing::Test {};
using HalfTypes = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(QuickHalf, HalfTypes);

template <class T>
void expect_rounds(double value) {
  T found;
  const T expected = static_cast<T>(value);
  if (round_quickly(value, found)) {
    ASSERT_EQ(found.bits, expected.bits) << value;
  } else {
    ASSERT_GE(expected.bits & 0x7fff, FloatTraits<T>::kInfinity) << value;
  }
}

TYPED_TEST(QuickHalf, RoundsAsTheConversionDoes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = widen(TypeParam::from_bits(static_cast<uint16_t>(bits)));
    const double next = widen(TypeParam::from_bits(static_cast<uint16_t>(bits + 1)));
    const double middle = (value + next) / 2;
    for (const double x : {value, middle, std::nextafter(middle, 0.0),
                           std::nextafter(middle, 2 * middle), value * 0x1.0000001p0, value / 3}) {
      expect_rounds<TypeParam>(x);
    }
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = random();
    expect_rounds<TypeParam>(bit_cast<double>(bits));
    expect_rounds<TypeParam>(std::ldexp(1.0 + static_cast<double>(bits >> 12) * 0x1p-52,
                                        static_cast<int>(bits % 300) - 160));
  }
}

}  // namespace
}  // namespace sow::detail

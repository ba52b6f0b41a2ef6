// SPDX-License-Identifier: Apache-2.0
// Updates along either axis of a table, few to a place: bits against the reference, and bad keys
// found before anything is written.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cpu/strategies.h"
#include "fold_problem.h"
#include "sow/sow.h"

namespace sow::detail {
namespace {

const char* const kWays[] = {"block", "direct", "owned", "private", "partition"};
const Reduce kReductions[] = {Reduce::assign, Reduce::add,  Reduce::mul,
                              Reduce::mean,   Reduce::amax, Reduce::amin};

struct Table {
  Tensor arr, keys, values;
  int64_t axis;
};

// Numbers of every size, a few infinities and NaN among them.
Tensor any_floats(std::mt19937_64& random, const Dims& shape) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(&value, &bits, 4);
    if (random() % 4 != 0) value = normal(random);
  }
  return Tensor::of(values, shape);
}

// The same of any type: integers of any bits, complex numbers of two such floats.
Tensor any_values(std::mt19937_64& random, const Dims& shape, DType dtype) {
  if (is_floating(dtype)) return to(any_floats(random, shape), dtype);
  const Tensor out = Tensor::ones(shape, dtype);
  char* data = static_cast<char*>(out.data());
  if (dtype == DType::complex64) {
    const Tensor parts = any_floats(random, {shape[0], 2 * shape[1]});
    std::memcpy(data, parts.data(), out.nbytes());
    return out;
  }
  for (size_t i = 0; i < out.nbytes(); ++i) data[i] = static_cast<char>(random());
  return out;
}

// `hot`: half of the keys are one and the same.
Table make_table(std::mt19937_64& random, int64_t axis, int64_t places, int64_t items, DType dtype,
                 bool hot, int64_t lines = 70) {
  const Dims dst = axis == 0 ? Dims{places, lines} : Dims{lines, places};
  const Dims src = axis == 0 ? Dims{items, lines} : Dims{lines, items};
  std::vector<int64_t> keys(static_cast<size_t>(items * lines));
  for (int64_t& key : keys) {
    key = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * places)) - places;
    if (hot && random() % 2 == 0) key = places / 3;
  }
  Tensor index = Tensor::of(keys, src);
  if (random() % 2 == 0) index = to(index, DType::int32);
  return {any_values(random, dst, dtype), index, any_values(random, src, dtype), axis};
}

std::vector<char> result_of(const Table& table, Reduce reduce, bool self, const char* way) {
  const ForceStrategy forced(way);
  const Tensor out = put_along_axis(table.arr, table.keys, table.values, table.axis, reduce, self);
  const char* data = static_cast<const char*>(out.data());
  return std::vector<char>(data, data + out.nbytes());
}

struct Along : testing::TestWithParam<int> {};

TEST_P(Along, EveryWayGivesTheReferenceBits) {
  const DType dtypes[] = {DType::float32, DType::bfloat16, DType::float64, DType::float16};
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()) + 70);
  const int before = get_num_threads();
  for (const Reduce reduce : kReductions) {
    for (const int64_t axis : {0, 1}) {
      for (const int64_t places : {300, 1500, 6000}) {
        const int number = static_cast<int>(reduce) + static_cast<int>(axis + places / 1000);
        if (is_left_out(number + GetParam())) continue;
        const bool self = random() % 3 != 0;
        const Table table =
            make_table(random, axis, places, 400, dtypes[GetParam()], random() % 2 == 0);
        const std::vector<char> expected = result_of(table, reduce, self, "reference");
        for (const char* way : kWays) {
          set_num_threads(1 + static_cast<int>(random() % 4));
          ASSERT_TRUE(result_of(table, reduce, self, way) == expected)
              << way << " " << name_of(reduce) << " axis " << axis << " places " << places
              << " threads " << get_num_threads();
        }
      }
    }
  }
  set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Types, Along, testing::Range(0, 4));

// So short that several lines are one block of cells, and the last block has fewer. Where a line
// has more than 256 updates to a place, products have several chunks.
struct AlongShort : testing::TestWithParam<int> {};

TEST_P(AlongShort, ManyShortLinesGiveTheReferenceBits) {
  const DType dtypes[] = {DType::float32, DType::float64, DType::float16,
                          DType::int64,   DType::uint8,   DType::complex64};
  const DType dtype = dtypes[GetParam()];
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()) + 700);
  const int before = get_num_threads();
  const struct {
    int64_t lines, places, items;
  } shapes[] = {{613, 200, 100}, {1009, 20, 7}, {997, 33, 1}, {257, 600, 10}, {97, 2, 530}};
  for (const Reduce reduce : kReductions) {
    const bool extreme = reduce == Reduce::amax || reduce == Reduce::amin;
    if (extreme && dtype == DType::complex64) continue;
    for (const auto& [lines, places, items] : shapes) {
      const bool self = random() % 3 != 0;
      const Table table = make_table(random, 1, places, items, dtype, random() % 4 == 0, lines);
      const std::vector<char> expected = result_of(table, reduce, self, "reference");
      for (const char* way : kWays) {
        set_num_threads(1 + static_cast<int>(random() % 4));
        ASSERT_TRUE(result_of(table, reduce, self, way) == expected)
            << way << " " << name_of(reduce) << " " << lines << " lines of " << items << " to "
            << places << ", threads " << get_num_threads() << ", self " << self;
      }
    }
  }
  set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Types, AlongShort, testing::Range(0, 6));

TEST(AlongKeys, ABadOneWritesNothing) {
  std::mt19937_64 random(9);
  for (const int64_t axis : {0, 1}) {
    for (const char* way : kWays) {
      const ForceStrategy forced(way);
      for (const Reduce reduce : kReductions) {
        const Table table = make_table(random, axis, 1000, 300, DType::float32, false);
        const Tensor keys = to(table.keys, DType::int64);
        const int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(keys.numel()));
        keys.data<int64_t>()[at] = random() % 2 == 0 ? 1000 : -1001;
        const Tensor arr = Tensor::ones(table.arr.shape(), DType::float32);
        std::string where = std::to_string(at / keys.size(1));
        where += ", " + std::to_string(at % keys.size(1)) + "]";
        try {
          put_along_axis_(arr, keys, table.values, axis, reduce);
          FAIL() << way;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::index);
          EXPECT_NE(std::string(error.what()).find(where), std::string::npos) << error.what();
        }
        const float* data = arr.data<float>();
        EXPECT_TRUE(std::all_of(data, data + arr.numel(), [](float x) { return x == 1.0f; }))
            << way << " " << name_of(reduce);
      }
    }
  }
}

}  // namespace
}  // namespace sow::detail

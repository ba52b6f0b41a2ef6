// SPDX-License-Identifier: Apache-2.0
// Single elements in numbers that fill many buckets and blocks, for each strategy that takes them:
// bits against the reference, bad keys, and what lies between places.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/strategies.h"
#include "fold_problem.h"
#include "sow/sow.h"
#include "test_threads.h"

namespace sow::detail {

inline constexpr int kElementTypes = 5;

// Types by number, in sizes that fill many buckets and blocks. Counts what was tried.
inline void expect_reference_bits(const Strategy& strategy, int type) {
  const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::int8,
                          DType::complex128};
  const DType dtype = dtypes[type];
  int tried = 0;
  ProblemMaker maker(type + 40);
  for (const Reduce reduce : {Reduce::add, Reduce::mean, Reduce::amax, Reduce::assign}) {
    if (!is_reducible(dtype, reduce)) continue;
    for (const int64_t places : {3, 1000, 5002, 30003, 90000}) {
      if (is_left_out(static_cast<int>(reduce) + static_cast<int>(places % 4) + type)) continue;
      const Values values = maker.random() % 3 == 0 ? Values::special : Values::plain;
      const Problem problem = maker.make({1, 40000, 1, places}, dtype, reduce, values);
      const Bytes expected = result_of(problem, k_reference, 1);
      for (const int threads : {1, 2, 4}) {
        const Bytes found = result_of(problem, strategy, threads);
        if (found.empty()) break;
        ++tried;
        ASSERT_TRUE(found == expected)
            << strategy.name << " with " << threads << " threads: " << problem.text;
      }
    }
  }
  EXPECT_GT(tried, 0) << strategy.name << " took none of the problems";
}

// The bad key is named, wherever it is, and the destination is as it was.
inline void expect_bad_key_writes_nothing(const Strategy& strategy) {
  constexpr int64_t kItems = 30000;
  std::mt19937_64 random(3);
  {
    const ForceStrategy forced(strategy.name);
    for (const Reduce reduce : {Reduce::add, Reduce::amax, Reduce::assign}) {
      for (const int64_t places : {100, 1000, 20000}) {
        for (const int64_t at : {int64_t{0}, kItems / 2, kItems - 1}) {
          std::vector<int64_t> keys(kItems);
          for (int64_t& key : keys) {
            key = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * places)) - places;
          }
          keys[static_cast<size_t>(at)] = random() % 2 == 0 ? places : -places - 1;
          const Tensor x = Tensor::ones({places}, DType::float32);
          const Tensor src = Tensor::of(std::vector<float>(kItems, 7), {kItems});
          const Tensor index = Tensor::of(keys, {kItems});
          const auto scatter = [&] {
            if (reduce == Reduce::assign) {
              index_copy_(x, 0, index, src);
            } else {
              index_reduce_(x, 0, index, src, reduce);
            }
          };
          try {
            scatter();
            FAIL() << strategy.name;
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::index);
            EXPECT_NE(std::string(error.what()).find("[" + std::to_string(at) + "]"),
                      std::string::npos)
                << error.what();
          }
          const float* data = static_cast<const float*>(x.data());
          EXPECT_TRUE(std::all_of(data, data + places, [](float value) { return value == 1.0f; }))
              << strategy.name;
        }
      }
    }
  }
}

// Two calls at once on the left and the right half of one array: what is between the places of one
// belongs to the other.
inline void expect_nothing_written_between_places(const Strategy& strategy) {
  constexpr int64_t kRows = 400, kColumns = 32, kItems = 4000;
  std::mt19937_64 random(5);
  std::vector<int64_t> keys(kItems);
  for (int64_t& key : keys) key = static_cast<int64_t>(random() % kRows);
  const Tensor index = Tensor::of(keys, {kItems});
  for (const bool wide : {false, true}) {
    std::vector<float> values(kItems * kColumns);
    for (float& value : values) {
      value = static_cast<float>(random() % 100000);
      if (wide) value = std::ldexp(value, static_cast<int>(random() % 120) - 60);
    }
    const Tensor src = Tensor::of(values, {kItems, kColumns});
    for (const Reduce reduce : {Reduce::amax, Reduce::add, Reduce::mean}) {
      const Tensor expected = Tensor::zeros({kRows, kColumns}, DType::float32);
      index_reduce_(expected, 0, index, src, reduce);
      {
        if (&strategy == &k_direct && reduce != Reduce::amax) continue;
        const Tensor both = Tensor::zeros({kRows, 2 * kColumns}, DType::float32);
        const Tensor half[] = {both.slice(1, 0, kColumns), both.slice(1, kColumns, 2 * kColumns)};
        const auto work = [&](int which) {
          const ForceStrategy forced(strategy.name);
          index_reduce_(half[which], 0, index, src, reduce);
        };
        test::TestThreads other;
        other.start([&] { work(1); });
        work(0);
        other.join();
        for (const Tensor& each : half) {
          const Tensor found = each.contiguous();
          EXPECT_EQ(std::memcmp(found.data(), expected.data(), kRows * kColumns * sizeof(float)), 0)
              << strategy.name << " " << name_of(reduce) << (wide ? " wide" : "");
        }
      }
    }
  }
}

}  // namespace sow::detail

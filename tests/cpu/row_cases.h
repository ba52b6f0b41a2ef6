// SPDX-License-Identifier: Apache-2.0
// Dense rows as problems for the strategies that are meant for them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "core/isa.h"
#include "cpu/strategies.h"
#include "fold_problem.h"
#include "sow/sow.h"

namespace sow::detail {

struct DenseRows {
  int64_t items = 1, columns = 1, places = 1;
  int64_t shift = 0;  // elements from the beginning of a line to the source
  bool sorted = false;
  bool even = false;  // no place has far more than others
};

inline Problem make(std::mt19937_64& random, const DenseRows& rows, DType dtype, Reduce reduce,
                    Values values) {
  Problem problem;
  Transfer& t = problem.transfer;
  const int64_t size = static_cast<int64_t>(size_of(dtype));
  t.op = "rows_test";
  t.dtype = dtype;
  t.reduce = reduce;
  t.include_self = random() % 2;
  t.shape = {rows.items, rows.columns};
  problem.dst = random_elements(random, dtype, rows.places * rows.columns, values);
  t.dst = {problem.dst.data(), {0, 1}};
  problem.src =
      random_elements(random, dtype, rows.items * rows.columns + 64 / size + rows.shift, values);
  const int64_t line = -reinterpret_cast<intptr_t>(problem.src.data()) & 63;
  t.src = {problem.src.data() + line + rows.shift * size, {rows.columns, 1}};
  std::vector<int64_t> keys(static_cast<size_t>(rows.items));
  // Half of them meet in one place, the rest lie anywhere.
  for (int64_t& key : keys)
    key = !rows.even && random() % 2
              ? rows.places / 3
              : static_cast<int64_t>(random() % static_cast<uint64_t>(rows.places));
  if (rows.sorted) std::sort(keys.begin(), keys.end());
  problem.keys.emplace_back(keys.size() * sizeof(int64_t));
  std::memcpy(problem.keys[0].data(), keys.data(), problem.keys[0].size());
  t.dst_index.push_back({.data = problem.keys[0].data(),
                         .dtype = DType::int64,
                         .strides = {1, 0},
                         .extent = rows.places,
                         .scale = rows.columns,
                         .own_shape = {rows.items},
                         .own_strides = {1}});
  problem.text = std::string(name_of(dtype)) + " " + name_of(reduce) + " items " +
                 std::to_string(rows.items) + " columns " + std::to_string(rows.columns) +
                 " shift " + std::to_string(rows.shift) + " self " + std::to_string(t.include_self);
  return problem;
}

// Through every strategy that is meant for rows.
inline void expect_bits(const Problem& problem, int threads, const Bytes& expected, int values = 0,
                        const char* isa = "") {
  for (const Strategy* strategy : {&k_ordered, &k_short_rows}) {
    if (!strategy->supports(problem.transfer, canonicalize(problem.transfer))) continue;
    ASSERT_TRUE(result_of(problem, *strategy, threads) == expected)
        << strategy->name << " with " << threads << " threads: " << problem.text << " values "
        << values << " " << isa;
  }
}

}  // namespace sow::detail

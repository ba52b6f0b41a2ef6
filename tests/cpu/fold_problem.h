// SPDX-License-Identifier: Apache-2.0
// Random Transfers whose updates meet, and a way to run them through one strategy.
#pragma once

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/dtype_switch.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

using Bytes = std::vector<char>;

enum class Values { plain, wide, special, tiny };

// Owns what the Transfer points to.
struct Problem {
  Transfer transfer;
  Bytes dst, src;
  std::vector<Bytes> keys;
  std::string text;
};

template <class T>
T random_value(std::mt19937_64& random, Values values) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 3 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(values == Values::plain ? random() % 7 : random());
  } else if constexpr (sizeof(T) == 16 || std::is_same_v<T, std::complex<float>>) {
    using P = typename T::value_type;
    return T(random_value<P>(random, values), random_value<P>(random, values));
  } else {
    std::normal_distribution<double> normal;
    const double x = normal(random);
    if (values == Values::plain) return T(x);
    if (values == Values::tiny) return T(random() % 2 ? 0.0 : -0.0);
    T any;
    const uint64_t bits = random();
    std::memcpy(&any, &bits, sizeof(T));
    const double as_double = static_cast<double>(any);
    if (values == Values::special) return random() % 8 == 0 ? any : T(random() % 4 == 0 ? -0.0 : x);
    return as_double - as_double == 0 ? any : T(x);  // every finite pattern alike
  }
}

inline Bytes random_elements(std::mt19937_64& random, DType dtype, int64_t count, Values values) {
  Bytes bytes(static_cast<size_t>(count) * size_of(dtype));
  with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) {
      const T value = random_value<T>(random, values);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// Emulators and sanitizers ask for few problems: loops over many keep one in four there, and every
// type another one where its number is part of theirs.
inline bool is_left_out(int number) {
  const char* problems = std::getenv("SOW_TEST_PROBLEMS");
  return problems != nullptr && std::atoi(problems) < 5000 && number % 4 != 0;
}

struct ProblemSizes {
  int64_t outer = 1, items = 1, row = 1, places = 1;
};

// dst[outer, places, row] (+)= src[outer, items, row], in layouts and with indices drawn at random.
class ProblemMaker {
 public:
  explicit ProblemMaker(uint64_t seed) : random(seed) {}

  // Everything dense, and one key a row: what most calls are.
  Problem make_plain(ProblemSizes sizes, DType dtype, Reduce reduce, Values values) {
    plain_ = true;
    Problem problem = make(sizes, dtype, reduce, values);
    plain_ = false;
    return problem;
  }

  Problem make(ProblemSizes sizes, DType dtype, Reduce reduce, Values values) {
    sizes_ = sizes;
    Problem problem;
    Transfer& t = problem.transfer;
    t.op = "fold_test";
    t.dtype = dtype;
    t.reduce = reduce;
    t.include_self = random() % 2;
    t.negate = reduce == Reduce::add && dtype != DType::bool_ && random() % 4 == 0 && !plain_;
    t.bounds = static_cast<Bounds>(random() % 4);
    t.shape = {sizes.outer, sizes.items, sizes.row};

    int64_t elements = 0, first = 0;
    const Dims dst = layout({sizes.outer, sizes.places, sizes.row}, elements, first);
    problem.dst = random_elements(random, dtype, elements, values);
    t.dst = {problem.dst.data() + first * static_cast<int64_t>(size_of(dtype)),
             {dst[0], 0, dst[2]}};
    add_destination_keys(problem, dst[1]);
    add_source(problem, values);
    problem.text = std::string(name_of(dtype)) + " " + name_of(reduce) + " outer " +
                   std::to_string(sizes.outer) + " items " + std::to_string(sizes.items) + " row " +
                   std::to_string(sizes.row) + " places " + std::to_string(sizes.places) +
                   " bounds " + std::to_string(static_cast<int>(t.bounds)) + " self " +
                   std::to_string(t.include_self) + " negate " + std::to_string(t.negate) +
                   " indices " + std::to_string(t.dst_index.size()) + "+" +
                   std::to_string(t.src_index.size());
    return problem;
  }

  std::mt19937_64 random;

 private:
  // Strides of a view without overlap, and what it spans: any order, gaps, either direction.
  Dims layout(const Dims& shape, int64_t& elements, int64_t& first) {
    Dims order = {0, 1, 2}, strides(3, 0);
    if (random() % 2 && !plain_) std::shuffle(order.begin(), order.end(), random);
    int64_t stride = random() % 4 == 0 && !plain_ ? 2 : 1;
    first = 0;
    for (int i = 2; i >= 0; --i) {
      const bool backwards = random() % 6 == 0 && !plain_;
      strides[order[i]] = backwards ? -stride : stride;
      if (backwards) first += stride * (shape[order[i]] - 1);
      stride = stride * shape[order[i]] + (random() % 4 == 0 && !plain_ ? 3 : 0);
    }
    elements = stride + 2;
    return strides;
  }

  IndexOperand keys_for(Problem& problem, int64_t extent, int64_t scale, bool moves_row) {
    IndexOperand index;
    index.dtype = random() % 2 ? DType::int32 : DType::int64;
    index.extent = extent;
    index.scale = scale;
    const int64_t rows = moves_row ? sizes_.row : 1, outers = random() % 2 ? sizes_.outer : 1;
    index.strides = {outers > 1 ? sizes_.items * rows : 0, rows, rows > 1 ? 1 : 0};
    const bool free =
        problem.transfer.bounds == Bounds::drop || problem.transfer.bounds == Bounds::clip;
    const bool hot = random() % 4 == 0;
    Bytes bytes(static_cast<size_t>(outers * sizes_.items * rows) * size_of(index.dtype));
    for (int64_t i = 0; i < outers * sizes_.items * rows; ++i) {
      int64_t key = static_cast<int64_t>(random() % static_cast<uint64_t>(extent));
      if (hot && random() % 2) key = extent / 2;
      if (random() % 4 == 0) key -= extent;
      if (free && random() % 5 == 0) key += random() % 2 ? 2 * extent : -2 * extent;
      const int32_t small = static_cast<int32_t>(key);
      if (index.dtype == DType::int32)
        std::memcpy(bytes.data() + 4 * i, &small, 4);
      else
        std::memcpy(bytes.data() + 8 * i, &key, 8);
    }
    problem.keys.push_back(std::move(bytes));
    index.data = problem.keys.back().data();
    return index;
  }

  void add_destination_keys(Problem& problem, int64_t scale) {
    const bool moves_row = random() % 3 == 0 && !plain_;
    if (random() % 4 == 0 && sizes_.places % 2 == 0 && !plain_) {
      problem.transfer.dst_index.push_back(
          keys_for(problem, sizes_.places / 2, 2 * scale, moves_row));
      problem.transfer.dst_index.push_back(keys_for(problem, 2, scale, false));
    } else {
      problem.transfer.dst_index.push_back(keys_for(problem, sizes_.places, scale, moves_row));
    }
  }

  void add_source(Problem& problem, Values values) {
    Transfer& t = problem.transfer;
    const uint64_t kind = plain_ ? 7 : random() % 8;
    int64_t elements = 0, first = 0;
    if (kind == 0) {
      const Bytes one = random_elements(random, t.dtype, 1, values);
      std::memcpy(t.scalar, one.data(), one.size());
      return;
    }
    const int64_t rows = kind == 1 ? 5 : sizes_.items;
    const Dims src = layout({sizes_.outer, rows, sizes_.row}, elements, first);
    problem.src = random_elements(random, t.dtype, elements, values);
    t.src = {problem.src.data() + first * static_cast<int64_t>(size_of(t.dtype)), src};
    if (kind == 1) {
      t.src.strides[1] = 0;
      t.src_index.push_back(keys_for(problem, rows, src[1], false));
    } else if (kind == 2) {
      t.src.strides[random() % 3] = 0;
    }
  }

  ProblemSizes sizes_;
  bool plain_ = false;
};

// What the destination's memory holds after a strategy has run; empty if it doesn't support this.
// The workspace is exactly as large as the strategy asked for, with a fence behind it.
inline Bytes result_of(const Problem& problem, const Strategy& strategy, int threads) {
  Transfer t = problem.transfer;
  Bytes dst = problem.dst;
  t.dst.data = dst.data() + (problem.transfer.dst.data - problem.dst.data());
  const Canonical canonical = canonicalize(t);
  if (canonical.empty || !strategy.supports(t, canonical)) return {};
  Plan plan;
  plan.strategy = &strategy;
  plan.threads = threads;
  const ShareSmallWork share(threads > 2);
  plan.workspace = strategy.workspace(t, canonical, threads);
  Bytes memory(plan.workspace + 128, '\x5a');
  char* start = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  strategy.run(t, canonical, plan, start);
  for (const char* at = start + plan.workspace; at < memory.data() + memory.size(); ++at) {
    if (*at != '\x5a') return {'o', 'v', 'e', 'r', 'r', 'u', 'n'};
  }
  return dst;
}

inline bool is_reducible(DType dtype, Reduce reduce) {
  if (is_bitwise(reduce)) return !is_differentiable(dtype);
  if (reduce == Reduce::mean) return dtype != DType::bool_;
  if (reduce == Reduce::amax || reduce == Reduce::amin) return !is_complex(dtype);
  return true;
}

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// What the tests of moves share: random strided views, and running a strategy by name of its
// object.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "core/isa.h"
#include "cpu/strategies.h"

namespace sow::detail {

using Random = std::mt19937_64;

inline int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// One type of each byte width.
inline constexpr DType kWidths[] = {DType::int8, DType::float16, DType::float32, DType::float64,
                                    DType::complex128};

inline std::vector<Isa> isa_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa_available(isa)) levels.push_back(isa);
  }
  return levels;
}

inline int64_t numel(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// Bytes with a view into them: no byte more than the view spans, so that a sanitizer sees a read
// too far.
struct View {
  std::vector<char> bytes;
  int64_t offset = 0;  // of the first element, in elements
  Dims strides;

  Operand operand(size_t width) {
    return {bytes.data() + offset * static_cast<int64_t>(width), strides};
  }
};

enum class Layout { dense, strided, broadcast };

// dense: row-major. strided: dimensions in any order, with gaps, some reversed. broadcast: the same
// with some strides 0.
inline View make_view(Random& random, const Dims& shape, size_t width, Layout layout) {
  View view;
  const int rank = shape.rank();
  std::vector<int> order(rank);
  for (int d = 0; d < rank; ++d) order[d] = d;
  if (layout != Layout::dense) std::shuffle(order.begin(), order.end(), random);
  view.strides.resize(rank);
  int64_t span = 1;
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const int d = order[i];
    if (layout == Layout::broadcast && pick(random, 0, 1) == 0) continue;
    if (layout != Layout::dense && pick(random, 0, 2) == 0) step += pick(random, 1, 3);
    view.strides[d] = step;
    const int64_t reach = std::max<int64_t>(shape[d] - 1, 0) * step;
    span += reach;
    step *= std::max<int64_t>(shape[d], 1);
    if (layout != Layout::dense && pick(random, 0, 3) == 0) {
      view.strides[d] = -view.strides[d];
      view.offset += reach;
    }
  }
  view.bytes.resize(static_cast<size_t>(span) * width);
  for (char& byte : view.bytes) byte = static_cast<char>(random());
  return view;
}

// Calls f(coordinates) in row-major order.
template <class F>
void for_each_coordinate(const Dims& shape, F&& f) {
  Dims at(shape.size(), 0);
  for (int64_t i = 0; i < numel(shape); ++i) {
    f(static_cast<const Dims&>(at));
    for (int d = shape.rank() - 1; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
  }
}

inline int64_t place(const Dims& at, const Dims& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

// Runs with exactly the workspace that the strategy asks for.
inline void run_strategy(const Strategy& strategy, const Transfer& transfer, int threads) {
  Canonical canonical;
  if (transfer.mask_side == MaskSide::none) canonical = canonicalize(transfer);
  ASSERT_TRUE(strategy.supports(transfer, canonical)) << strategy.name;
  Plan plan;
  plan.strategy = &strategy;
  plan.threads = threads;
  plan.workspace = strategy.workspace(transfer, canonical, threads);
  std::vector<int64_t> workspace((plan.workspace + 7) / 8);
  strategy.run(transfer, canonical, plan, reinterpret_cast<char*>(workspace.data()));
}

inline void expect_same(View& dst, const Transfer& t, const Strategy& strategy,
                        const std::vector<char>& before, const std::vector<char>& expected,
                        const std::vector<int>& threads) {
  for (const Isa isa : {Isa::portable, isa_levels().back()}) {
    const ScopedIsa forced(isa);
    for (const int count : threads) {
      std::copy(before.begin(), before.end(), dst.bytes.begin());
      run_strategy(strategy, t, count);
      ASSERT_EQ(dst.bytes, expected)
          << strategy.name << " " << isa_name(isa) << " " << count << " threads, "
          << name_of(t.dtype) << to_string(t.shape) << " from " << to_string(t.src.strides)
          << " to " << to_string(t.dst.strides);
    }
  }
}

}  // namespace sow::detail

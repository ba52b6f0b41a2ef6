// SPDX-License-Identifier: Apache-2.0
// What forward and backward of a scatter of rows hold at most, and how often the index is ordered.
//
// The accounting: the caller owns the source, the destination, the index and the result's gradient.
// What a step makes is the result and the source's gradient, which is as large as the source: no
// way of working is without these two. Everything else is scratch.
#include <cstdlib>
#include <random>

#include "memory_peak.h"
#include "sow/sow.h"

namespace sow::detail {
namespace {

struct Rows {
  Rows(int64_t count, int64_t width) {
    const int64_t places = count / 10;
    std::mt19937_64 random(5);
    std::vector<int64_t> drawn(static_cast<size_t>(count));
    for (int64_t& key : drawn) key = static_cast<int64_t>(random() % static_cast<uint64_t>(places));
    keys = Tensor::of(drawn, {count});
    x = Tensor::ones({places, width}, DType::float32);
    source = Tensor::ones({count, width}, DType::float32).set_requires_grad();
    grad = Tensor::ones({places, width}, DType::float32);
  }

  Tensor forward(Reduce reduce) const {
    if (reduce == Reduce::add) return index_add(x, 0, keys, source);
    return index_reduce(x, 0, keys, source, reduce);
  }
  // Holds on to the result and to the source's gradient, as a caller does.
  int64_t peak(Reduce reduce) const {
    Tensor result;
    const int64_t peak = peak_of([&] {
      result = forward(reduce);
      result.backward(grad);
    });
    EXPECT_TRUE(source.grad().defined());
    source.zero_grad();
    return peak;
  }
  int64_t made() const { return static_cast<int64_t>(source.nbytes() + x.nbytes()); }

  Tensor keys, x, source, grad;
};

constexpr Reduce kReductions[] = {Reduce::add, Reduce::mean, Reduce::amax, Reduce::mul,
                                  Reduce::assign};

TEST(Memory, of_forward_and_backward_is_what_they_make_and_a_quarter) {
  for (const int threads : {1, 2, 7}) {
    const int before = get_num_threads();
    set_num_threads(threads);
    const Rows rows(20000, 64);
    for (const Reduce reduce : kReductions) {
      const int64_t peak = rows.peak(reduce);
      EXPECT_GE(peak, rows.made());
      EXPECT_LE(peak, rows.made() * 5 / 4) << name_of(reduce) << ", " << threads << " threads";
    }
    set_num_threads(before);
  }
}

// A sum's gradient is a gather: it takes nothing at all, and the forward's scratch is gone by then.
TEST(Memory, of_a_row_sum_and_its_gradient_is_what_they_make) {
  const Rows rows(20000, 64);
  EXPECT_EQ(rows.peak(Reduce::add), rows.made());
}

// The sanitizers' runs draw few problems, and here take a tenth of the rows.
TEST(Memory, of_half_a_million_rows) {
  const char* problems = std::getenv("SOW_TEST_PROBLEMS");
  const bool quick = problems != nullptr && std::atoi(problems) < 5000;
  const Rows rows(quick ? 50000 : 500000, 64);
  for (const Reduce reduce : kReductions) {
    EXPECT_LE(rows.peak(reduce), rows.made() * 5 / 4) << name_of(reduce);
  }
}

size_t count_of(const std::string& words, const std::string& part) {
  size_t found = 0;
  for (size_t at = words.find(part); at != std::string::npos; at = words.find(part, at + 1))
    ++found;
  return found;
}

TEST(Memory, the_index_is_ordered_once) {
  const Rows rows(20000, 64);
  for (const Reduce reduce : kReductions) {
    const std::string words = explain([&] { rows.forward(reduce).backward(rows.grad); });
    const size_t sorts = count_of(words, "strategy     ordered"),
                 held = count_of(words, "held: ordered once");
    const size_t shared = count_of(words, "are ordered here, for the scatter and its gradient");
    EXPECT_EQ(count_of(words, "index        ordered here"), 0u) << words;
    if (reduce == Reduce::add) {
      // The gradient reads through the index as it is.
      EXPECT_EQ(sorts, 1u) << words;
      EXPECT_EQ(shared + held, 0u) << words;
      EXPECT_EQ(count_of(words, "strategy     gather"), 1u) << words;
    } else {
      EXPECT_EQ(shared, 1u) << words;
      EXPECT_EQ(held, sorts + 1) << words;
    }
  }
}

}  // namespace
}  // namespace sow::detail

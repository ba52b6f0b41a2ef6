// SPDX-License-Identifier: Apache-2.0
// Float sums of the public operations against MPFR: the exact sum, rounded once, whatever the
// data, the strategy and the number of threads.
#include <gtest/gtest.h>

#include <functional>

#include "core/exact_sum_cases.h"
#include "sow/ops.h"
#include "sow/runtime.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

template <class T>
using Bits = typename detail::FloatTraits<T>::Bits;

// Calls f once for every strategy and number of threads. Where a strategy does not support a
// Transfer the planner chooses, so that each call has the same result.
void for_every_way(const std::vector<int>& thread_counts, const std::function<void()>& f) {
  const int previous = get_num_threads();
  for (const detail::Strategy* strategy : detail::cpu_strategies()) {
    const detail::ForceStrategy forced(strategy->name);
    for (const int threads : thread_counts) {
      SCOPED_TRACE(std::string(strategy->name) + ", threads: " + std::to_string(threads));
      set_num_threads(threads);
      f();
      if (testing::Test::HasFailure()) return set_num_threads(previous);
    }
  }
  set_num_threads(previous);
}

// One destination for each case and two columns, the second with every sign turned, so that the
// same memory is also a column of complex numbers.
template <class T>
struct SumProblem {
  std::vector<SumCase<T>> cases;
  std::vector<T> old;
  std::vector<T> updates;
  std::vector<int64_t> index;

  int64_t places() const { return static_cast<int64_t>(cases.size()); }
  int64_t count() const { return static_cast<int64_t>(index.size()); }

  // The terms of one place: its old value first.
  std::vector<T> terms(size_t place, int column, bool include_self) const {
    std::vector<T> terms = cases[place].terms;
    if (!include_self) terms.erase(terms.begin());
    if (column == 1) {
      for (auto& term : terms) term = negated(term);
    }
    return terms;
  }
};

template <class T>
SumProblem<T> make_problem(uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  SumProblem<T> problem;
  for (int i = 0; i < rounds; ++i) {
    for (auto& c : hurtful_cases<T>(random)) problem.cases.push_back(c);
  }
  for (auto& c : special_cases<T>()) {
    if (!c.terms.empty()) problem.cases.push_back({c.name, c.terms});
  }
  std::vector<std::pair<int64_t, T>> updates;
  for (size_t place = 0; place < problem.cases.size(); ++place) {
    const auto& terms = problem.cases[place].terms;
    problem.old.push_back(terms[0]);
    problem.old.push_back(negated(terms[0]));
    for (size_t i = 1; i < terms.size(); ++i) updates.push_back({place, terms[i]});
  }
  for (size_t i = updates.size(); i-- > 1;) std::swap(updates[i], updates[random() % (i + 1)]);
  for (const auto& update : updates) {
    problem.index.push_back(update.first);
    problem.updates.push_back(update.second);
    problem.updates.push_back(negated(update.second));
  }
  return problem;
}

template <class T>
std::vector<Bits<T>> expected_sums(const SumProblem<T>& problem, bool include_self) {
  std::vector<Bits<T>> bits;
  for (size_t i = 0; i < problem.old.size(); ++i) {
    const auto terms = problem.terms(i / 2, i % 2, include_self);
    bits.push_back(terms.empty() ? bits_of(problem.old[i]) : mpfr_sum_bits<T>(terms));
  }
  return bits;
}

template <class T>
std::vector<Bits<T>> expected_means(const SumProblem<T>& problem, bool include_self) {
  std::vector<Bits<T>> bits;
  for (size_t i = 0; i < problem.old.size(); ++i) {
    const auto terms = problem.terms(i / 2, i % 2, include_self);
    if (problem.cases[i / 2].terms.size() == 1) {  // nobody wrote there
      bits.push_back(bits_of(problem.old[i]));
      continue;
    }
    const double sum = from_bits<double>(mpfr_sum_bits<double>(terms));
    bits.push_back(bits_of(static_cast<T>(sum / static_cast<double>(terms.size()))));
  }
  return bits;
}

template <class T>
void expect_bits(const Tensor& result, const SumProblem<T>& problem,
                 const std::vector<Bits<T>>& expected, const char* what) {
  ASSERT_TRUE(result.is_contiguous());
  const T* data = static_cast<const T*>(result.data());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(bits_of(data[i]), expected[i]) << what << " of \"" << problem.cases[i / 2].name
                                             << "\", column " << i % 2 << ", place " << i / 2;
  }
}

template <class T>
class Sums : public testing::Test {};
using FloatTypes = testing::Types<float16, bfloat16, float, double>;
TYPED_TEST_SUITE(Sums, FloatTypes);

TYPED_TEST(Sums, OfRowsAreExact) {
  using T = TypeParam;
  const auto problem = make_problem<T>(11, 6);
  // A place that only its old value knows is not touched, and moves nothing: not even a NaN.
  auto expected = expected_sums(problem, true);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (problem.cases[i / 2].terms.size() == 1) expected[i] = bits_of(problem.old[i]);
  }
  const auto means = expected_means(problem, true);
  const Tensor x = Tensor::of(problem.old, {problem.places(), 2});
  const Tensor index = Tensor::of(problem.index, {problem.count()});
  const Tensor source = Tensor::of(problem.updates, {problem.count(), 2});
  for_every_way({1, 2, 3, 7}, [&] {
    expect_bits(index_add(x, 0, index, source), problem, expected, "index_add");
    expect_bits(index_reduce(x, 0, index, source, "mean"), problem, means, "mean");
  });
}

TYPED_TEST(Sums, OfSingleElementsAreExact) {
  using T = TypeParam;
  const auto problem = make_problem<T>(12, 6);
  const auto expected = expected_sums(problem, false);
  const auto means = expected_means(problem, false);
  const Tensor x = Tensor::of(problem.old, {problem.places(), 2});
  const Tensor column = Tensor::of(problem.index, {problem.count(), 1});
  const Tensor index = column.broadcast_to({problem.count(), 2}).clone();
  const Tensor source = Tensor::of(problem.updates, {problem.count(), 2});
  for_every_way({1, 7}, [&] {
    expect_bits(scatter_reduce(x, 0, index, source, "sum", false), problem, expected, "sum");
    expect_bits(put_along_axis(x, column, source, 0, "mean", false), problem, means, "mean");
  });
}

TYPED_TEST(Sums, OfDifferencesAreExact) {
  using T = TypeParam;
  auto problem = make_problem<T>(13, 4);
  auto expected = expected_sums(problem, true);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (problem.cases[i / 2].terms.size() == 1) expected[i] = bits_of(problem.old[i]);
  }
  for (auto& update : problem.updates) update = negated(update);
  const Tensor x = Tensor::of(problem.old, {problem.places(), 2});
  const Tensor indices = Tensor::of(problem.index, {problem.count(), 1});
  const Tensor updates = Tensor::of(problem.updates, {problem.count(), 2});
  for_every_way({1, 3}, [&] {
    expect_bits(tensor_scatter_nd_sub(x, indices, updates), problem, expected, "sub");
  });
}

// The parts of a complex number are summed on their own.
template <class T>
void check_complex(uint64_t seed) {
  const auto problem = make_problem<T>(seed, 4);
  auto expected = expected_sums(problem, true);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (problem.cases[i / 2].terms.size() == 1) expected[i] = bits_of(problem.old[i]);
  }
  const auto means = expected_means(problem, true);
  std::vector<std::complex<T>> old, updates;
  for (size_t i = 0; i < problem.old.size(); i += 2) {
    old.emplace_back(problem.old[i], problem.old[i + 1]);
  }
  for (size_t i = 0; i < problem.updates.size(); i += 2) {
    updates.emplace_back(problem.updates[i], problem.updates[i + 1]);
  }
  const Tensor x = Tensor::of(old, {problem.places()});
  const Tensor index = Tensor::of(problem.index, {problem.count()});
  const Tensor source = Tensor::of(updates, {problem.count()});
  for_every_way({1, 2, 7}, [&] {
    expect_bits(scatter_add(x, 0, index, source), problem, expected, "scatter_add");
    expect_bits(scatter_reduce(x, 0, index, source, "mean"), problem, means, "mean");
  });
}

TEST(ComplexSums, AreExact) {
  check_complex<float>(14);
  check_complex<double>(15);
}

// A million updates of one place, with every exponent the type has.
TYPED_TEST(Sums, OfAMillionUpdatesOnOnePlaceAreExact) {
  using T = TypeParam;
  constexpr int64_t kCount = 1000000;
  std::mt19937_64 random(16);
  auto terms = random_terms<T>(random, kCount, 0, kTopBiased<T>);
  for (size_t i = 0; i + 1 < terms.size(); i += 2) {  // most of it cancels
    if (random() % 8 != 0) terms[i + 1] = negated(terms[i]);
  }
  const Tensor source = Tensor::of(terms, {kCount});
  const Tensor index = Tensor::zeros({1}, DType::int64).broadcast_to({kCount});
  const Tensor x = Tensor::ones({2}, dtype_of<T>());
  terms.push_back(x.to_vector<T>()[0]);
  const auto expected = mpfr_sum_bits<T>(terms);
  for_every_way({1, 7}, [&] {
    const auto sums = scatter_add(x, 0, index, source).template to_vector<T>();
    EXPECT_EQ(bits_of(sums[0]), expected);
    EXPECT_EQ(widen(sums[1]), 1.0);
  });
}

TYPED_TEST(Sums, OfOnesCountThem) {
  using T = TypeParam;
  const T one = T(1.0f);
  // Beyond 1,000 not every type holds the next integers; 4096 and 1000 are exact in all of them.
  for (const int64_t count : {1000, 4096}) {
    const Tensor x = Tensor::zeros({1}, dtype_of<T>());
    const Tensor index = Tensor::zeros({count}, DType::int32);
    const Tensor source = Tensor::of(std::vector<T>(count, one), {count});
    for_every_way({1, 7}, [&] {
      EXPECT_EQ(widen(scatter_add(x, 0, index, source).template item<T>()), count);
    });
  }
}

}  // namespace
}  // namespace sow::test

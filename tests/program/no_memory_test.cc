// SPDX-License-Identifier: Apache-2.0
// Every allocation of a call fails once: the call fails with the destination as it was, or does all
// that it would have done; nothing is lost, and the process lives.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string_view>

#include "core/memory/memory.h"
#include "program/cases.h"
#include "program/counted_heap.h"
#include "random_call.h"
#include "sow/detail/recipe.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

using Then = FailAllocation::Then;

uint64_t problems(uint64_t usual) {
  const char* text = std::getenv("SOW_TEST_PROBLEMS");
  return text ? std::max<uint64_t>(usual * std::strtoull(text, nullptr, 10) / 20000, 20) : usual;
}

// What became of a call: "done", "no memory", or what it complained about. In memory of its own.
struct Ending {
  char text[200] = "done";
  bool no_memory() const { return std::string_view(text) == "no memory"; }
};

template <class F>
Ending ending_of(F&& f) {
  Ending ending;
  try {
    f();
  } catch (const Error& error) {
    const bool no_memory = error.kind() == ErrorKind::memory;
    std::snprintf(ending.text, sizeof(ending.text), "%s", no_memory ? "no memory" : error.what());
  } catch (const std::bad_alloc&) {
    std::snprintf(ending.text, sizeof(ending.text), "no memory");
  }
  return ending;
}

// So many allocations fail each; of those after them some. Only the reference, which lists the
// terms of every place, makes thousands.
constexpr int64_t kEach = 300;
constexpr int64_t kSome = 20;

// How often each was seen, so that a test which tried nothing fails.
struct Tally {
  int64_t calls = 0, failures = 0, survived = 0;
};

// The failures that a test must have seen; where only the pool's allocations fail, at least one.
int64_t at_least(int64_t failures) { return counts_operator_new() ? failures : 0; }

// Runs `call` on what `fresh` makes, first as it is and then with each of its allocations failing.
// `state` is everything that the call may write, as bytes.
template <class Fresh, class Call, class State>
void fail_each(const std::string& name, Tally& tally, Fresh&& fresh, Call&& call, State&& state) {
  auto whole = fresh();
  const std::string before = state(whole);
  Ending expected;
  const int64_t count = allocations_of([&] { expected = ending_of([&] { call(whole); }); });
  const std::string after = state(whole);
  ++tally.calls;
  for (const Then then : {Then::works, Then::fails}) {
    for (int64_t n = 1; n <= count; n += n < kEach ? 1 : 1 + count / kSome) {
      auto things = fresh();
      const int64_t held = memory_stats().bytes_in_use;
      Ending ending;
      {
        const FailAllocation fail(n, then);
        ending = ending_of([&] { call(things); });
      }
      const std::string where = name + ": allocation " + std::to_string(n) + " of " +
                                std::to_string(count) +
                                (then == Then::fails ? " and the rest" : "");
      const std::string found = state(things);
      if (ending.no_memory()) {
        ++tally.failures;
        ASSERT_TRUE(found == before) << where << ": something was written";
        ASSERT_EQ(memory_stats().bytes_in_use, held) << where << ": memory was lost";
      } else {
        ++tally.survived;
        ASSERT_STREQ(ending.text, expected.text) << where;
        ASSERT_TRUE(found == after) << where << ": not all was written";
      }
    }
  }
}

void append(std::string& bytes, const Tensor& tensor) {
  const Tensor dense = tensor.clone();
  bytes.append(static_cast<const char*>(dense.data()), dense.nbytes());
}

std::string bytes_of(const TensorList& tensors) {
  std::string bytes;
  for (const Tensor& tensor : tensors) append(bytes, tensor);
  return bytes;
}

class Threads {
 public:
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

TEST(NoMemory, InRandomCallsOfEveryFamily) {
  Tally tally;
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= problems(1500); ++seed) {
    const RandomCall call{Draw(seed)};
    const Threads threads(1 + seed % 3);
    const detail::ShareSmallWork share(seed % 2 == 0);
    ++seen[call.name()];
    fail_each(
        call.name() + " with seed " + std::to_string(seed), tally, [&] { return call.target(); },
        [&](const Tensor& x) { call.on(x); }, [](const Tensor& x) { return bytes_of({x}); });
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(seen.size(), 8u);
  EXPECT_GT(tally.failures, at_least(2 * tally.calls));
}

// Rows and elements that are many enough for every strategy to have scratch and threads.
TEST(NoMemory, InEveryStrategy) {
  Tally tally;
  std::map<std::string, int> tried;
  const Tensor index = keys({300}, 90);
  for (const Reduce reduce :
       {Reduce::assign, Reduce::add, Reduce::mul, Reduce::amax, Reduce::mean}) {
    for (const int64_t width : {1, 5, 20}) {
      const Tensor src = values({300, width}), x = values({90, width});
      for (const detail::Strategy* strategy : detail::cpu_strategies()) {
        if (strategy->name == std::string_view("reference") && width > 1)
          continue;  // slow, the same
        for (const int count : {1, 3}) {
          const Threads threads(count);
          const detail::ForceStrategy force(strategy->name);
          const detail::ShareSmallWork share(true);
          const auto call = [&](const Tensor& to) { index_reduce_(to, 0, index, src, reduce); };
          const std::string words = explain([&] { call(x); });
          if (words.find(std::string("strategy     ") + strategy->name + ":") == std::string::npos)
            continue;
          ++tried[strategy->name];
          fail_each(
              std::string(strategy->name) + " " + name_of(reduce), tally, [&] { return x.clone(); },
              call, [](const Tensor& t) { return bytes_of({t}); });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GE(tried.size(), 8u);
  EXPECT_GT(tally.failures, 0);
}

// Gradients: every leaf has the old gradient or the new one, and all of them the same.
TEST(NoMemory, InGradientsOfEveryOperation) {
  Tally tally;
  for (const Case& one : all_cases()) {
    const auto fresh = [&] {
      TensorList leaves;
      for (const Tensor& input : one.inputs) {
        Tensor leaf = input.clone();
        if (is_differentiable(leaf.dtype())) {
          leaf.set_requires_grad();
          leaf.set_grad(Tensor::ones(leaf.shape(), leaf.dtype()));
        }
        leaves.push_back(leaf);
      }
      return leaves;
    };
    const auto call = [&](const TensorList& leaves) {
      const Tensor out = one.call(leaves);
      if (out.requires_grad()) out.backward(Tensor::ones(out.shape(), out.dtype()));
    };
    const auto state = [](const TensorList& leaves) {
      std::string bytes = bytes_of(leaves);
      for (const Tensor& leaf : leaves) {
        if (leaf.grad().defined()) append(bytes, leaf.grad());
      }
      return bytes;
    };
    fail_each(one.name, tally, fresh, call, state);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.failures, at_least(20 * tally.calls));
}

// An in-place form on a tensor of the graph: its values and what is recorded change together.
TEST(NoMemory, InRecordedInPlaceForms) {
  Tally tally;
  const Tensor index = keys({6}, 5), src = values({6, 3});
  const auto fresh = [&] {
    const Tensor leaf = values({5, 3}).set_requires_grad();
    return TensorList{leaf, leaf * 2.0};
  };
  for (const Reduce reduce : {Reduce::add, Reduce::mul, Reduce::amax, Reduce::mean}) {
    fail_each(
        "index_reduce_", tally, fresh,
        [&](const TensorList& t) { index_reduce_(t[1], 0, index, src, reduce); },
        [](const TensorList& t) {
          NoGrad guard;
          return bytes_of(t);
        });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.failures, 0);
}

// Building, planning, running, explaining and saving programs.
TEST(NoMemory, InProgramsOfEveryOperation) {
  Tally tally;
  for (const Case& one : all_cases()) {
    const bool known = tally.calls % 2 == 0;
    fail_each(
        "program of " + one.name, tally, [&] { return std::make_unique<Tensor>(); },
        [&](const std::unique_ptr<Tensor>& result) {
          const Program program = program_of(one, known);
          const CompiledProgram compiled(program);
          compiled(one.inputs);
          compiled(one.inputs);
          *result = compiled(one.inputs)[0];
        },
        [](const std::unique_ptr<Tensor>& result) {
          return result->defined() ? bytes_of({*result}) : std::string();
        });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.failures, at_least(20 * tally.calls));
}

// What is remembered for later calls may fail in silence.
TEST(NoMemory, InRecipes) {
  Tally tally;
  const Tensor index = keys({6}, 5), src = values({6, 3});
  fail_each(
      "recipe", tally,
      [] {
        return values({5, 3});
      },
      [&](const Tensor& x) {
        Recipe recipe;
        const TensorList arrays{x, index, src};
        recipe.watch(arrays, [&] { return index_add_(x, 0, index, src); });
      },
      [](const Tensor& x) { return bytes_of({x}); });
  if (!counts_operator_new()) return;  // none of these comes from the pool
  EXPECT_GT(tally.failures, 0);
  EXPECT_GT(tally.survived, 0) << "the recipe's own allocations fail in silence";
}

TEST(NoMemory, InHeldIndices) {
  Tally tally;
  for (const int64_t count : {5, 70000}) {
    const Tensor index = keys({count}, 500), src = values({count, 2});
    fail_each(
        "Index", tally,
        [] {
          return values({500, 2});
        },
        [&](const Tensor& x) {
          const Index held = Index::hold(index, 500);
          index_add_(x, 0, held, src);
        },
        [](const Tensor& x) { return bytes_of({x}); });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.failures, 0);
}

}  // namespace
}  // namespace sow::test

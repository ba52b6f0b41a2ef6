// SPDX-License-Identifier: Apache-2.0
// Every look for an interrupt gives up its call once: the destination is as it was, and the same
// call then does all that it would have done.
#include "sow/interrupt.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "program/cases.h"
#include "random_call.h"

namespace sow::test {
namespace {

struct Interrupted {};

int looks = 0, gives_up_at = 0;  // 0: never

void count_look() {
  if (++looks == gives_up_at) throw Interrupted();
}

// While one lives, the look with this number gives the call up.
class GiveUp {
 public:
  explicit GiveUp(int number) {
    looks = 0, gives_up_at = number;
    set_interrupt_look(count_look);
  }
  ~GiveUp() { set_interrupt_look(nullptr); }
};

std::string bytes_of(const TensorList& tensors) {
  std::string bytes;
  for (const Tensor& tensor : tensors) {
    const Tensor dense = tensor.clone();
    bytes.append(static_cast<const char*>(dense.data()), dense.nbytes());
  }
  return bytes;
}

// What became of it: "done", "given up", or what it complained about.
template <class F>
std::string ending_of(F&& f) {
  try {
    f();
    return "done";
  } catch (const Interrupted&) {
    return "given up";
  } catch (const Error& error) {
    return error.what();
  }
}

// Gives `call` up at each of its looks in turn; how many there were.
template <class Fresh, class Call, class State>
int give_up_at_each(const std::string& name, Fresh&& fresh, Call&& call, State&& state) {
  auto whole = fresh();
  const std::string before = state(whole);
  std::string expected;
  int count = 0;
  {
    const GiveUp never(0);
    expected = ending_of([&] { call(whole); });
    count = looks;
  }
  const std::string after = state(whole);
  for (int n = 1; n <= count; ++n) {
    auto things = fresh();
    {
      const GiveUp now(n);
      EXPECT_EQ(ending_of([&] { call(things); }), "given up") << name << ", look " << n;
    }
    EXPECT_TRUE(state(things) == before) << name << ", look " << n << ": something was written";
    EXPECT_EQ(ending_of([&] { call(things); }), expected) << name << ", after look " << n;
    EXPECT_TRUE(state(things) == after) << name << ", after look " << n;
  }
  return count;
}

TEST(Interrupt, InRandomCallsOfEveryFamily) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const RandomCall call{Draw(seed)};
    seen[call.name()] += give_up_at_each(
        call.name() + " with seed " + std::to_string(seed), [&] { return call.target(); },
        [&](const Tensor& x) { call.on(x); }, [](const Tensor& x) { return bytes_of({x}); });
    if (HasFailure()) return;
  }
  int64_t total = 0;
  for (const auto& [name, count] : seen) total += count;
  EXPECT_GE(seen.size(), 8u);
  EXPECT_GT(total, 400);
}

TEST(Interrupt, InGradientsOfEveryOperation) {
  int total = 0;
  for (const Case& one : all_cases()) {
    const auto fresh = [&] {
      TensorList leaves;
      for (const Tensor& input : one.inputs) {
        leaves.push_back(input.clone());
        if (is_differentiable(input.dtype())) leaves.back().set_requires_grad();
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
        if (leaf.grad().defined()) bytes += "grad " + bytes_of({leaf.grad()});
      }
      return bytes;
    };
    total += give_up_at_each(one.name, fresh, call, state);
    if (HasFailure()) return;
  }
  EXPECT_GT(total, 100);
}

TEST(Interrupt, InAProgram) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {5});
  const Tensor index = program.input("index", DType::int64, {4});
  program.output("y", index_add(x, 0, index, program.input("source", DType::float32, {4})));
  const CompiledProgram compiled(program);
  const TensorList feeds = {Tensor::ones({5}, DType::float32), Tensor::of<int64_t>({0, 1, 1, 4}),
                            Tensor::ones({4}, DType::float32)};
  const int count = give_up_at_each(
      "program", [] { return Tensor::zeros({5}, DType::float32); },
      [&](const Tensor& to) { compiled.run_into(feeds, {to}); },
      [](const Tensor& to) { return bytes_of({to}); });
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace sow::test

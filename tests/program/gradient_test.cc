// SPDX-License-Identifier: Apache-2.0
// Gradients inside a program: eager's bits, also of second order and with unknown extents.
#include <gtest/gtest.h>

#include "core/memory/memory.h"
#include "program/cases.h"
#include "program/counted_heap.h"

namespace sow::test {
namespace {

bool is_smooth(const Tensor& tensor) { return is_differentiable(tensor.dtype()); }

// The gradients of sum(f * f) with respect to every floating input.
TensorList eager_gradients(const Case& one) {
  TensorList leaves, wanted;
  for (const Tensor& input : one.inputs) {
    leaves.push_back(is_smooth(input) ? input.clone().set_requires_grad() : input);
    if (is_smooth(input)) wanted.push_back(leaves.back());
  }
  const Tensor y = one.call(leaves);
  return grad({sum(mul(y, y))}, wanted);
}

Program gradient_program(const Case& one, bool known) {
  Program program;
  TensorList symbols, wanted;
  for (const Tensor& input : one.inputs) {
    std::vector<Extent> shape;
    for (const int64_t extent : input.shape()) shape.push_back(known ? extent : int64_t{-1});
    std::string name = "x";
    name += std::to_string(symbols.size());
    symbols.push_back(program.input(name, input.dtype(), shape));
    if (is_smooth(input)) wanted.push_back(symbols.back());
  }
  const Tensor y = one.call(symbols);
  const TensorList gradients = program.gradients({sum(mul(y, y))}, wanted);
  for (size_t i = 0; i < gradients.size(); ++i) {
    std::string name = "g";
    name += std::to_string(i);
    program.output(name, gradients[i]);
  }
  return program;
}

std::vector<Case> differentiable_cases() {
  std::vector<Case> out;
  for (Case& one : all_cases()) {
    bool smooth = true;
    for (const char* whole : {"int32", "bitwise", "integers"}) {
      smooth = smooth && one.name.find(whole) == std::string::npos;
    }
    for (const char* constant : {"eq", "ne", "lt", "le", "gt", "ge", "nonzero"}) {
      smooth = smooth && one.name != constant && one.name != std::string(constant) + "_scalar";
    }
    if (smooth && is_smooth(one.call(one.inputs))) out.push_back(std::move(one));
  }
  return out;
}

class ProgramGradients : public testing::TestWithParam<Case> {};

TEST_P(ProgramGradients, HaveEagersBits) {
  const Case& one = GetParam();
  const TensorList expected = eager_gradients(one);
  const bool coordinates = one.name.find("_nd") != std::string::npos;
  for (const bool known : {true, false}) {
    if (coordinates && !known) continue;  // their number is part of the call
    const Program program = gradient_program(one, known);
    const CompiledProgram compiled(program), loaded(Program::deserialize(program.serialize()));
    for (int run = 0; run < 2; ++run) {
      const TensorList got = (run == 0 ? compiled : loaded)(one.inputs);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], expected[i])) << "input " << i << ":\n"
                                                    << got[i] << "\ninstead of\n"
                                                    << expected[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Program, ProgramGradients, testing::ValuesIn(differentiable_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ProgramGradient, OfSecondOrder) {
  const Tensor x = values({6}, DType::float64), index = keys({9}, 6),
               src = values({9}, DType::float64, 4);
  const Tensor leaf = x.clone().set_requires_grad();
  const auto loss_of = [](const Tensor& t, const Tensor& i, const Tensor& s) {
    return sum(pow(scatter_reduce(t, 0, i, s, "mul"), 2));
  };
  const Tensor first = grad({loss_of(leaf, index, src)}, {leaf}, {}, true)[0];
  const Tensor expected = grad({sum(mul(first, first))}, {leaf})[0];

  Program program;
  const Tensor a = program.input("a", DType::float64, {"n"});
  const Tensor i = program.input("i", DType::int64, {"m"});
  const Tensor s = program.input("s", DType::float64, {"m"});
  const Tensor g = program.gradients({loss_of(a, i, s)}, {a})[0];
  program.output("first", g);
  program.output("second", program.gradients({sum(mul(g, g))}, {a})[0]);
  const TensorList got = compile(program)({x, index, src});
  EXPECT_TRUE(same_bits(got[0], first.detach()));
  EXPECT_TRUE(same_bits(got[1], expected));
}

// Where several factors vanish, the first derivative is zero and the second is not.
TEST(ProgramGradient, OfSecondOrderWithZeros) {
  const Tensor x = Tensor::of({2.0, 3.0}), index = Tensor::of<int64_t>({0, 0, 1, 1, 1});
  const Tensor src = Tensor::of({0.0, 0.0, 5.0, 0.0, 7.0});
  const auto product_of = [](const Tensor& t, const Tensor& i, const Tensor& s) {
    return sum(scatter_reduce(t, 0, i, s, "mul"));
  };
  const Tensor weights = Tensor::of({1.0, 10.0, 100.0, 1000.0, 10000.0});
  const Tensor leaf = src.clone().set_requires_grad();
  const Tensor first = grad({product_of(x, index, leaf)}, {leaf}, {}, true)[0];
  const Tensor expected = grad({sum(mul(first, weights))}, {leaf})[0];
  Program program;
  const Tensor a = program.input("a", DType::float64, {2});
  const Tensor i = program.input("i", DType::int64, {5});
  const Tensor s = program.input("s", DType::float64, {5});
  const Tensor g = program.gradients({product_of(a, i, s)}, {s})[0];
  program.output("second", program.gradients({sum(mul(g, weights))}, {s})[0]);
  const Tensor got = compile(program)({x, index, src})[0];
  EXPECT_TRUE(same_bits(got, expected)) << got << expected;
  EXPECT_EQ(expected.to_vector<double>(),
            (std::vector<double>{20, 2, 21000, 300 * 7 + 30000 * 5, 15000}));
}

// One walk over each destination's updates, as in eager mode, in memory that was planned.
TEST(ProgramGradient, OfScattersIsOneWalkAndAllocatesNothing) {
  const int64_t n = 9000, places = 200, width = 70;
  const TensorList f = {values({places, width}), keys({n}, places),
                        values({n, width}, DType::float32, 3),
                        values({places, width}, DType::float32, 9)};
  for (const Reduce reduce : {Reduce::assign, Reduce::mean, Reduce::amax, Reduce::mul}) {
    for (const bool self : {true, false}) {
      if (!self && reduce == Reduce::assign) continue;
      const auto call = [&](const Tensor& x, const Tensor& i, const Tensor& s) {
        return index_reduce(x, 0, i, s, reduce, self);
      };
      const Tensor x = f[0].clone().set_requires_grad(), s = f[2].clone().set_requires_grad();
      const TensorList expected = grad({call(x, f[1], s)}, {x, s}, {f[3]});
      Program program;
      const Tensor a = program.input("a", DType::float32, {places, width});
      const Tensor i = program.input("i", DType::int64, {n});
      const Tensor b = program.input("b", DType::float32, {n, width});
      const Tensor g = program.input("g", DType::float32, {places, width});
      const Tensor y = call(a, i, b);
      const TensorList made = program.gradients({y}, {a, b}, {g});
      program.output("da", made[0]);
      program.output("db", made[1]);
      program.output("y", y);
      const CompiledProgram compiled(program);
      const std::string words = compiled.explain();
      EXPECT_NE(words.find("each destination's updates in one walk"), std::string::npos);
      EXPECT_NE(words.find("order the keys of"), std::string::npos) << words;
      const TensorList out = {Tensor::empty({places, width}, DType::float32),
                              Tensor::empty({n, width}, DType::float32),
                              Tensor::empty({places, width}, DType::float32)};
      compiled.run_into(f, out);
      EXPECT_TRUE(same_bits(out[0], expected[0])) << name_of(reduce) << self;
      EXPECT_TRUE(same_bits(out[1], expected[1])) << name_of(reduce) << self;
      EXPECT_TRUE(same_bits(out[2], call(f[0], f[1], f[2]))) << name_of(reduce) << self;
      const int64_t heap = heap_calls(), pool = detail::memory_stats().allocations;
      compiled.run_into(f, out);
      EXPECT_EQ(heap_calls() - heap, 0) << name_of(reduce);
      EXPECT_EQ(detail::memory_stats().allocations - pool, 0) << name_of(reduce);
      TensorList bad = f;
      bad[1] = Tensor::full({n}, places, DType::int64);
      EXPECT_EQ(message_of([&] { compiled(bad); }).find("index_reduce: index 200 at"), 0u);
    }
  }
}

// Keys are checked even where the result that they were for is not asked for.
TEST(ProgramGradient, ChecksTheKeysOfAWalkAlone) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {4});
  const Tensor i = program.input("i", DType::int64, {3});
  const Tensor b = program.input("b", DType::float32, {3});
  const Tensor y = scatter_reduce(a, 0, i, b, "mul");
  program.output("db", program.gradients({y}, {b}, {a})[0]);
  EXPECT_THROW(compile(program)({values({4}), Tensor::full({3}, 4, DType::int64), values({3})}),
               Error);
}

TEST(ProgramGradient, OfWhatIsNotReachedIsZero) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {"n"});
  const Tensor b = program.input("b", DType::float32, {"m"});
  program.output("db", program.gradients({sum(a)}, {b})[0]);
  EXPECT_EQ(compile(program)({values({3}), values({2})})[0].to_vector<float>(),
            (std::vector<float>{0, 0}));
}

TEST(ProgramGradient, OfValuesAndWithWeights) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {3});
  const Tensor w = program.input("w", DType::float32, {3});
  const Tensor middle = mul(a, a);
  const Tensor out = mul(middle, 3);
  const TensorList gradients = program.gradients({out}, {middle, a}, {w});
  program.output("middle", gradients[0]);
  program.output("a", gradients[1]);
  const TensorList got =
      compile(program)({Tensor::of({1.0f, 2.0f, 3.0f}), Tensor::of({1.0f, 0.0f, 2.0f})});
  EXPECT_EQ(got[0].to_vector<float>(), (std::vector<float>{3, 0, 6}));
  EXPECT_EQ(got[1].to_vector<float>(), (std::vector<float>{6, 0, 36}));
}

TEST(ProgramGradient, Refuses) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {3});
  const Tensor i = program.input("i", DType::int64, {3});
  EXPECT_THROW(program.gradients({a}, {a}), Error);
  EXPECT_THROW(program.gradients({sum(a)}, {i}), Error);
  EXPECT_THROW(program.gradients({i}, {a}), Error);
  EXPECT_THROW(program.gradients({sum(a)}, {a}, {a}), Error);
  // Known only when it runs.
  Program later;
  const Tensor b = later.input("b", DType::float32, {"n"});
  later.output("db", later.gradients({b}, {b})[0]);
  EXPECT_THROW(compile(later)({values({2})}), Error);
  EXPECT_EQ(compile(later)({values({1})})[0].to_vector<float>(), (std::vector<float>{1}));
}

// Eager gradients work on symbolic tensors, too.
TEST(ProgramGradient, ByRequiresGrad) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {"n"}).set_requires_grad();
  const Tensor loss = sum(mul(a, a));
  program.output("da", grad({loss}, {a})[0]);
  EXPECT_EQ(compile(program)({Tensor::of({1.0f, -2.0f})})[0].to_vector<float>(),
            (std::vector<float>{2, -4}));
  EXPECT_THROW(program.serialize(), Error);
}

}  // namespace
}  // namespace sow::test

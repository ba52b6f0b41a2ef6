// SPDX-License-Identifier: Apache-2.0
// Building programs: what is known of symbolic tensors, errors while building, print and pictures.
#include <gtest/gtest.h>

#include "program/cases.h"

namespace sow::test {
namespace {

TEST(ProgramBuild, SymbolicTensorsHaveTypeAndShapeButNoData) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", 4});
  EXPECT_TRUE(is_symbolic(x));
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_EQ(x.shape(), (Dims{-1, 4}));
  EXPECT_EQ(x.dim(), 2);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.to_string(), "symbolic float32 [?, 4]");
  EXPECT_EQ(sum(x, {1}).shape(), (Dims{-1}));
  EXPECT_EQ(message_of([&] { x.data(); }),
            "data: the tensor is symbolic: it has a type and a shape, and data only where its "
            "program runs");
  EXPECT_NE(message_of([&] { x.to_vector<float>(); }), "no error");
  EXPECT_NE(message_of([&] { Index::hold(program.input("i", DType::int64, {4}), 4); }), "no error");
}

TEST(ProgramBuild, EagerMessagesWhileBuilding) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", 4});
  const Tensor index = program.input("index", DType::int64, {"n", 4});
  const Tensor bad_mask = program.input("mask", DType::bool_, {"n", 3});
  const Tensor v = program.input("v", DType::float32, {"m"});
  const Tensor real = Tensor::zeros({2, 4}, DType::float32);
  const auto expect_same = [](auto&& symbolic, auto&& eager) {
    const std::string message = message_of(eager);
    EXPECT_NE(message, "no error");
    EXPECT_EQ(message_of(symbolic), message);
  };
  expect_same([&] { scatter_add(x, 0, v, x); },
              [&] { scatter_add(real, 0, Tensor::zeros({3}, DType::float32), real); });
  expect_same([&] { scatter_add(x, 5, index, x); },
              [&] {
                scatter_add(real, 5, Tensor::zeros({2, 4}, DType::int64), real);
              });
  expect_same([&] { scatter_add(x, 0, index, program.constant(to(real, DType::float64))); },
              [&] {
                scatter_add(real, 0, Tensor::zeros({2, 4}, DType::int64), to(real, DType::float64));
              });
  EXPECT_EQ(message_of([&] { masked_scatter(x, bad_mask, v); }),
            "masked_scatter: x [?, 4] and mask [?, 3] do not broadcast together");
  EXPECT_NE(message_of([&] { masked_scatter(x, x, v); }).find("a mask must be bool"),
            std::string::npos);
}

TEST(ProgramBuild, NamesAndOwners) {
  Program program, other;
  const Tensor x = program.input("x", DType::float32, {3});
  const Tensor y = other.input("y", DType::float32, {3});
  EXPECT_EQ(message_of([&] { program.input("x", DType::int64, {}); }),
            "input: there is an input \"x\" already");
  EXPECT_EQ(message_of([&] { program.input("z", DType::int64, {-2}); }),
            "input: \"z\" has an extent of -2; -1 or a name is unknown");
  EXPECT_EQ(message_of([&] { add(x, y); }), "add: the operands belong to different programs");
  EXPECT_EQ(message_of([&] { CompiledProgram{program}; }), "compile: the program has no output");
  program.output("out", x);
  EXPECT_EQ(message_of([&] { program.output("out", x); }),
            "output: there is an output \"out\" already");
  EXPECT_EQ(message_of([&] { compile(program, {.donate = {"w"}, .optimize = true}); }),
            "compile: there is no input \"w\" to donate");
}

TEST(ProgramBuild, StaysOnOneDevice) {
  Program program;
  program.output("y", program.input("x", DType::float32, {3}));
  program.input("z", DType::float32, {3}, {DeviceType::cuda, 1});
  EXPECT_EQ(message_of([&] { CompiledProgram{program}; }),
            "compile: tensors are on cpu and cuda:1; a program stays on one device");
}

TEST(ProgramBuild, ConstantsAreCopiedWhenTheyEnter) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {3});
  const Tensor weight = Tensor::of({1.0f, 2.0f, 3.0f});
  program.output("y", mul(x, weight));
  weight.fill_(0);
  const TensorList y = compile(program)({Tensor::of({1.0f, 1.0f, 2.0f})});
  EXPECT_EQ(y[0].to_vector<float>(), (std::vector<float>{1, 2, 6}));
}

TEST(ProgramBuild, CompiledProgramsDoNotGrow) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {3});
  program.output("y", add(x, 1));
  const CompiledProgram compiled(program);
  program.output("z", add(x, 2));
  EXPECT_EQ(compiled({Tensor::of({1.0f, 1.0f, 2.0f})}).size(), 1u);
}

TEST(ProgramBuild, PrintsWhatItDoes) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", 4});
  const Tensor index = program.input("index", DType::int64, {"n"});
  const Tensor w = program.constant(Tensor::ones({4}, DType::float32));
  const Tensor product = named(mul(x, w), "product");
  const Tensor loss = mean(index_add(product, 0, index, x), {}, false);
  program.output("loss", loss);
  program.output("dx", program.gradients({loss}, {x})[0]);
  EXPECT_EQ(program.to_string(),
            "program\n"
            "  input x                  float32 [n, 4]\n"
            "  input index              int64 [n]\n"
            "  constant %2              float32 [4]\n"
            "  product = mul(x, %2)   float32 [?, 4]\n"
            "  %4 = index_add(product, index, x, reduce=add)   float32 [?, 4]\n"
            "  %5 = mean(%4, reduce=mean)   float32 []\n"
            "  %6 = gradients([%5], [x])   float32 [?, 4]\n"
            "  output loss = %5\n"
            "  output dx = %6\n");
  const std::string dot = program.to_dot();
  EXPECT_EQ(dot.substr(0, 17), "digraph program {");
  EXPECT_NE(dot.find("index_add"), std::string::npos);
  EXPECT_NE(dot.find("-> o1"), std::string::npos);
}

}  // namespace
}  // namespace sow::test

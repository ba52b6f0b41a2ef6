// SPDX-License-Identifier: Apache-2.0
// Running programs: shapes, errors at run time, tensors of the caller's, donated inputs, threads.
#include <gtest/gtest.h>

#include <atomic>

#include "program/cases.h"
#include "test_threads.h"

namespace sow::test {
namespace {

// y = x with v under the mask, z = the rows of y summed by index.
Program two_outputs() {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", "d"});
  const Tensor mask = program.input("mask", DType::bool_, {"n", "d"});
  const Tensor v = program.input("v", DType::float32, {-1});
  const Tensor index = program.input("index", DType::int64, {"n"});
  const Tensor y = masked_scatter(x, mask, v);
  program.output("y", y);
  program.output("z", index_add(program.constant(Tensor::zeros({3, 1}, DType::float32)), 0, index,
                                sum(y, {1}, true)));
  return program;
}

TensorList feeds_for(int64_t n, int64_t d) {
  return {values({n, d}), mask({n, d}), values({n * d}, DType::float32, 5), keys({n}, 3)};
}

TensorList eagerly(const TensorList& f) {
  const Tensor y = masked_scatter(f[0], f[1], f[2]);
  return {y, index_add(Tensor::zeros({3, 1}, DType::float32), 0, f[3], sum(y, {1}, true))};
}

TEST(ProgramRun, UnknownExtentsOfSeveralSizes) {
  const CompiledProgram compiled(two_outputs());
  for (int round = 0; round < 2; ++round) {
    for (const int64_t n : {4, 0, 1, 100, 7}) {
      for (const int64_t d : {3, 1, 0}) {
        const TensorList feeds = feeds_for(n, d), expected = eagerly(feeds), got = compiled(feeds);
        EXPECT_TRUE(same_bits(got[0], expected[0])) << n << " " << d;
        EXPECT_TRUE(same_bits(got[1], expected[1])) << n << " " << d;
      }
    }
  }
}

TEST(ProgramRun, ByName) {
  const CompiledProgram compiled(two_outputs());
  const TensorList f = feeds_for(5, 2);
  const auto got = compiled.run({{"v", f[2]}, {"x", f[0]}, {"index", f[3]}, {"mask", f[1]}});
  EXPECT_TRUE(same_bits(got.at("z"), eagerly(f)[1]));
  EXPECT_EQ(message_of([&] {
              compiled.run({{"x", f[0]}, {"w", f[1]}});
            }),
            "run: there is no input \"w\"");
  EXPECT_EQ(message_of([&] { compiled.run({{"x", f[0]}}); }), "run: input \"mask\" is missing");
  EXPECT_EQ(message_of([&] { compiled.run({}, {{"q", f[0]}}); }), "run: there is no output \"q\"");
}

TEST(ProgramRun, FeedsMustFitTheirDeclaration) {
  const CompiledProgram compiled(two_outputs());
  TensorList f = feeds_for(5, 2);
  f[1] = mask({4, 2});
  EXPECT_EQ(message_of([&] { compiled(f); }),
            "run: extent \"n\" is 5 in input \"x\" but 4 in input \"mask\"");
  f[1] = mask({5});
  EXPECT_EQ(message_of([&] { compiled(f); }),
            "run: input \"mask\" has shape [5], but was declared [n, d]");
  f[1] = values({5, 2});
  EXPECT_EQ(message_of([&] { compiled(f); }),
            "run: input \"mask\" is float32, but was declared bool");
  EXPECT_EQ(message_of([&] { compiled({f[0]}); }),
            "run: 1 feeds for 4 inputs; there must be one for each");
}

TEST(ProgramRun, ValueErrorsAreEagers) {
  const CompiledProgram compiled(two_outputs());
  TensorList f = feeds_for(5, 2);
  f[3] = Tensor::of<int64_t>({0, 1, 3, 0, 0});
  EXPECT_EQ(message_of([&] { compiled(f); }), message_of([&] { eagerly(f); }));
  EXPECT_NE(message_of([&] { compiled(f); }).find("index_add: index 3 at position [2]"),
            std::string::npos);
  f = feeds_for(5, 2);
  f[2] = values({1});
  const std::string message = message_of([&] { compiled(f); });
  EXPECT_EQ(message, message_of([&] { eagerly(f); }));
  EXPECT_NE(message, "no error");
  // And the program goes on working.
  f = feeds_for(5, 2);
  EXPECT_TRUE(same_bits(compiled(f)[0], eagerly(f)[0]));
}

TEST(ProgramRun, ABadFedIndexLeavesTensorsOfTheCallersAlone) {
  const CompiledProgram compiled(two_outputs());
  TensorList f = feeds_for(5, 2);
  f[3] = Tensor::of<int64_t>({0, 1, -4, 0, 0});
  const Tensor y = Tensor::full({5, 2}, 7, DType::float32),
               z = Tensor::full({3, 1}, 8, DType::float32);
  EXPECT_THROW(compiled.run_into(f, {y, z}), Error);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(10, 7.0f));
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(3, 8.0f));
}

TEST(ProgramRun, WritesIntoTensorsOfTheCallers) {
  const CompiledProgram compiled(two_outputs());
  const TensorList f = feeds_for(6, 4), expected = eagerly(f);
  // Dense; strided; the memory of an input.
  const Tensor dense = Tensor::empty({6, 4}, DType::float32),
               z = Tensor::empty({3, 1}, DType::float32);
  compiled.run_into(f, {dense, z});
  EXPECT_TRUE(same_bits(dense, expected[0]));
  EXPECT_TRUE(same_bits(z, expected[1]));
  const Tensor strided = Tensor::zeros({4, 12}, DType::float32).transpose(0, 1).slice(0, 0, 12, 2);
  compiled.run_into(f, {strided, z});
  EXPECT_TRUE(same_bits(strided, expected[0]));
  const TensorList g = {f[0].clone(), f[1], f[2], f[3]};
  compiled.run_into(g, {g[0], z});
  EXPECT_TRUE(same_bits(g[0], expected[0]));
  EXPECT_TRUE(same_bits(z, expected[1]));

  EXPECT_EQ(message_of([&] {
              compiled.run_into(f, {z, z});
            }),
            "run: the tensors for outputs \"y\" and \"z\" share memory");
  EXPECT_EQ(message_of([&] {
              compiled.run_into(f, {Tensor::zeros({6, 3}, DType::float32), z});
            }),
            "run: output \"y\" has shape [6, 4], but the tensor for it has shape [6, 3]");
  EXPECT_EQ(message_of([&] {
              compiled.run_into(f, {Tensor::zeros({6, 4}, DType::int32), z});
            }),
            "run: output \"y\" is float32, but the tensor for it is int32");
  EXPECT_NE(message_of([&] {
              compiled.run_into(f, {Tensor::zeros({4}, DType::float32).broadcast_to({6, 4}), z});
            }).find("overlaps itself"),
            std::string::npos);
}

// Swapping two inputs through their own memory.
TEST(ProgramRun, ResultsMayLieInInputs) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {3});
  const Tensor b = program.input("b", DType::float32, {3});
  program.output("first", b);
  program.output("second", a);
  const Tensor x = Tensor::of({1.0f, 2.0f, 3.0f}), y = Tensor::of({4.0f, 5.0f, 6.0f});
  compile(program).run_into({x, y}, {x, y});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

Program one_step() {
  Program program;
  const Tensor w = program.input("w", DType::float32, {"n"});
  const Tensor index = program.input("index", DType::int64, {-1});
  const Tensor g = program.input("g", DType::float32, {-1});
  program.output("w", scatter_add(w, 0, index, g));
  return program;
}

TEST(ProgramRun, DonatedInputsAreUsedAgain) {
  const CompiledProgram plain(one_step()),
      donating(one_step(), {.donate = {"w"}, .optimize = true});
  const Tensor w = values({10}), index = keys({6}, 10), g = values({6}, DType::float32, 2);
  const Tensor expected = scatter_add(w, 0, index, g);
  EXPECT_EQ(plain.stats({{10}, {6}, {6}}).copies, 1);
  EXPECT_EQ(donating.stats({{10}, {6}, {6}}).copies, 0);
  const Tensor before = w.clone();
  EXPECT_TRUE(same_bits(plain({w, index, g})[0], expected));
  EXPECT_TRUE(same_bits(w, before));
  const Tensor result = donating({w, index, g})[0];
  EXPECT_TRUE(same_bits(result, expected));
  EXPECT_EQ(result.data(), w.data());
  // Into the donated memory, by name; and into other memory.
  const Tensor v = before.clone();
  donating.run_into({v, index, g}, {v});
  EXPECT_TRUE(same_bits(v, expected));
  const Tensor u = before.clone(), out = Tensor::empty({10}, DType::float32);
  donating.run_into({u, index, g}, {out});
  EXPECT_TRUE(same_bits(out, expected));
}

TEST(ProgramRun, DonatedMemoryThatIsSharedIsLeftAlone) {
  Program program;
  const Tensor a = program.input("a", DType::float32, {4});
  const Tensor b = program.input("b", DType::float32, {4});
  const Tensor filled = index_fill(a, 0, Tensor::of<int64_t>({1}), 9);
  program.output("y", filled);
  program.output("b", add(b, 0));
  const CompiledProgram compiled(program, {.donate = {"a"}, .optimize = true});
  const Tensor x = Tensor::of({1.0f, 2.0f, 3.0f, 4.0f});
  const TensorList got = compiled({x, x});
  EXPECT_EQ(got[0].to_vector<float>(), (std::vector<float>{1, 9, 3, 4}));
  EXPECT_EQ(got[1].to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  const Tensor frozen = Tensor::wrap({.data = x.data(),
                                      .dtype = DType::float32,
                                      .shape = {4},
                                      .strides = std::nullopt,
                                      .device = {},
                                      .read_only = true,
                                      .deleter = {}});
  EXPECT_EQ(compiled({frozen, values({4})})[0].to_vector<float>(),
            (std::vector<float>{1, 9, 3, 4}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(ProgramRun, ManyThreadsAtOnce) {
  const CompiledProgram compiled(two_outputs());
  std::atomic<int> wrong{0};
  run_in_threads(8, [&](int t) {
    for (int round = 0; round < 50; ++round) {
      TensorList f = feeds_for(3 + (t + round) % 3, 5);
      f[0] = values(f[0].shape(), DType::float32, 100 * t + round);
      const TensorList expected = eagerly(f), got = compiled(f);
      if (!same_bits(got[0], expected[0]) || !same_bits(got[1], expected[1])) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ProgramRun, MorePlansThanAreKept) {
  const CompiledProgram compiled(two_outputs());
  for (int64_t n = 1; n < 150; ++n) {
    const TensorList f = feeds_for(n, 1);
    EXPECT_TRUE(same_bits(compiled(f)[1], eagerly(f)[1])) << n;
  }
}

TEST(ProgramRun, WithoutInputs) {
  Program program;
  const Tensor c = program.constant(Tensor::of({1.0f, 2.0f}));
  program.output("y", add(c, 1));
  program.output("c", c);
  const TensorList got = compile(program)({});
  EXPECT_EQ(got[0].to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(got[1].to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_FALSE(got[1].same_storage(compile(program)({})[1]));
}

// What a mask selects flows on through calls whose shapes nobody knew.
TEST(ProgramRun, ShapesThatDependOnData) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n"});
  const Tensor m = program.input("m", DType::bool_, {"n"});
  const Tensor before = mul(x, 2);
  const Tensor chosen = masked_select(before, m);
  program.output("chosen", chosen);
  program.output("total", sum(chosen));
  program.output("positions", nonzero(m));
  program.output("before", scatter_add_(before, 0, Tensor::of<int64_t>({0}), Tensor::of({1.0f})));
  const CompiledProgram compiled(program);
  for (const int64_t n : {3, 10, 1}) {
    const Tensor a = values({n}), b = mask({n}, n);
    const TensorList got = compiled({a, b});
    const Tensor twice = mul(a, 2), picked = masked_select(twice, b);
    EXPECT_TRUE(same_bits(got[0], picked));
    EXPECT_TRUE(same_bits(got[1], sum(picked)));
    EXPECT_TRUE(same_bits(got[2], nonzero(b)));
    EXPECT_TRUE(
        same_bits(got[3], scatter_add(twice, 0, Tensor::of<int64_t>({0}), Tensor::of({1.0f}))));
  }
}

}  // namespace
}  // namespace sow::test

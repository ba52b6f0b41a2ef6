// SPDX-License-Identifier: Apache-2.0
// What compiling saves: copies, passes over memory, allocations.
#include <gtest/gtest.h>

#include "core/memory/memory.h"
#include "program/cases.h"
#include "program/counted_heap.h"

namespace sow::test {
namespace {

constexpr int64_t kPlaces = 1000, kUpdates = 400;

Tensor three_scatters(const Tensor& x, const Tensor& index, const Tensor& src) {
  Tensor y = scatter(x, 0, index, 2.5);
  y = scatter_add(y, 0, index, src);
  return scatter_reduce(y, 0, index, src, "amax");
}

Program chain() {
  Program program;
  const Tensor x = program.input("x", DType::float32, {kPlaces});
  const Tensor index = program.input("index", DType::int64, {kUpdates});
  const Tensor src = program.input("src", DType::float32, {kUpdates});
  program.output("y", three_scatters(x, index, src));
  return program;
}

TEST(ProgramOptimize, ThreeChainedScattersMakeOneCopy) {
  const CompiledProgram compiled(chain()), as_written(chain(), {.donate = {}, .optimize = false});
  EXPECT_EQ(compiled.stats().copies, 1);
  EXPECT_EQ(compiled.stats().steps, 4);
  EXPECT_EQ(as_written.stats().copies, 3);
  EXPECT_EQ(as_written.stats().bytes_moved - compiled.stats().bytes_moved, 2 * 2 * 4 * kPlaces);
  const std::string text = compiled.explain();
  EXPECT_EQ(text.find("4 steps, 1 of them copies"), 0u) << text;
  EXPECT_NE(text.find("strategy"), std::string::npos);
  EXPECT_NE(text.find("into         output 0"), std::string::npos) << text;
  // Everything happens in the result's memory: there is no arena but workspace.
  EXPECT_LT(compiled.stats().arena_bytes, as_written.stats().arena_bytes);
}

TEST(ProgramOptimize, AValueThatIsReadLaterIsCopied) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {kPlaces});
  const Tensor index = program.input("index", DType::int64, {kUpdates});
  const Tensor src = program.input("src", DType::float32, {kUpdates});
  const Tensor y = scatter_add(x, 0, index, src);
  const Tensor z = scatter(y, 0, index, 2.5);
  program.output("y", y);
  program.output("z", z);
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.stats().copies, 2);
  const TensorList f = {values({kPlaces}), keys({kUpdates}, kPlaces), values({kUpdates})};
  const TensorList got = compiled(f);
  const Tensor expected = scatter_add(f[0], 0, f[1], f[2]);
  EXPECT_TRUE(same_bits(got[0], expected));
  EXPECT_TRUE(same_bits(got[1], scatter(expected, 0, f[1], 2.5)));
}

// A view shares the memory of its base: what is written into it is seen there, and the value that
// was taken before stays what it was.
TEST(ProgramOptimize, InPlaceOnAViewWritesItsBase) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {3, 4});
  const Tensor base = add(x, 1);
  const Tensor row = select(base, 0, 1);
  const Tensor column = slice(base, 1, 0, 2), before = mul(row, 1);
  EXPECT_TRUE(row.index_fill_(0, Tensor::of<int64_t>({0, 2}), 7).same_object(row));
  program.output("row", row);
  program.output("base", base);
  program.output("column", column);
  program.output("before", before);
  const Tensor x0 = values({3, 4});
  const TensorList got = compile(program)({x0});
  const Tensor base0 = add(x0, 1), row0 = select(base0, 0, 1), before0 = mul(row0, 1);
  row0.index_fill_(0, Tensor::of<int64_t>({0, 2}), 7);
  EXPECT_TRUE(same_bits(got[0], row0));
  EXPECT_TRUE(same_bits(got[1], base0));
  EXPECT_TRUE(same_bits(got[2], slice(base0, 1, 0, 2)));
  EXPECT_TRUE(same_bits(got[3], before0));
}

TEST(ProgramOptimize, InPlaceOnTheLastViewWritesOnlyThere) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {3, 4});
  const Tensor base = add(x, 1);
  const Tensor other = select(base, 0, 2);
  const Tensor changed = fill_diagonal(slice(base, 0, 0, 2), 7);
  program.output("changed", changed);
  program.output("other", other);
  const Tensor x0 = values({3, 4});
  const TensorList got = compile(program)({x0});
  EXPECT_TRUE(same_bits(got[0], fill_diagonal(slice(add(x0, 1), 0, 0, 2), 7)));
  EXPECT_TRUE(same_bits(got[1], select(add(x0, 1), 0, 2)));
}

TEST(ProgramOptimize, AnOperandThatIsTheDestinationIsReadFirst) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {8});
  const Tensor y = mul(x, 3);
  program.output("z", scatter_add(y, 0, program.input("i", DType::int64, {8}), y));
  const Tensor x0 = values({8}), i0 = keys({8}, 8), y0 = mul(x0, 3);
  EXPECT_TRUE(same_bits(compile(program)({x0, i0})[0], scatter_add(y0, 0, i0, y0)));
}

// Message passing: rows are gathered and summed without being written in between.
TEST(ProgramOptimize, AGatherThatFeedsAScatterIsOneStep) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {500, 16});
  const Tensor from = program.input("from", DType::int64, {4000});
  const Tensor into = program.input("into", DType::int64, {4000});
  const Tensor zeros = program.constant(Tensor::zeros({500, 16}, DType::float32));
  program.output("y", index_add(zeros, 0, into, index_select(x, 0, from)));
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.stats().fused, 1);
  EXPECT_EQ(compiled.stats().steps, 2);
  const TensorList f = {values({500, 16}), keys({4000}, 500), keys({4000}, 500, DType::int64, 9)};
  const Tensor expected =
      index_add(Tensor::zeros({500, 16}, DType::float32), 0, f[2], index_select(f[0], 0, f[1]));
  EXPECT_TRUE(same_bits(compiled(f)[0], expected));
  // Bad indices are named after the call they were given to.
  TensorList bad = f;
  bad[1] = Tensor::full({4000}, 500, DType::int64);
  try {
    compiled(bad);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("index_select: index 500 at position [0]"), 0u);
  }
}

TEST(ProgramOptimize, AConstantIndexIsOrderedOnce) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {50, 64});
  const Tensor src = program.input("src", DType::float32, {400, 64});
  const Tensor index = keys({400}, 50);
  program.output("y", index_add(x, 0, index, src));
  const CompiledProgram compiled(program);
  EXPECT_NE(compiled.explain().find("held: ordered once"), std::string::npos);
  EXPECT_EQ(compiled.explain().find("check the index"), std::string::npos);
  const TensorList f = {values({50, 64}), values({400, 64})};
  EXPECT_TRUE(same_bits(compiled(f)[0], index_add(f[0], 0, index, f[1])));
}

TEST(ProgramOptimize, WhatNobodyReadsIsLeftOut) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {50});
  mul(add(x, 1), x);
  program.output("y", add(x, 2));
  EXPECT_EQ(compile(program).stats().steps, 1);
}

TEST(ProgramOptimize, WhatIsOverwrittenUnseenIsLeftOut) {
  const auto calls = [](const Tensor& x, const Tensor& index, const Tensor& src) {
    Tensor y = scatter_add(x, 0, index, src);
    y = scatter_reduce(y, 0, index, src, "amax");
    return index_copy(y, 0, index, src);
  };
  Program program;
  const Tensor x = program.input("x", DType::float32, {kPlaces});
  const Tensor index = program.input("index", DType::int64, {kUpdates});
  const Tensor src = program.input("src", DType::float32, {kUpdates});
  program.output("y", calls(x, index, src));
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.stats().steps, 2) << compiled.explain();
  EXPECT_NE(compiled.explain().find("2 left out: all they wrote was overwritten"),
            std::string::npos);
  const TensorList f = {values({kPlaces}), keys({kUpdates}, kPlaces), values({kUpdates})};
  EXPECT_TRUE(same_bits(compiled(f)[0], calls(f[0], f[1], f[2])));
  // The first call that was given the bad key complains, also when it writes nothing.
  try {
    compiled({f[0], Tensor::full({kUpdates}, kPlaces, DType::int64), f[2]});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("scatter_add: index 1000 at position [0]"), 0u);
  }
}

TEST(ProgramOptimize, WhatSomebodySeesIsNotLeftOut) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {kPlaces});
  const Tensor index = program.input("index", DType::int64, {kUpdates});
  const Tensor other = program.input("other", DType::int64, {kUpdates});
  const Tensor src = program.input("src", DType::float32, {kUpdates});
  const Tensor seen = scatter_add(x, 0, index, src);
  program.output("seen", index_select(seen, 0, other));
  program.output("same", index_copy(seen, 0, index, src));
  program.output("other", index_copy(scatter_add(x, 0, index, src), 0, other, src));
  program.output("max", scatter_reduce(scatter_add(x, 0, index, src), 0, index, src, "amax"));
  const TensorList f = {values({kPlaces}), keys({kUpdates}, kPlaces),
                        keys({kUpdates}, kPlaces, DType::int64, 7), values({kUpdates})};
  const TensorList got = CompiledProgram(program)(f);
  const Tensor added = scatter_add(f[0], 0, f[1], f[3]);
  EXPECT_TRUE(same_bits(got[0], index_select(added, 0, f[2])));
  EXPECT_TRUE(same_bits(got[1], index_copy(added, 0, f[1], f[3])));
  EXPECT_TRUE(same_bits(got[2], index_copy(added, 0, f[2], f[3])));
  EXPECT_TRUE(same_bits(got[3], scatter_reduce(added, 0, f[1], f[3], "amax")));
}

TEST(ProgramOptimize, ACallMadeTwiceIsMadeOnce) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {kPlaces});
  const Tensor index = program.input("index", DType::int64, {kUpdates});
  const Tensor src = program.input("src", DType::float32, {kUpdates});
  const Tensor once = scatter_add(x, 0, index, src), again = scatter_add(x, 0, index, src);
  program.output("y", mul(once, mul(again, 2.0)));
  program.output("z", mul(again, 3.0));
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.stats().steps, 2 + 3) << compiled.explain();
  const TensorList f = {values({kPlaces}), keys({kUpdates}, kPlaces), values({kUpdates})};
  const Tensor added = scatter_add(f[0], 0, f[1], f[2]);
  EXPECT_TRUE(same_bits(compiled(f)[0], mul(added, mul(added, 2.0))));
  EXPECT_TRUE(same_bits(compiled(f)[1], mul(added, 3.0)));
}

// Each element's place is written after it was read, so that one block of memory is enough.
TEST(ProgramOptimize, ElementwiseCallsRunWhereADyingOperandLies) {
  const auto calls = [](const Tensor& x) {
    Tensor y = sub(mul(add(x, 1.0), 0.5), x);
    y = mul(y, y);
    return where(gt(y, 0.25), y, x);
  };
  Program program;
  program.output("y", calls(program.input("x", DType::float32, {30, 20})));
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.stats().arena_bytes, 640) << compiled.explain();  // the condition
  const Tensor x = values({30, 20});
  EXPECT_TRUE(same_bits(compiled({x})[0], calls(x)));
}

TEST(ProgramOptimize, ElementwiseCallsDoNotRunOnWhatIsReadInAnotherOrder) {
  const auto calls = [](const Tensor& x) {
    const Tensor y = add(x, 1.0);
    return add(y, y.transpose(0, 1));
  };
  Program program;
  program.output("y", calls(program.input("x", DType::float32, {9, 9})));
  const Tensor x = values({9, 9});
  EXPECT_TRUE(same_bits(CompiledProgram(program)({x})[0], calls(x)));
}

TEST(ProgramOptimize, LaterRunsAllocateNothing) {
  Program program = chain();
  const CompiledProgram compiled(program, {.donate = {}, .optimize = true});
  const TensorList f = {values({kPlaces}), keys({kUpdates}, kPlaces), values({kUpdates})};
  const TensorList out = {Tensor::empty({kPlaces}, DType::float32)};
  compiled.run_into(f, out);
  const int64_t heap = heap_calls(), pool = detail::memory_stats().allocations;
  for (int run = 0; run < 5; ++run) compiled.run_into(f, out);
  EXPECT_EQ(heap_calls() - heap, 0);
  EXPECT_EQ(detail::memory_stats().allocations - pool, 0);
  EXPECT_TRUE(same_bits(out[0], three_scatters(f[0], f[1], f[2])));
  // Without tensors of the caller's, results are all that is allocated.
  compiled(f);
  const int64_t before = detail::memory_stats().allocations;
  compiled(f);
  EXPECT_EQ(detail::memory_stats().allocations - before, 1);
}

TEST(ProgramOptimize, ATrainingStepAllocatesNothing) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", 4});
  const Tensor w = program.input("w", DType::float32, {4, 3});
  const Tensor mask = program.input("mask", DType::bool_, {"n", 3});
  const Tensor v = program.input("v", DType::float32, {-1});
  const Tensor hidden = sum(mul(reshape(x, {-1, 4, 1}), w), {1});
  const Tensor loss = mean(masked_scatter(hidden, mask, v));
  const Tensor dw = program.gradients({loss}, {w})[0];
  program.output("loss", loss);
  program.output("w", sub(w, mul(dw, 0.5)));
  const CompiledProgram compiled(program, {.donate = {"w"}, .optimize = true});
  const TensorList f = {values({6, 4}), values({4, 3}), sow::test::mask({6, 3}), values({18})};
  const TensorList out = {Tensor::empty({}, DType::float32), f[1]};
  compiled.run_into(f, out);
  const int64_t heap = heap_calls(), pool = detail::memory_stats().allocations;
  for (int run = 0; run < 5; ++run) compiled.run_into(f, out);
  EXPECT_EQ(heap_calls() - heap, 0);
  EXPECT_EQ(detail::memory_stats().allocations - pool, 0);
}

}  // namespace
}  // namespace sow::test

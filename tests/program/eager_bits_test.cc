// SPDX-License-Identifier: Apache-2.0
// Every operation and reduction gives in a program what it gives eagerly, bit for bit.
#include <gtest/gtest.h>

#include <set>

#include "ops/defs.h"
#include "program/cases.h"
#include "program/graph.h"
#include "program/op_table.h"

namespace sow::test {
namespace {

class EagerBits : public testing::TestWithParam<Case> {};

TEST_P(EagerBits, KnownExtents) {
  const Case& one = GetParam();
  const Tensor expected = one.call(one.inputs);
  TensorList copies;
  for (const Tensor& input : one.inputs) copies.push_back(input.clone());
  const CompiledProgram compiled(program_of(one, true));
  for (int run = 0; run < 2; ++run) {
    const TensorList got = compiled(one.inputs);
    EXPECT_TRUE(same_bits(got[0], expected)) << got[0] << "\ninstead of\n" << expected;
  }
  for (size_t i = 0; i < copies.size(); ++i) EXPECT_TRUE(same_bits(copies[i], one.inputs[i]));
}

TEST_P(EagerBits, UnknownExtents) {
  const Case& one = GetParam();
  if (one.name.find("_nd") != std::string::npos && one.name.find("nonzero") == std::string::npos) {
    // How many coordinates an index holds is part of the call.
    EXPECT_THROW(program_of(one, false), Error);
    return;
  }
  const Tensor expected = one.call(one.inputs);
  const TensorList got = CompiledProgram(program_of(one, false))(one.inputs);
  EXPECT_TRUE(same_bits(got[0], expected)) << got[0] << "\ninstead of\n" << expected;
}

TEST_P(EagerBits, StridedInputs) {
  const Case& one = GetParam();
  TensorList strided;
  for (const Tensor& input : one.inputs) {
    Tensor x = input;
    for (int d = 0; d < x.dim(); ++d) x = x.flip(d);
    x = x.clone();
    for (int d = 0; d < x.dim(); ++d) x = x.flip(d);
    strided.push_back(x);
  }
  const Tensor expected = one.call(one.inputs);
  const TensorList got = CompiledProgram(program_of(one, true))(strided);
  EXPECT_TRUE(same_bits(got[0], expected)) << got[0] << "\ninstead of\n" << expected;
}

TEST_P(EagerBits, AsWritten) {
  const Case& one = GetParam();
  CompileOptions options;
  options.optimize = false;
  const TensorList got = CompiledProgram(program_of(one, true), options)(one.inputs);
  EXPECT_TRUE(same_bits(got[0], one.call(one.inputs)));
}

TEST_P(EagerBits, SavedAndLoaded) {
  const Case& one = GetParam();
  const Program program = program_of(one, true);
  const Program loaded = Program::deserialize(program.serialize());
  EXPECT_EQ(loaded.serialize(), program.serialize());
  const TensorList got = CompiledProgram(loaded)(one.inputs);
  EXPECT_TRUE(same_bits(got[0], one.call(one.inputs)));
}

INSTANTIATE_TEST_SUITE_P(Program, EagerBits, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

// Every operation that a program can be saved with is in the table of cases; the others are those
// that only gradient rules use.
TEST(EagerBitsTable, HasEveryOperation) {
  std::set<std::string> used;
  const auto collect = [&used](const Program& program) {
    for (const detail::GraphNode& node : program.graph()->nodes) used.insert(node.op->name);
  };
  for (const Case& one : all_cases()) {
    collect(program_of(one, true));
    if (one.name == "put_along_no_axis") collect(program_of(one, false));
  }
  // Where a batch is as long as nobody knows, its positions are worked out in the program.
  Program batches;
  const Tensor x = batches.input("x", DType::float32, {-1, -1});
  batches.output("y", gather_nd(x, batches.input("i", DType::int64, {-1, 1}), 1));
  collect(batches);
  const Tensor x0 = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  const Tensor i0 = Tensor::of<int64_t>({1, -2}, {2, 1});
  const Program loaded = Program::deserialize(batches.serialize());
  EXPECT_EQ(compile(loaded)({x0, i0})[0].to_vector<float>(), (std::vector<float>{2, 3}));
  const std::set<std::string> internal = {"full_like",       "sum_to",       "expand_like",
                                          "share_among",     "corner_like",  "pad_like",
                                          "share",           "same",         "vanish",
                                          "masked_compress", "product_gate", "product_limit",
                                          "product_checked", "segment_ids"};
  for (const detail::OpDef* op : detail::all_ops()) {
    const bool is_internal = internal.count(op->name) != 0;
    EXPECT_EQ(detail::find_saved_op(op->name) == nullptr, is_internal) << op->name;
    EXPECT_NE(used.count(op->name) == 0, !is_internal) << op->name;
  }
}

}  // namespace
}  // namespace sow::test

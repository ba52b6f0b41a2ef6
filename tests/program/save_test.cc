// Saving and loading: the same program comes back, and whatever is damaged is refused.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "program/cases.h"
#include "program/save.h"

namespace sow::test {
namespace {

Program example() {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", 4});
  const Tensor mask = program.input("mask", DType::bool_, {"n", 4});
  const Tensor v = program.input("v", DType::float32, {-1});
  const Tensor weight = program.constant(values({4}, DType::float32, 8));
  const Tensor y = named(masked_scatter_(mul(x, weight), mask, v), "y");
  const Tensor index = program.constant(Tensor::of<int64_t>({0, 3, -1}));
  const Tensor z = index_fill(y, 1, Index(index, Bounds::clip), 2.5);
  const Tensor loss = mean(z);
  program.output("loss", loss);
  program.output("dx", program.gradients({loss}, {x})[0]);
  return program;
}

TensorList feeds() { return {values({3, 4}), mask({3, 4}), values({12})}; }

TEST(ProgramSave, ComesBackTheSame) {
  const Program program = example(), loaded = Program::deserialize(program.serialize());
  EXPECT_EQ(loaded.serialize(), program.serialize());
  EXPECT_EQ(loaded.input_names(), program.input_names());
  EXPECT_EQ(loaded.output_names(), program.output_names());
  const TensorList expected = compile(program)(feeds()), got = compile(loaded)(feeds());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i]));
}

TEST(ProgramSave, ThroughAFile) {
  const std::string path = testing::TempDir() + "sow_program_test.sow";
  example().save(path);
  EXPECT_EQ(Program::load(path).serialize(), example().serialize());
  std::remove(path.c_str());
  EXPECT_NE(message_of([&] { Program::load(path); }).find("could not be read"), std::string::npos);
}

TEST(ProgramSave, RefusesWhatIsDamaged) {
  const std::string good = example().serialize();
  EXPECT_EQ(message_of([] { Program::deserialize(""); }), "load: this is not a program of sow");
  EXPECT_EQ(message_of([] { Program::deserialize("PK\x03\x04 something else"); }),
            "load: this is not a program of sow");
  std::string newer = good;
  newer[8] = 2;
  EXPECT_EQ(message_of([&] { Program::deserialize(newer); }),
            "load: the file has version 2, and this sow reads version 1");
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(message_of([&] { Program::deserialize(good.substr(0, length)); }), "no error");
  }
  EXPECT_NE(message_of([&] { Program::deserialize(good + "x"); }), "no error");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_NE(message_of([&] { Program::deserialize(flipped); }), "no error") << at;
  }
}

// Behind the checksum: whatever a byte is changed to, there is an Error or a program that can be
// printed, planned and run.
TEST(ProgramSave, SurvivesEveryChangedByte) {
  const std::string good = detail::write_graph(*example().graph());
  int accepted = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int change : {1, 0x10, 0x80, 0xff}) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ change);
      try {
        const auto graph = detail::read_graph(changed);
        ++accepted;
        detail::read_graph(detail::write_graph(*graph));
      } catch (const Error&) {
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

// A file cannot vouch for its indices.
TEST(ProgramSave, APromiseIsCheckedOnceLoaded) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {3});
  const Tensor i = program.input("i", DType::int64, {1});
  program.output("y", index_fill(x, 0, Index(i, Bounds::promise), 1));
  const CompiledProgram loaded(Program::deserialize(program.serialize()));
  EXPECT_EQ(message_of([&] { loaded({values({3}), Tensor::of<int64_t>({5})}); })
                .find("index_fill: index 5"),
            0u);
}

}  // namespace
}  // namespace sow::test

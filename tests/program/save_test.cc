// SPDX-License-Identifier: Apache-2.0
// Saving and loading: the same program comes back, and whatever is damaged is refused.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
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

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whatever fails, what was there is there still, and nothing lies beside it.
TEST(ProgramSave, ReplacesAFileOrLeavesIt) {
  const std::string folder = testing::TempDir() + "sow_save_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/program.sow", link = folder + "/link.sow";
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  };
  std::ofstream(path) << "before";
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  // A limit on the size of files makes the write fail, as a full disk would.
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{64, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string message = message_of([&] { example().save(path); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("could not be written"), std::string::npos) << message;
  EXPECT_EQ(bytes_of(path), "before");
  EXPECT_EQ(files(), 1);

  std::filesystem::create_symlink("program.sow", link);
  example().save(link);
  EXPECT_EQ(bytes_of(path), example().serialize());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(files(), 2);
  EXPECT_NE(message_of([&] { example().save(folder); }), "no error");
  EXPECT_NE(message_of([&] { example().save(folder + "/none/program.sow"); }), "no error");
  EXPECT_NE(message_of([] { example().save("/dev/full"); }).find("No space"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(files(), 2);
  std::filesystem::remove_all(folder);
}

TEST(ProgramSave, APathIsNotCut) {
  const std::string path = testing::TempDir() + std::string("sow_cut\0.sow", 12);
  EXPECT_NE(message_of([&] { example().save(path); }).find("null byte"), std::string::npos);
  EXPECT_NE(message_of([&] { Program::load(path); }).find("null byte"), std::string::npos);
}

// What never ends, or claims to be longer than it is, is read no further than it has to be.
TEST(ProgramSave, ReadsNoMoreThanItsOwnSize) {
  EXPECT_EQ(message_of([] { Program::load("/dev/zero"); }), "load: this is not a program of sow");
  EXPECT_EQ(message_of([] { Program::load("/dev/null"); }), "load: this is not a program of sow");
  const std::string path = testing::TempDir() + "sow_program_long.sow",
                    good = example().serialize();
  for (const char top : {'\x10', '\x7f', '\xff'}) {
    std::string huge = good;
    huge[19] = top;  // of the size
    std::ofstream(path, std::ios::binary) << huge;
    EXPECT_NE(message_of([&] { Program::load(path); }).find("it says that it has"),
              std::string::npos);
  }
  std::ofstream(path, std::ios::binary) << good << "x";
  EXPECT_NE(message_of([&] { Program::load(path); }).find("follows its end"), std::string::npos);
  std::filesystem::resize_file(path, good.size() - 1);
  EXPECT_NE(message_of([&] { Program::load(path); }), "no error");
  std::remove(path.c_str());
}

// Gradients of gradients multiply: a small file asks for no more than a bounded number of calls.
TEST(ProgramSave, NestedGradientsAreBounded) {
  const auto nested = [](int levels) {
    Program program;
    const Tensor x = program.input("x", DType::float32, {3});
    Tensor y = div(x, add(mul(x, x), x));
    for (int level = 0; level < levels; ++level) y = program.gradients({sum(y)}, {x})[0];
    program.output("y", y);
    return Program::deserialize(program.serialize());
  };
  EXPECT_EQ(compile(nested(5))({values({3})}).size(), 1u);
  const Program program = nested(30);
  EXPECT_LT(program.serialize().size(), 8192u);
  EXPECT_NE(message_of([&] { compile(program)({values({3})}); }).find("gradients multiply"),
            std::string::npos);
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
  EXPECT_EQ(message_of([&] {
              loaded({values({3}), Tensor::of<int64_t>({5})});
            }).find("index_fill: index 5"),
            0u);
}

}  // namespace
}  // namespace sow::test

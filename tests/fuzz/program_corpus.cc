// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of program_fuzz: tests/fuzz/corpus/program_fuzz is what it made. Every
// operation is in one of them, with known and with unknown extents, and gradients of them.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/program_input.h"
#include "program/cases.h"
#include "program/save.h"

namespace {

using namespace sow;

// One name for the cases that differ in their numbers alone.
std::string kind_of(const test::Case& one) {
  std::string name = one.name;
  for (const char* type : {"_float32", "_bfloat16", "_int32"}) {
    const size_t at = name.find(type);
    if (at != std::string::npos) name.erase(at);
  }
  return name;
}

// y and its gradients, where it has any.
bool add_gradients(Program& program, const test::Case& one) {
  TensorList inputs, targets;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    std::vector<Extent> shape;
    for (const int64_t extent : one.inputs[i].shape()) shape.emplace_back(extent);
    const DType dtype = one.inputs[i].dtype();
    inputs.push_back(program.input("x" + std::to_string(i), dtype, shape));
    if (is_floating(dtype)) targets.push_back(inputs.back());
  }
  const Tensor y = one.call(inputs);
  if (targets.empty() || !is_floating(y.dtype())) return false;
  const TensorList grads = program.gradients({sum(mul(y, y))}, targets);
  for (size_t i = 0; i < grads.size(); ++i) program.output("g" + std::to_string(i), grads[i]);
  return true;
}

class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }
  void write(const std::string& name, const Program& program) {
    const std::string graph = detail::write_graph(*program.graph());
    if (graph.size() > 4096) return;
    std::ofstream(path_ / (name + ".bin"), std::ios::binary) << test::join_input(++seed_, graph);
  }
  int count() const { return seed_; }

 private:
  std::filesystem::path path_;
  uint16_t seed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "program_corpus FOLDER: writes the first inputs of program_fuzz there\n");
    return 2;
  }
  Folder folder(argv[1]);
  std::set<std::string> seen;
  bool known = false;
  for (const test::Case& one : test::all_cases()) {
    const std::string kind = kind_of(one);
    if (!seen.insert(kind).second) continue;
    known = !known;
    try {
      folder.write(kind, test::program_of(one, known));
    } catch (const Error&) {
      folder.write(kind, test::program_of(one, true));  // some calls need to know their extents
    }
    if (seen.size() % 4 != 0) continue;
    Program program;
    if (add_gradients(program, one)) folder.write(kind + "_gradients", program);
  }
  std::printf("%d programs\n", folder.count());
  return 0;
}

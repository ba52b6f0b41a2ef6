// SPDX-License-Identifier: Apache-2.0
// Programs: the functions of the library, given symbolic tensors, build a graph that is planned
// once for each set of shapes and run many times (docs/programs.md).
//
//   Program program;
//   Tensor x = program.input("x", DType::float32, {"n", 4});
//   Tensor mask = program.input("mask", DType::bool_, {"n", 4});
//   Tensor value = program.input("value", DType::float32, {"m"});
//   program.output("y", masked_scatter(x, mask, value));
//   CompiledProgram compiled(program);
//   Tensor y = compiled.run({{"x", ...}, {"mask", ...}, {"value", ...}}).at("y");
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sow/tensor.h"

namespace sow {

namespace detail {
struct Graph;      // src/program/graph.h
class Executable;  // src/program/run/executable.h
}  // namespace detail

// An extent of an input: a number, or a name for one that is known when the program runs. Inputs
// that share a name must then agree. -1 is unknown too, and agrees with nothing.
class Extent {
 public:
  template <std::integral T>
  Extent(T size) : size_(static_cast<int64_t>(size)) {}
  Extent(const char* name) : name_(name) {}
  Extent(std::string name) : name_(std::move(name)) {}
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

 private:
  int64_t size_ = -1;
  std::string name_;
};

// A handle: copies build the same program. A symbolic tensor has a type and a shape, in which -1
// stands for an unknown extent, and no data. Real tensors that meet symbolic ones become constants
// of the program, copied as they are then. An in-place form gives its handle the new value, and
// what shares its elements too; what was computed from the old one keeps it.
class SOW_API Program {
 public:
  Program();
  Tensor input(const std::string& name, DType dtype, const std::vector<Extent>& shape,
               Device device = {});
  Tensor constant(const Tensor& value);
  void output(const std::string& name, const Tensor& tensor);
  // As sow::grad; the inputs may be any tensors of the program.
  TensorList gradients(const TensorList& outputs, const TensorList& inputs,
                       const TensorList& grad_outputs = {});

  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
  std::string to_string() const;
  std::string to_dot() const;  // for Graphviz

  // A versioned format; what is damaged or of a newer version is refused.
  std::string serialize() const;
  static Program deserialize(std::string_view bytes);
  // The same program on another device.
  static Program deserialize(std::string_view bytes, Device device);
  void save(const std::string& path) const;
  static Program load(const std::string& path);

  const std::shared_ptr<detail::Graph>& graph() const { return graph_; }

 private:
  explicit Program(std::shared_ptr<detail::Graph> graph) : graph_(std::move(graph)) {}
  std::shared_ptr<detail::Graph> graph_;
};

SOW_API std::ostream& operator<<(std::ostream& out, const Program& program);

// Names a value of a program, for print and pictures; a real tensor is left as it is.
SOW_API Tensor named(const Tensor& tensor, const std::string& name);
SOW_API bool is_symbolic(const Tensor& tensor);

struct CompileOptions {
  // Inputs whose memory a run may overwrite; their contents are unspecified afterwards.
  std::vector<std::string> donate;
  // Without it every step runs as it was written.
  bool optimize = true;
};

// What one plan does, for a person or a test.
struct ProgramStats {
  int64_t steps = 0;        // Transfers and elementwise operations
  int64_t copies = 0;       // those of them that only copy
  int64_t fused = 0;        // steps that went into others
  int64_t bytes_moved = 0;  // read and written, by all steps
  int64_t arena_bytes = 0;  // for all that is neither input nor output
};

// May be run by many threads at once. The first run with new shapes plans them; later ones allocate
// nothing but their results.
class SOW_API CompiledProgram {
 public:
  using Named = std::map<std::string, Tensor>;

  explicit CompiledProgram(const Program& program, const CompileOptions& options = {});

  // Results that `outputs` names are written into the tensors given there. If a run fails, what
  // these hold is unspecified.
  Named run(const Named& feeds, const Named& outputs = {}) const;
  // By position, in the order of declaration.
  TensorList operator()(const TensorList& feeds) const;
  void run_into(const TensorList& feeds, const TensorList& outputs) const;

  // Every step with its plan, for dense inputs of these shapes (none given: those declared).
  std::string explain(const std::vector<Dims>& shapes = {}) const;
  ProgramStats stats(const std::vector<Dims>& shapes = {}) const;

  // Internal: results[i] is the tensor to write into, or undefined and then made.
  void run(const Tensor* feeds, size_t feed_count, Tensor* results, size_t result_count) const;

 private:
  std::shared_ptr<detail::Executable> executable_;
};

inline CompiledProgram compile(const Program& program, const CompileOptions& options = {}) {
  return CompiledProgram(program, options);
}

}  // namespace sow

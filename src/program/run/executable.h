// SPDX-License-Identifier: Apache-2.0
// A compiled program: its plans, one for each layout of feeds it has met, and memory to run them
// in.
#pragma once

#include <mutex>

#include "program/plan/plan_program.h"

namespace sow::detail {

// The memory that a plan's values lie in; it goes back whatever becomes of the rest.
class Arena {
 public:
  explicit Arena(const PlannedProgram& program);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  char* data() const { return data_; }

 private:
  Device device_;
  size_t bytes_;
  char* data_ = nullptr;
};

// Everything one thread needs to run a plan: steps with real addresses, and the arena.
struct RunContext {
  explicit RunContext(std::shared_ptr<const PlannedProgram> program);
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  // An address of a step that changes with every run.
  struct Patch {
    char** where;
    bool input;
    int number;
    uint64_t offset;
  };

  std::shared_ptr<const PlannedProgram> program;
  Arena arena;
  std::vector<Step> steps;
  std::vector<Patch> patches;
  std::vector<std::unique_ptr<IndexOrder>> orders;  // that steps make
  std::vector<char*> inputs, outputs;               // where the caller's blocks begin in this run
  TensorList slots;

  void run();

 private:
  void make_orders();
  void run_eager(const EagerCall& call);
  Tensor real(const Tensor& planned) const;
};

// The contexts of one plan that nobody uses at the moment.
struct PlanEntry {
  std::shared_ptr<const PlannedProgram> program;
  std::mutex mutex;
  std::vector<std::unique_ptr<RunContext>> idle;
  size_t contexts = 0;
  uint64_t last_used = 0;
};

class Executable {
 public:
  Executable(const Graph& graph, const CompileOptions& options);

  // results[i]: a tensor to write into, or undefined and then made.
  void run(const Tensor* feeds, size_t feed_count, Tensor* results, size_t result_count);
  std::shared_ptr<const PlannedProgram> plan_for(const std::vector<Dims>& shapes);
  const Graph& graph() const { return *graph_; }

 private:
  struct Request;  // the feeds and results of one run, and what they ask of a plan

  std::shared_ptr<const PlannedProgram> plan(const std::vector<Dims>& shapes,
                                             const Signature& signature) const;
  void expect_feeds(const Tensor* feeds, size_t count) const;
  void bind_extents(const std::vector<Dims>& shapes) const;
  void prepare(Request& request) const;
  std::shared_ptr<PlanEntry> settle(Request& request);
  std::shared_ptr<PlanEntry> find(Request& request);
  std::shared_ptr<PlanEntry> make(const Request& request);
  static bool matches(const PlannedProgram& program, const Request& request);

  std::shared_ptr<Graph> graph_;
  CompileOptions options_;
  std::vector<bool> donated_;  // by input
  bool any_donated_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<PlanEntry>> entries_;
  uint64_t clock_ = 0;
};

}  // namespace sow::detail

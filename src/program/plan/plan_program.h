// SPDX-License-Identifier: Apache-2.0
// A program planned for one set of shapes: steps whose addresses are places in a few blocks.
#pragma once

#include <memory>
#include <vector>

#include "program/graph.h"
#include "transfer/index/index_order.h"
#include "transfer/indexed_backward.h"
#include "transfer/map.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

// How the caller's tensors lie; plans are kept by it.
struct Layout {
  Dims shape;
  Dims strides;
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.shape == b.shape && a.strides == b.strides;
  }
};

// Where a result goes.
struct Delivery {
  enum class Kind : uint8_t {
    direct,   // computed where the caller wants it: fresh memory, or a dense tensor of the caller's
    copied,   // into a tensor that is not dense or shares memory with an input: at the end
    donated,  // into the memory of a donated input
  };
  Kind kind = Kind::direct;
  int input = -1;  // donated
  Dims strides;    // copied
  friend bool operator==(const Delivery& a, const Delivery& b) {
    return a.kind == b.kind && a.input == b.input && a.strides == b.strides;
  }
};

struct Signature {
  std::vector<Layout> inputs;
  std::vector<Delivery> outputs;
  std::vector<bool> donated;  // inputs that may be written
  int threads = 1;
  bool optimize = true;
};

// Blocks that addresses point into: one for each input, each output and each piece of the arena.
struct Block {
  enum class Kind : uint8_t { arena, input, output };
  Kind kind = Kind::arena;
  int number = -1;  // of the input or output
  size_t bytes = 0;
  int64_t lead = 0;           // from the first element to the block's begin, in bytes: 0 or less
  uint64_t address = 0;       // while planning: nothing lies there
  size_t offset = 0;          // in the arena
  int first = -1, last = -1;  // the steps that touch it
};

struct Step {
  enum class Kind : uint8_t {
    check,     // the indices of `transfer`
    transfer,  // on the CPU, with its plan
    map,
    order,     // sorts the keys of `transfer`, for later steps
    backward,  // an indexed scatter's gradient; `transfer` says where its updates go
    eager,     // a call whose shapes nobody knew: made when its turn comes
  };
  Kind kind = Kind::transfer;
  Device device;
  Transfer transfer;
  Canonical canonical;
  Plan plan;
  char* workspace = nullptr;
  Map map;
  IndexedBackward backward;
  IndexOrder* made = nullptr;  // by an order
  int eager = -1;
};

// An operand of an eager call: an earlier eager result, or a tensor.
struct EagerOperand {
  int slot = -1;
  Tensor tensor;
};
struct EagerCall {
  const OpDef* op = nullptr;
  Attrs attrs;
  bool in_place = false;
  std::vector<EagerOperand> operands;
  int slot = -1;  // of the result
};

struct Result {
  DType dtype = DType::float32;
  Device device;
  Layout layout;
  int input = -1;  // it lies in this donated input's memory
  int slot = -1;   // it is this eager result
};

// Beyond every address that user space has, so that real memory is never mistaken for a block.
constexpr uint64_t kFirstPlanningAddress = uint64_t{1} << 60;

struct PlannedProgram {
  Signature signature;
  std::vector<Block> blocks;  // by address
  std::vector<Step> steps;
  std::vector<EagerCall> eager;
  int slots = 0;
  std::vector<Result> results;
  size_t arena_bytes = 0;
  Device device;
  int64_t fused = 0;
  int64_t overwritten = 0;  // steps left out, because nobody saw what they wrote
  TensorList constants;     // kept alive
  std::vector<std::shared_ptr<const IndexOrder>> orders;
  // What steps of their own order in every run: facts, without keys.
  std::vector<std::shared_ptr<IndexOrder>> made_orders;

  // The block an address lies in; -1 for an address of real memory.
  int block_of(const void* address) const;
  // Planning addresses are beyond all that a processor can map: reading one is a fault at once.
  static bool is_planning_address(const void* address) {
    return reinterpret_cast<uint64_t>(address) >= kFirstPlanningAddress;
  }
};

// Calls f(char** where) for every pointer that a run of the step follows; null ones are left out.
template <class F>
void for_each_pointer(Step& step, F&& f) {
  const auto visit = [&f](auto& pointer) {
    if (pointer != nullptr) f(const_cast<char**>(&pointer));
  };
  for (IndexOperand& index : step.transfer.dst_index) visit(index.data);
  for (IndexOperand& index : step.transfer.src_index) visit(index.data);
  visit(step.transfer.dst.data);
  visit(step.transfer.src.data);
  visit(step.transfer.mask.data);
  visit(step.transfer.base.data);
  visit(step.workspace);
  visit(step.map.out);
  for (MapOperand& operand : step.map.in) visit(operand.data);
  IndexedBackward& work = step.backward;
  for (const char** pointer : {&work.grad, &work.result, &work.x, &work.source}) visit(*pointer);
  for (char** pointer : {&work.x_grad, &work.source_grad}) visit(*pointer);
}

// A tensor at an address that belongs to somebody else, or to nobody.
Tensor tensor_at(char* address, const Meta& meta, const Dims& strides);

std::shared_ptr<PlannedProgram> plan_program(const Graph& graph, const Signature& signature);

int64_t bytes_moved(const Step& step);
bool is_copy(const Step& step);
ProgramStats stats_of(const PlannedProgram& program);
std::string explain(const PlannedProgram& program);

}  // namespace sow::detail

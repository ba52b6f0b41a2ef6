// SPDX-License-Identifier: Apache-2.0
// Finds or makes the plan for what a caller brings, and lends a context to each run.
#include "program/run/executable.h"

#include "core/tensor/layout.h"
#include "core/threads/fork_gate.h"
#include "core/threads/interrupt.h"
#include "core/threads/parallel.h"
#include "program/plan/passes.h"
#include "program/text.h"

namespace sow::detail {

namespace {

constexpr size_t kMaxPlans = 64;  // of one program; the one unused for longest goes first

int threads_now() { return can_run_parallel() ? get_num_threads() : 1; }

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides() &&
         a.dtype() == b.dtype();
}

bool same_strides(const Dims& shape, const Dims& a, const Dims& b) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

bool overlaps_itself(const Tensor& tensor) {
  return !tensor.is_contiguous() &&
         self_overlap(tensor.shape(), tensor.strides()) != SelfOverlap::no;
}

void count_write(const Tensor& tensor) { tensor.impl()->storage->count_write(); }

}  // namespace

struct Executable::Request {
  const Tensor* feeds;
  size_t feed_count;
  Tensor* results;
  // Reused by the thread's next run, so that a run allocates nothing.
  std::vector<Delivery>& deliveries;
  std::vector<bool>& donated;
  int threads;
};

Executable::Executable(const Graph& graph, const CompileOptions& options)
    : graph_(std::make_shared<Graph>(graph)), options_(options) {
  if (graph_->outputs.empty()) fail(ErrorKind::argument, "compile: the program has no output");
  for (const Value& value : graph_->values) {
    const Device device = value.meta.device, first = graph_->values[0].meta.device;
    if (device == first) continue;
    fail(ErrorKind::device, "compile: tensors are on {} and {}; a program stays on one device",
         to_string(first), to_string(device));
  }
  donated_.assign(graph_->inputs.size(), false);
  for (const std::string& name : options.donate) {
    bool found = false;
    for (size_t i = 0; i < graph_->inputs.size(); ++i) {
      if (graph_->inputs[i].name != name) continue;
      donated_[i] = found = any_donated_ = true;
    }
    if (!found) fail(ErrorKind::argument, "compile: there is no input \"{}\" to donate", name);
  }
}

void Executable::expect_feeds(const Tensor* feeds, size_t count) const {
  if (count != graph_->inputs.size()) {
    fail(ErrorKind::argument, "run: {} feeds for {} inputs; there must be one for each", count,
         graph_->inputs.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const GraphInput& input = graph_->inputs[i];
    if (!feeds[i].defined()) fail(ErrorKind::argument, "run: input \"{}\" is missing", input.name);
    if (feeds[i].impl()->symbolic != nullptr) {
      fail(ErrorKind::argument, "run: input \"{}\" is symbolic; a run needs data", input.name);
    }
    const Meta& meta = graph_->values[input.value].meta;
    if (feeds[i].dtype() != meta.dtype) {
      fail(ErrorKind::type, "run: input \"{}\" is {}, but was declared {}", input.name,
           feeds[i].dtype(), meta.dtype);
    }
    if (!(feeds[i].device() == meta.device)) {
      fail(ErrorKind::device, "run: input \"{}\" is on {}, but was declared on {}", input.name,
           to_string(feeds[i].device()), to_string(meta.device));
    }
  }
}

void Executable::bind_extents(const std::vector<Dims>& shapes) const {
  if (shapes.size() != graph_->inputs.size()) {
    fail(ErrorKind::argument, "run: {} shapes for {} inputs; there must be one for each",
         shapes.size(), graph_->inputs.size());
  }
  std::map<std::string, std::pair<int64_t, const char*>> bound;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const GraphInput& input = graph_->inputs[i];
    const Dims& declared = graph_->values[input.value].meta.shape;
    bool fits = shapes[i].size() == declared.size();
    for (size_t d = 0; fits && d < declared.size(); ++d) {
      fits = shapes[i][d] >= 0 && (declared[d] < 0 || declared[d] == shapes[i][d]);
    }
    if (!fits) {
      fail(ErrorKind::shape, "run: input \"{}\" has shape {}, but was declared {}", input.name,
           shapes[i], declared_shape(declared, input.extents));
    }
    for (size_t d = 0; d < declared.size(); ++d) {
      const std::string& name = input.extents[d];
      if (name.empty()) continue;
      const auto [known, fresh] = bound.try_emplace(name, shapes[i][d], input.name.c_str());
      if (fresh || known->second.first == shapes[i][d]) continue;
      fail(ErrorKind::shape, "run: extent \"{}\" is {} in input \"{}\" but {} in input \"{}\"",
           name, known->second.first, known->second.second, shapes[i][d], input.name);
    }
  }
}

bool Executable::matches(const PlannedProgram& program, const Request& request) {
  const Signature& signature = program.signature;
  if (signature.threads != request.threads) return false;
  for (size_t i = 0; i < request.feed_count; ++i) {
    const TensorImpl& feed = *request.feeds[i].impl();
    if (!(signature.inputs[i].shape == feed.shape)) return false;
    if (!(signature.inputs[i].strides == feed.strides)) return false;
  }
  return signature.outputs == request.deliveries && signature.donated == request.donated;
}

std::shared_ptr<PlanEntry> Executable::make(const Request& request) {
  Signature signature;
  std::vector<Dims> shapes;
  for (size_t i = 0; i < request.feed_count; ++i) {
    shapes.push_back(request.feeds[i].shape());
    signature.inputs.push_back({request.feeds[i].shape(), request.feeds[i].strides()});
  }
  bind_extents(shapes);
  signature.outputs = request.deliveries;
  signature.donated = request.donated;
  signature.threads = request.threads;
  signature.optimize = options_.optimize;
  auto entry = std::make_shared<PlanEntry>();
  entry->program = plan(shapes, signature);
  return entry;
}

std::shared_ptr<PlanEntry> Executable::find(Request& request) {
  const ForkSafeLock lock(mutex_);
  for (std::shared_ptr<PlanEntry>& entry : entries_) {
    if (!matches(*entry->program, request)) continue;
    entry->last_used = ++clock_;
    if (entry != entries_.front()) std::swap(entry, entries_.front());
    return entries_.front();
  }
  std::shared_ptr<PlanEntry> entry = make(request);
  entry->last_used = ++clock_;
  if (entries_.size() >= kMaxPlans) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    entries_.erase(oldest);
  }
  entries_.insert(entries_.begin(), entry);
  return entry;
}

namespace {

// Lends a context of the entry, and takes it back whatever happens.
class ContextLease {
 public:
  explicit ContextLease(PlanEntry& entry) : entry_(entry) {
    {
      const ForkSafeLock lock(entry.mutex);
      if (!entry.idle.empty()) {
        context_ = std::move(entry.idle.back());
        entry.idle.pop_back();
        return;
      }
      entry.idle.reserve(++entry.contexts);  // so that giving back never allocates
    }
    context_ = std::make_unique<RunContext>(entry.program);
  }
  ~ContextLease() {
    // On a device the steps may still be running, and the next run may come on another stream: the
    // arena goes back to the device's pool, which knows when it is free.
    if (entry_.program->device.type != DeviceType::cpu) return;
    for (Tensor& slot : context_->slots) slot = Tensor();
    const ForkSafeLock lock(entry_.mutex);
    entry_.idle.push_back(std::move(context_));
  }
  ContextLease(const ContextLease&) = delete;
  ContextLease& operator=(const ContextLease&) = delete;
  RunContext& operator*() { return *context_; }
  RunContext* operator->() { return context_.get(); }

 private:
  PlanEntry& entry_;
  std::unique_ptr<RunContext> context_;
};

void expect_result(const std::string& name, const Tensor& given, const Result& result,
                   const Dims& shape) {
  if (given.dtype() != result.dtype) {
    fail(ErrorKind::type, "run: output \"{}\" is {}, but the tensor for it is {}", name,
         result.dtype, given.dtype());
  }
  if (!(given.device() == result.device)) {
    fail(ErrorKind::device, "run: output \"{}\" is on {}, but the tensor for it is on {}", name,
         to_string(result.device), to_string(given.device()));
  }
  if (!(given.shape() == shape)) {
    fail(ErrorKind::shape, "run: output \"{}\" has shape {}, but the tensor for it has shape {}",
         name, shape, given.shape());
  }
}

void expect_writable(const std::string& name, const Tensor& given) {
  if (given.impl()->symbolic != nullptr) {
    fail(ErrorKind::argument, "run: the tensor for output \"{}\" is symbolic", name);
  }
  if (given.read_only()) {
    fail(ErrorKind::overlap, "run: the tensor for output \"{}\" is read-only", name);
  }
  if (overlaps_itself(given)) {
    fail(ErrorKind::overlap,
         "run: the tensor for output \"{}\", of shape {} and strides {}, "
         "overlaps itself",
         name, given.shape(), given.strides());
  }
}

Tensor fresh(const Result& result) {
  return empty_strided_like(result.layout.shape, result.layout.strides, result.dtype,
                            result.device);
}

// Inputs whose memory may be written: nobody else's lies there.
void find_donated(const Tensor* feeds, const std::vector<bool>& wanted,
                  std::vector<bool>& donated) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    bool may = wanted[i] && !feeds[i].read_only() && !overlaps_itself(feeds[i]);
    for (size_t k = 0; may && k < wanted.size(); ++k) {
      may = k == i || !may_share_bytes(feeds[i], feeds[k]);
    }
    donated[i] = may;
  }
}

}  // namespace

namespace {

// How the tensor that is given for a result can be reached.
Delivery delivery_for(const Tensor& given, const Tensor* feeds, std::vector<bool>& donated) {
  Delivery delivery;
  if (!given.is_contiguous()) delivery.kind = Delivery::Kind::copied;
  for (size_t i = 0; i < donated.size(); ++i) {
    if (!may_share_bytes(given, feeds[i])) continue;
    if (donated[i] && same_memory(given, feeds[i])) {
      delivery.kind = Delivery::Kind::donated;
      delivery.input = static_cast<int>(i);
      break;
    }
    donated[i] = false;
    delivery.kind = Delivery::Kind::copied;
  }
  if (delivery.kind == Delivery::Kind::copied) delivery.strides = given.strides();
  return delivery;
}

}  // namespace

// What the caller's tensors ask of a plan.
void Executable::prepare(Request& request) const {
  const std::vector<GraphOutput>& outputs = graph_->outputs;
  request.donated.assign(request.feed_count, false);
  if (any_donated_) find_donated(request.feeds, donated_, request.donated);
  request.deliveries.assign(outputs.size(), Delivery());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& given = request.results[i];
    if (!given.defined()) continue;
    expect_writable(outputs[i].name, given);
    for (size_t k = 0; k < i; ++k) {
      if (request.results[k].defined() && may_share_bytes(given, request.results[k])) {
        fail(ErrorKind::overlap, "run: the tensors for outputs \"{}\" and \"{}\" share memory",
             outputs[k].name, outputs[i].name);
      }
    }
    request.deliveries[i] = delivery_for(given, request.feeds, request.donated);
  }
}

// The plan whose results fit the caller's tensors.
std::shared_ptr<PlanEntry> Executable::settle(Request& request) {
  std::shared_ptr<PlanEntry> entry = find(request);
  bool again = false;
  for (size_t i = 0; i < graph_->outputs.size(); ++i) {
    const Result& result = entry->program->results[i];
    const Tensor& given = request.results[i];
    if (!given.defined() || result.slot >= 0) continue;
    expect_result(graph_->outputs[i].name, given, result, result.layout.shape);
    const bool lies_so = same_strides(result.layout.shape, result.layout.strides, given.strides());
    // Where the result lies in a donated input, or in another order, the tensor gets a copy.
    Delivery& delivery = request.deliveries[i];
    if (delivery.kind != Delivery::Kind::direct || (lies_so && result.input < 0)) continue;
    delivery.kind = Delivery::Kind::copied;
    delivery.strides = given.strides();
    again = true;
  }
  return again ? find(request) : entry;
}

namespace {

// Points the context at the caller's memory, and makes room for results that nobody gave a tensor.
void place(RunContext& context, const Tensor* feeds, Tensor* results) {
  for (const Block& block : context.program->blocks) {
    if (block.kind == Block::Kind::input) {
      context.inputs[block.number] = static_cast<char*>(feeds[block.number].data()) + block.lead;
    } else if (block.kind == Block::Kind::output) {
      Tensor& result = results[block.number];
      if (!result.defined()) result = fresh(context.program->results[block.number]);
      context.outputs[block.number] = static_cast<char*>(result.data()) + block.lead;
    }
  }
}

}  // namespace

void Executable::run(const Tensor* feeds, size_t feed_count, Tensor* results, size_t result_count) {
  thread_local std::vector<Delivery> deliveries;
  thread_local std::vector<bool> donated;
  expect_feeds(feeds, feed_count);
  if (result_count != graph_->outputs.size()) {
    fail(ErrorKind::argument, "run: {} tensors for {} outputs; there must be one for each",
         result_count, graph_->outputs.size());
  }
  Request request{feeds, feed_count, results, deliveries, donated, threads_now()};
  prepare(request);
  const std::shared_ptr<PlanEntry> entry = settle(request);
  ContextLease context(*entry);
  place(*context, feeds, results);
  look_for_interrupt();
  const Uninterrupted from_here;  // results may be the caller's memory
  context->run();
  for (size_t i = 0; i < result_count; ++i) {
    const Result& result = entry->program->results[i];
    if (result.slot >= 0 && results[i].defined()) {
      const Tensor& value = context->slots[result.slot];
      expect_result(graph_->outputs[i].name, results[i], result, value.shape());
      results[i].copy_(value);
    } else if (result.slot >= 0) {
      results[i] = context->slots[result.slot];
    } else if (result.input >= 0 && !results[i].defined()) {
      results[i] = feeds[result.input];
    }
    count_write(results[i]);
  }
  for (size_t i = 0; i < feed_count; ++i) {
    if (donated[i]) count_write(feeds[i]);
  }
}

std::shared_ptr<const PlannedProgram> Executable::plan_for(const std::vector<Dims>& given) {
  std::vector<Dims> shapes = given;
  if (shapes.empty()) {
    for (const GraphInput& input : graph_->inputs) {
      const Dims& declared = graph_->values[input.value].meta.shape;
      if (!all_known(declared)) {
        fail(ErrorKind::argument, "explain: input \"{}\" was declared {}; say its shape",
             input.name, declared_shape(declared, input.extents));
      }
      shapes.push_back(declared);
    }
  }
  bind_extents(shapes);
  Signature signature;
  for (const Dims& shape : shapes) signature.inputs.push_back({shape, row_major_strides(shape)});
  signature.outputs.resize(graph_->outputs.size());
  signature.donated = donated_;
  signature.threads = threads_now();
  signature.optimize = options_.optimize;
  return plan(shapes, signature);
}

std::shared_ptr<const PlannedProgram> Executable::plan(const std::vector<Dims>& shapes,
                                                       const Signature& signature) const {
  const std::shared_ptr<Graph> graph = with_shapes(*graph_, shapes);
  if (signature.optimize) merge_repeats(*graph);
  return plan_program(*graph, signature);
}

}  // namespace sow::detail

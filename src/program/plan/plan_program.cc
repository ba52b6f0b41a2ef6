// SPDX-License-Identifier: Apache-2.0
// Lowers a graph of known shapes: every call writes its Transfers down, at addresses without
// memory.
#include "program/plan/plan_program.h"

#include "core/tensor/layout.h"
#include "ops/defs.h"
#include "ops/families/elementwise.h"
#include "ops/gradients/rule_ops.h"
#include "program/plan/passes.h"
#include "program/plan/uses.h"
#include "transfer/recorder.h"

namespace sow::detail {

namespace {

// Pointers may stand a little behind the end of an empty tensor.
constexpr uint64_t kGap = uint64_t{1} << 20;
// More than any machine has; the sum of the blocks must stay an address.
constexpr uint64_t kMostBytes = uint64_t{1} << 52;

}  // namespace

int PlannedProgram::block_of(const void* pointer) const {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (!is_planning_address(pointer)) return -1;
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), address,
                                      [](uint64_t a, const Block& b) { return a < b.address; });
  return static_cast<int>(after - blocks.begin()) - 1;
}

Tensor tensor_at(char* address, const Meta& meta, const Dims& strides) {
  Tensor::Foreign foreign;
  foreign.data = address;
  foreign.dtype = meta.dtype;
  foreign.shape = meta.shape;
  foreign.strides = strides;
  foreign.device = meta.device;
  return Tensor::wrap(std::move(foreign));
}

namespace {

class Lowering final : public Recorder {
 public:
  Lowering(const Graph& graph, const Signature& signature)
      : graph_(graph), uses_(graph), out_(std::make_shared<PlannedProgram>()) {
    out_->signature = signature;
  }

  std::shared_ptr<PlannedProgram> run() {
    make_inputs();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (uses_.needed(n)) lower(static_cast<int>(n));
    }
    deliver();
    return out_;
  }

  // -- Recorder
  void record(const Transfer& transfer, Device device) override {
    Step step;
    step.device = device;
    step.transfer = transfer;
    step.transfer.op = op_name_;
    const bool indexed = !transfer.dst_index.empty() || !transfer.src_index.empty();
    if (indexed && device.type == DeviceType::cpu) {
      add_check(step);
      if (out_->signature.optimize) hold_constant(step.transfer, device);
    } else if (indexed && out_->signature.optimize) {
      hold_constant(step.transfer, device);
    }
    // On the CPU the keys were checked by a step of their own, on a device by this one.
    bool needed = device.type != DeviceType::cpu || !has_no_work(transfer);
    for (const int64_t extent : transfer.shape) needed = needed && extent != 0;
    if (needed) out_->steps.push_back(std::move(step));
  }

  void record(const Map& map, Device device) override {
    for (const int64_t extent : map.shape) {
      if (extent == 0) return;
    }
    Step step;
    step.kind = Step::Kind::map;
    step.device = device;
    step.map = map;
    out_->steps.push_back(std::move(step));
  }

  void record(const IndexedBackward& work, const Transfer& places) override {
    Step step;
    step.kind = Step::Kind::backward;
    step.transfer = places;
    step.transfer.op = op_name_;
    step.backward = work;
    add_check(step);
    if (has_no_work(places)) return;
    if (out_->signature.optimize) hold_constant(step.transfer, {});
    out_->steps.push_back(std::move(step));
  }

  char* reserve(size_t bytes) override {
    if (bytes > kMostBytes || next_address_ > kFirstPlanningAddress + 1024 * kMostBytes) {
      fail(ErrorKind::memory, "{}: {} bytes could not be had", op_name_, bytes);
    }
    Block block;
    block.bytes = bytes;
    block.address = next_address_;
    next_address_ += (bytes + kGap + 63) / 64 * 64;
    out_->blocks.push_back(block);
    return reinterpret_cast<char*>(block.address);
  }

 private:
  // Constant indices are checked here, once; others by a step of their own.
  void add_check(const Step& step) {
    bool constant = true;
    for (const auto* side : {&step.transfer.dst_index, &step.transfer.src_index}) {
      for (const IndexOperand& index : *side) constant = constant && out_->block_of(index.data) < 0;
    }
    if (constant) return check_indices(step.transfer);
    Step check = step;
    check.kind = Step::Kind::check;
    // It reads keys alone, so it has no other address that a run would have to fill in.
    check.transfer.dst.data = nullptr;
    check.transfer.src.data = check.transfer.mask.data = check.transfer.base.data = nullptr;
    check.backward = IndexedBackward();
    out_->steps.push_back(std::move(check));
  }

  // A constant index is ordered once, for all runs.
  void hold_constant(Transfer& transfer, Device device) {
    if (transfer.dst_index.size() != 1 || transfer.order != nullptr) return;
    const IndexOperand& index = transfer.dst_index[0];
    if (out_->block_of(index.data) >= 0 || transfer.bounds == Bounds::promise) return;
    const RecordWith guard(nullptr);
    const Tensor keys = tensor_at(const_cast<char*>(index.data),
                                  {index.dtype, index.own_shape, device}, index.own_strides);
    try {
      out_->orders.push_back(Index::hold(keys, index.extent, transfer.bounds).order());
      transfer.order = out_->orders.back().get();
    } catch (const Error&) {
      if (device.type == DeviceType::cpu) throw;
      // A bad key on a device: every run tells it, in its own words.
    }
  }

  const Meta& meta(int value) const { return graph_.values[value].meta; }

  // Where the first element of a tensor in a block of its own lies.
  char* reserve_for(const Layout& layout, DType dtype) {
    const ByteRange range = byte_range(layout.shape, layout.strides, size_of(dtype));
    char* base = reserve(static_cast<size_t>(range.last - range.first));
    out_->blocks.back().lead = range.first;
    return base - range.first;
  }

  void make_inputs() {
    tensors_.resize(graph_.values.size());
    slots_.assign(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const int value = graph_.inputs[i].value;
      const Layout& layout = out_->signature.inputs[i];
      char* first = reserve_for(layout, meta(value).dtype);
      out_->blocks.back().kind = Block::Kind::input;
      out_->blocks.back().number = static_cast<int>(i);
      tensors_[value] = tensor_at(first, meta(value), layout.strides);
      if (i == 0) out_->device = meta(value).device;
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind != Value::Kind::constant) continue;
      tensors_[v] = value.constant;
      out_->constants.push_back(value.constant);
      if (graph_.inputs.empty()) out_->device = value.constant.device();
    }
  }

  // Type and shape alone.
  Tensor hollow(const Meta& meta) const {
    auto impl = std::make_shared<TensorImpl>();
    impl->dtype = meta.dtype;
    impl->device = meta.device;
    impl->shape = meta.shape;
    impl->strides = row_major_strides(meta.shape);
    impl->numel = checked_numel(meta.shape, 1, "program");
    return Tensor(std::move(impl));
  }

  // index_put under a mask needs its count, unless every true takes the same scalar.
  bool depends_on_data(const GraphNode& node) const {
    if (node.op == &kProductChecked) return true;
    if (node.op != &kIndexPut && node.op != &kIndexGet) return node.op->dynamic != nullptr;
    const size_t indices =
        node.inputs.size() - (node.op == &kIndexGet || node.attrs.scalar ? 0 : 1);
    bool masked = false;
    for (size_t i = 1; i < indices; ++i) {
      masked = masked || meta(node.inputs[i]).dtype == DType::bool_;
    }
    const bool one_scalar = node.op == &kIndexPut && node.inputs.size() == 2 && node.attrs.scalar &&
                            node.attrs.reduce == Reduce::assign;
    return masked && !one_scalar;
  }

  bool is_eager(const GraphNode& node) const {
    if (depends_on_data(node) || !all_known(meta(node.results[0]).shape)) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (uses_.reads(node, i) && slots_[node.inputs[i]] >= 0) return true;
    }
    return false;
  }

  void lower(int n) {
    const GraphNode& node = graph_.nodes[n];
    op_name_ = node.name();
    if (node.attrs.order != nullptr) out_->orders.push_back(node.attrs.order);
    if (is_eager(node)) return lower_eager(node);
    Call call{node.op, {}, node.attrs, false};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool shape_only = i < 64 && (node.op->shape_only >> i & 1) != 0;
      call.inputs.push_back(shape_only ? hollow(meta(node.inputs[i])) : tensors_[node.inputs[i]]);
    }
    const int result = node.results[0];
    if (node.op == &kPositionsLike) {  // the same in every run
      tensors_[result] = apply(std::move(call));
      out_->constants.push_back(tensors_[result]);
      return;
    }
    const RecordWith guard(this);
    if (node.op->dynamic != nullptr) {
      tensors_[result] = node.op->dynamic(call);
    } else if (node.op->view != nullptr) {
      tensors_[result] = node.op->view(call);
    } else if (may_run_in_place(node, n)) {
      uses_.join(result, node.inputs[0]);
      call.in_place = true;
      node.op->lower(call, call.inputs[0]);
      tensors_[result] = call.inputs[0];
    } else {
      const int home = map_home(node, n);
      if (home >= 0) uses_.join(result, node.inputs[home]);
      tensors_[result] = home >= 0 ? call.inputs[home] : room_for(call, meta(result));
      node.op->lower(call, tensors_[result]);
    }
  }

  // The operand of an elementwise call that its result may lie on: nobody reads it afterwards, and
  // what else shares its memory is read element for element.
  int map_home(const GraphNode& node, int n) const {
    if (!out_->signature.optimize || !is_elementwise(*node.op)) return -1;
    const Meta& result = meta(node.results[0]);
    if (result.device.type != DeviceType::cpu) return -1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int value = node.inputs[i];
      const Tensor& x = tensors_[value];
      if (uses_.last(value) != n || x.dtype() != result.dtype || !(x.shape() == result.shape)) {
        continue;
      }
      if (!x.is_contiguous() || !fills_block(x)) continue;
      const bool apart = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int other) {
        return !uses_.may_share(other, value) || fills(tensors_[other], x);
      });
      if (apart) return static_cast<int>(i);
    }
    return -1;
  }

  Tensor room_for(const Call& call, const Meta& meta) const {
    if (call.op->keeps_layout) {
      const Tensor& input = call.inputs[0];
      if (self_overlap(input.shape(), input.strides()) == SelfOverlap::no) {
        return empty_strided_like(meta.shape, input.strides(), meta.dtype, meta.device);
      }
    }
    return Tensor::empty(meta.shape, meta.dtype, meta.device);
  }

  // Nobody reads the destination's memory afterwards, and it lies as the result would.
  bool may_run_in_place(const GraphNode& node, int n) const {
    if (!out_->signature.optimize || node.op->in_place_name == nullptr) return false;
    if ((node.op->shape_only & 1) != 0) return false;
    const int first = node.inputs[0];
    if (uses_.last(first) != n) return false;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (uses_.may_share(node.inputs[i], first)) return false;
    }
    const Tensor& x = tensors_[first];
    const int block = out_->block_of(x.data());
    if (block < 0) return false;
    const Block& memory = out_->blocks[block];
    if (memory.kind == Block::Kind::input && !out_->signature.donated[memory.number]) return false;
    const Meta& result = meta(node.results[0]);
    if (!(x.shape() == result.shape) || x.dtype() != result.dtype) return false;
    if (!node.op->keeps_layout) return x.is_contiguous();
    return self_overlap(x.shape(), x.strides()) == SelfOverlap::no &&
           x.strides() == dense_strides_like(x.shape(), x.strides());
  }

  EagerOperand eager_operand(int value) const {
    if (slots_[value] >= 0) return {slots_[value], {}};
    return {-1, tensors_[value].defined() ? tensors_[value] : hollow(meta(value))};
  }

  void lower_eager(const GraphNode& node) {
    EagerCall call{node.op, node.attrs, node.in_place, {}, out_->slots++};
    for (const int input : node.inputs) call.operands.push_back(eager_operand(input));
    slots_[node.results[0]] = call.slot;
    Step step;
    step.kind = Step::Kind::eager;
    step.device = meta(node.results[0]).device;
    step.eager = static_cast<int>(out_->eager.size());
    out_->eager.push_back(std::move(call));
    out_->steps.push_back(std::move(step));
  }

  // -- results
  // Memory of the caller's is written last: an input may lie there that is a result itself.
  void deliver() {
    const RecordWith guard(this);
    op_name_ = "output";
    const size_t count = graph_.outputs.size();
    out_->results.resize(count);
    TensorList sources(count);
    for (size_t i = 0; i < count; ++i) {
      const int value = graph_.outputs[i].value;
      Result& result = out_->results[i];
      result.dtype = meta(value).dtype;
      result.device = meta(value).device;
      result.slot = slots_[value];
      if (result.slot >= 0) continue;
      result.layout.shape = meta(value).shape;
      sources[i] = tensors_[value];
      if (fits_direct(out_->signature.outputs[i], result)) {
        deliver_direct(static_cast<int>(i), sources[i], result);
        sources[i] = Tensor();
      } else if (!lies_there(out_->signature.outputs[i], sources[i]) && in_input(sources[i])) {
        sources[i] = sources[i].clone();
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (sources[i].defined()) deliver_copy(static_cast<int>(i), sources[i], out_->results[i]);
    }
  }

  // A tensor of another rank than the result is refused when the program runs.
  bool fits_direct(const Delivery& delivery, const Result& result) const {
    if (delivery.kind == Delivery::Kind::copied) {
      return delivery.strides.size() != result.layout.shape.size();
    }
    return delivery.kind == Delivery::Kind::direct ||
           !(out_->signature.inputs[delivery.input].shape == result.layout.shape);
  }

  bool in_input(const Tensor& tensor) const {
    const int at = out_->block_of(tensor.data());
    return at >= 0 && out_->blocks[at].kind == Block::Kind::input;
  }

  bool lies_there(const Delivery& delivery, const Tensor& tensor) const {
    if (delivery.kind != Delivery::Kind::donated) return false;
    return fills(tensor, tensors_[graph_.inputs[delivery.input].value]);
  }

  static bool fills(const Tensor& tensor, const Tensor& whole) {
    return tensor.data() == whole.data() && tensor.shape() == whole.shape() &&
           tensor.strides() == whole.strides();
  }

  // A donated input that holds the result already, if no other result wants to be there.
  int donated_home(const Tensor& tensor) const {
    const int at = out_->block_of(tensor.data());
    if (at < 0 || out_->blocks[at].kind != Block::Kind::input) return -1;
    const int input = out_->blocks[at].number;
    if (!out_->signature.donated[input]) return -1;
    if (!fills(tensor, tensors_[graph_.inputs[input].value])) return -1;
    for (const Delivery& delivery : out_->signature.outputs) {
      if (delivery.kind == Delivery::Kind::donated && delivery.input == input) return -1;
    }
    for (const Result& result : out_->results) {
      if (result.input == input) return -1;
    }
    return input;
  }

  void deliver_direct(int number, const Tensor& tensor, Result& result) {
    result.input = donated_home(tensor);
    result.layout.strides = tensor.strides();
    if (result.input >= 0) return;
    const Tensor own = fills_block(tensor) ? tensor : tensor.clone();
    claim(out_->blocks[out_->block_of(own.data())], number);
    result.layout.strides = own.strides();
  }

  void deliver_copy(int number, const Tensor& tensor, Result& result) {
    const Delivery& delivery = out_->signature.outputs[number];
    if (delivery.kind == Delivery::Kind::donated) {
      const Tensor& target = tensors_[graph_.inputs[delivery.input].value];
      result.layout.strides = target.strides();
      result.input = delivery.input;
      if (!fills(tensor, target)) copy_into(target, tensor, op_name_);
      return;
    }
    result.layout.strides = delivery.strides;
    char* base = reserve_for(result.layout, tensor.dtype());
    claim(out_->blocks.back(), number);
    copy_into(tensor_at(base, meta_of(tensor), delivery.strides), tensor, op_name_);
  }

  // Whether the tensor has a piece of the arena for itself, and all of it.
  bool fills_block(const Tensor& tensor) const {
    const int at = out_->block_of(tensor.data());
    if (at < 0) return false;
    const Block& block = out_->blocks[at];
    return block.kind == Block::Kind::arena && block.bytes == tensor.nbytes() &&
           block.address == reinterpret_cast<uint64_t>(tensor.data()) &&
           self_overlap(tensor.shape(), tensor.strides()) == SelfOverlap::no;
  }

  static void claim(Block& block, int number) {
    block.kind = Block::Kind::output;
    block.number = number;
  }

  const Graph& graph_;
  Uses uses_;
  std::shared_ptr<PlannedProgram> out_;
  uint64_t next_address_ = kFirstPlanningAddress;
  const char* op_name_ = "";
  TensorList tensors_;      // by value, at addresses without memory
  std::vector<int> slots_;  // of eager results
};

}  // namespace

std::shared_ptr<PlannedProgram> plan_program(const Graph& graph, const Signature& signature) {
  std::shared_ptr<PlannedProgram> program = Lowering(graph, signature).run();
  if (signature.optimize) {
    fuse_gathers(*program);
    drop_overwritten(*program);
  }
  hoist_checks(*program);
  if (signature.optimize) share_orders(*program);
  choose_plans(*program);
  place_blocks(*program);
  return program;
}

}  // namespace sow::detail

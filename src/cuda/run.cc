// From a Transfer to launches: make it plain data, choose a strategy, run it, keep what failed.
#include "cuda/run.h"

#include <cstdint>
#include <cstring>

#include "cuda/scalar.h"
#include "cuda/segments.h"
#include "cuda/spell.h"

namespace sow::detail::cuda {

void expect_aligned(const char* op, const void* data, int width) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0) return;
  throw Trouble{CudaStatus::device_error,
                std::string(op) + ": an array of " + std::to_string(width) +
                    "-byte elements lies at an address that is no multiple of that, "
                    "which a CUDA device cannot read"};
}

namespace {

bool is_empty(const Transfer& transfer) {
  for (const int64_t extent : transfer.shape) {
    if (extent == 0) return true;
  }
  return false;
}

bool sums_complex(const Transfer& t) {
  return t.mask_side == MaskSide::none && t.dtype >= DType::complex64 &&
         (t.reduce == Reduce::add || t.reduce == Reduce::mean);
}

// Complex numbers as pairs of reals: one more dimension of size 2, everything else twice as far.
// `parts` is where a scalar's parts lie on the device.
Transfer as_parts(const Transfer& t, char* parts) {
  Transfer out = t;
  out.dtype = t.dtype == DType::complex64 ? DType::float32 : DType::float64;
  const auto widen = [](Operand& operand) {
    for (auto& stride : operand.strides) stride *= 2;
    operand.strides.push_back(1);
  };
  out.shape.push_back(2);
  if (t.src.data == nullptr) {
    out.src.data = parts;
    out.src.strides = Dims(t.shape.size(), 0);
  }
  widen(out.dst);
  widen(out.src);
  for (auto* side : {&out.dst_index, &out.src_index}) {
    for (IndexOperand& index : *side) {
      index.strides.push_back(0);
      index.scale *= 2;
    }
  }
  return out;
}

// Under clip an axis of size 0 has no nearest index, so every key is bad.
bool all_keys_bad(const Transfer& t) {
  if (t.bounds != Bounds::clip) return false;
  for (const auto* side : {&t.dst_index, &t.src_index}) {
    for (const IndexOperand& index : *side) {
      if (index.extent == 0) return true;
    }
  }
  return false;
}

void expect_all_aligned(const Transfer& t) {
  const int width = width_of(t.dtype);
  for (const Operand* operand : {&t.dst, &t.src, &t.base})
    expect_aligned(t.op, operand->data, width);
  for (const auto* side : {&t.dst_index, &t.src_index}) {
    for (const IndexOperand& index : *side) expect_aligned(t.op, index.data, width_of(index.dtype));
  }
}

void run_plain(const CudaContext& context, const Transfer& t) {
  expect_all_aligned(t);
  const DeviceState& device = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  const bool masked = t.mask_side != MaskSide::none;
  const bool empty = is_empty(t);
  bool keys_checked = must_check_keys(t);
  if (empty && !keys_checked) return;

  Canonical canonical;
  Problem problem;
  size_t spelled = 0;
  if (!masked && !empty) {
    canonical = canonicalize(t);
    problem = make_problem(t, canonical);
    if (!fits_problem(t, canonical)) spelled = spelling_bytes(problem);
    else if (held_order(t, canonical) != nullptr) keys_checked = false;  // when it was made
  }
  const Case problem_case{t, canonical, problem, device};
  const bool writes = !empty && (!all_keys_bad(t) || problem.zero_dropped);
  const Strategy* strategy = writes ? &choose(problem_case, context.forced) : nullptr;
  const bool reported =
      strategy != nullptr && strategy->reports != nullptr && strategy->reports(problem_case);
  const bool flagged = !reported && keys_checked;
  Carver measure(nullptr);
  measure.take<Flag>(flagged ? 1 : 0);
  measure.take<char>(static_cast<int64_t>(spelled));
  measure.take<char>(strategy == nullptr ? 0
                                         : static_cast<int64_t>(strategy->workspace(problem_case)));
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  Flag* flag = carver.take<Flag>(flagged ? 1 : 0);
  char* spelling = carver.take<char>(static_cast<int64_t>(spelled));
  char* workspace = carver.take<char>(1);
  if (flagged)
    check(cudaMemsetAsync(flag, 0xff, sizeof(Flag), stream), "cuda");
  else
    flag = nullptr;
  if (spelled != 0) spell_out(problem, t, canonical, spelling, flag, stream);
  if (strategy != nullptr)
    strategy->run({context, problem_case, problem, device, stream, flag, workspace});
  if (flagged) report_bad_keys(context, t, flag, strategy == nullptr);
}

}  // namespace

void run_transfer(const CudaContext& context, const Transfer& t) {
  if (!sums_complex(t)) return run_plain(context, t);
  const size_t bytes = t.src.data == nullptr ? sizeof(t.scalar) : 0;
  const Scratch scratch(context, bytes);
  if (bytes != 0) put_scalar(t.scalar, scratch.data(), stream_of(context));
  run_plain(context, as_parts(t, scratch.data()));
}

namespace {

template <class F>
auto with_case(const CudaContext& context, const Transfer& transfer, F&& f) {
  const Transfer t = sums_complex(transfer) ? as_parts(transfer, nullptr) : transfer;
  Canonical canonical;
  Problem problem;
  if (t.mask_side == MaskSide::none) {
    canonical = canonicalize(t);
    problem = make_problem(t, canonical);
  }
  return f(Case{t, canonical, problem, device_state(context.device)});
}

}  // namespace

std::string explain_transfer(const CudaContext& context, const Transfer& transfer) {
  if (is_empty(transfer)) return "nothing to do";
  return with_case(context, transfer, [&](const Case& c) {
    const Strategy& strategy = choose(c, context.forced);
    return std::string(strategy.name) + ": " + strategy.says + ", " +
           std::to_string(strategy.workspace(c)) + " bytes of workspace" +
           (held_order(c.transfer, c.canonical) != nullptr ? "; index held: ordered once, used again" : "");
  });
}

bool forced_supports(const CudaContext& context, const Transfer& transfer) {
  if (context.forced == nullptr || is_empty(transfer)) return false;
  return with_case(context, transfer, [&](const Case& c) {
    for (const Strategy* strategy : strategies()) {
      if (std::strcmp(strategy->name, context.forced) == 0) return strategy->supports(c);
    }
    return false;
  });
}

}  // namespace sow::detail::cuda

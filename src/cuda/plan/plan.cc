// SPDX-License-Identifier: Apache-2.0
// Makes and runs plans: a Transfer becomes plain data, a strategy is chosen and lays itself out;
// every run binds addresses, launches, and records what failed.
#include "cuda/plan/plan.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "cuda/plan/materialise.h"
#include "cuda/runtime/scalar.h"
#include "cuda/sort/segments.h"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

void expect_aligned(const char* op, const void* data, int width) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0) return;
  throw BackendError{CudaStatus::device_error,
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
  return t.mask_side == MaskSide::none && has_parts(t.dtype) &&
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

// How the addresses lie within 16 bytes, which is all that plans take of them.
uint32_t alignment_facts(const Transfer& t) {
  uint32_t facts = 0;
  for (const Operand* operand : {&t.dst, &t.src, &t.base})
    facts = facts << 4 | (reinterpret_cast<uintptr_t>(operand->data) & 15);
  return facts;
}

// Calls f with the Case of a Transfer that is not empty, and where all of it is kept.
template <class F>
auto with_case(const CudaContext& context, const Transfer& t, Plan& plan, F&& f) {
  if (t.mask_side != MaskSide::none) {
    plan.mask = make_mask_problem(t);
  } else {
    plan.canonical = canonicalize(t);
    plan.problem = make_problem(t, plan.canonical);
    plan.held = held_order(t, plan.canonical) != nullptr;
    if (plan.problem.materialised) plan.table_bytes = materialised_bytes(plan.problem);
  }
  return f(Case{t, plan.canonical, plan.problem, plan.mask, device_state(context.device)});
}

// A Transfer as strategies take it: complex sums as sums of their parts.
class Simplified {
 public:
  explicit Simplified(const Transfer& t, char* parts) : given_(t) {
    if (sums_complex(t)) parts_.emplace(as_parts(t, parts));
  }
  const Transfer& operator*() const { return parts_ ? *parts_ : given_; }

 private:
  const Transfer& given_;
  std::optional<Transfer> parts_;
};

// For plans, which read nothing of a scalar's parts; as aligned as scratch memory is.
char* nowhere() { return reinterpret_cast<char*>(uintptr_t{256}); }

void run_bound(const CudaContext& context, const Transfer& t, const Plan& plan) {
  expect_all_aligned(t);
  const bool flagged = !plan.reports && !plan.held && must_check_keys(t);
  if (plan.strategy == nullptr && !flagged) return;
  const cudaStream_t stream = stream_of(context);
  Problem problem;
  MaskProblem mask;
  if (t.mask_side == MaskSide::none)
    problem = bound(plan.problem, t);
  else
    mask = bound(plan.mask, t);
  Carver measure(nullptr);
  measure.take<char>(static_cast<int64_t>(plan.table_bytes));
  measure.take<char>(static_cast<int64_t>(plan.workspace));
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  char* tables = carver.take<char>(static_cast<int64_t>(plan.table_bytes));
  char* workspace = carver.take<char>(1);
  Carver measure_zeroed(nullptr);
  measure_zeroed.take<Flag>(flagged ? 1 : 0);
  measure_zeroed.take<char>(static_cast<int64_t>(plan.zeroed));
  ZeroedScratch zeroed(context, measure_zeroed.used());
  Carver carver_zeroed(zeroed.data());
  Flag* flag = flagged ? carver_zeroed.take<Flag>(1) : nullptr;
  if (plan.table_bytes != 0) materialise(problem, t, plan.canonical, tables, flag, stream);
  if (plan.strategy != nullptr) {
    plan.strategy->run({context, t, plan, problem, mask, device_state(context.device), stream, flag,
                        workspace, carver_zeroed.take<char>(1)});
  }
  if (flagged) report_bad_keys(context, t, flag, plan.strategy == nullptr);
  zeroed.set_clean();
}

}  // namespace

Plan make_plan(const CudaContext& context, const Transfer& given) {
  Plan plan;
  plan.alignment = alignment_facts(given);
  plan.as_parts = sums_complex(given);
  if (is_empty(given)) return plan;
  const Simplified t(given, nowhere());
  with_case(context, *t, plan, [&](const Case& c) {
    if (all_keys_bad(*t) && !c.problem.zero_dropped) return;
    plan.strategy = &choose(c, context.forced);
    if (plan.strategy->lay_out != nullptr) plan.strategy->lay_out(c, plan);
  });
  plan.problem = without_addresses(plan.problem);
  plan.mask = without_addresses(plan.mask);
  return plan;
}

void run_plan(const CudaContext& context, const Transfer& given, const Plan& plan) {
  const size_t bytes = plan.as_parts && given.src.data == nullptr ? sizeof(given.scalar) : 0;
  const Scratch scratch(context, bytes);
  const Simplified t(given, scratch.data());
  const bool held = plan.strategy != nullptr && held_order(*t, plan.canonical) != nullptr;
  // A plan of a program does not know how its inputs will lie, nor which order will be held.
  if (plan.alignment != alignment_facts(given) || (plan.strategy != nullptr && plan.held != held))
    return run_plan(context, given, make_plan(context, given));
  if (bytes != 0) put_scalar(given.scalar, scratch.data(), stream_of(context));
  run_bound(context, *t, plan);
}

std::string describe(const Plan& plan) {
  if (plan.strategy == nullptr) return "nothing to do";
  std::string text = std::string(plan.strategy->name) + ": " + plan.strategy->summary;
  if (*plan.variant != 0) text += std::string("; ") + plan.variant;
  if (plan.as_parts) text += "; complex numbers as pairs of reals";
  if (plan.table_bytes != 0) text += "; offsets materialised";
  if (plan.held) text += "; index held: ordered once, used again";
  return text + "\n  workspace    " +
         std::to_string(plan.table_bytes + plan.workspace + plan.zeroed) + " bytes";
}

bool operator==(const Plan& a, const Plan& b) {
  return a.strategy == b.strategy && a.as_parts == b.as_parts && a.held == b.held &&
         a.reports == b.reports && a.alignment == b.alignment && a.table_bytes == b.table_bytes &&
         a.workspace == b.workspace && a.zeroed == b.zeroed &&
         std::strcmp(a.variant, b.variant) == 0;
}

bool forced_supports(const CudaContext& context, const Transfer& given) {
  if (context.forced == nullptr || is_empty(given)) return false;
  const Simplified t(given, nowhere());
  Plan plan;
  return with_case(context, *t, plan, [&](const Case& c) {
    for (const Strategy* strategy : strategies()) {
      if (std::strcmp(strategy->name, context.forced) == 0) return strategy->supports(c);
    }
    return false;
  });
}

}  // namespace sow::detail::cuda

// SPDX-License-Identifier: Apache-2.0
// Strategy "parts": a complex sum is two real ones, so that real and imaginary parts are two
// columns of one real Transfer, which is planned and run as any other.
#include "cpu/strategies.h"
#include "transfer/transfer.h"

namespace sow::detail {

namespace {

bool supports(const Transfer& t, const Canonical&) {
  return t.mask_side == MaskSide::none && is_complex(t.dtype) &&
         (t.reduce == Reduce::add || t.reduce == Reduce::mean);
}

void double_strides(Operand& operand) {
  for (int64_t& stride : operand.strides) stride *= 2;
  operand.strides.push_back(1);
}

// The parts as the last dimension. A scalar lies in `t`, which must outlive them.
Transfer parts_of(const Transfer& t) {
  Transfer parts = t;
  parts.dtype = t.dtype == DType::complex64 ? DType::float32 : DType::float64;
  parts.shape.push_back(2);
  if (t.src.data == nullptr) {
    parts.src.data = const_cast<char*>(reinterpret_cast<const char*>(t.scalar));
    parts.src.strides = Dims(t.shape.size(), 0);
  }
  double_strides(parts.dst);
  double_strides(parts.src);
  for (IndexOperands* operands : {&parts.dst_index, &parts.src_index}) {
    for (IndexOperand& index : *operands) {
      index.strides.push_back(0);
      index.scale *= 2;
    }
  }
  return parts;
}

std::shared_ptr<const InnerPlan> inner_of(const Transfer& t, const Canonical&, int threads) {
  const Transfer parts = parts_of(t);
  auto inner = std::make_shared<InnerPlan>();
  inner->canonical = canonicalize(parts);
  inner->plan = plan_for(parts, inner->canonical, threads);
  return inner;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const std::shared_ptr<const InnerPlan> made =
      plan.inner == nullptr ? inner_of(t, c, plan.threads) : nullptr;
  const InnerPlan& inner = made != nullptr ? *made : *plan.inner;
  if (!inner.plan.strategy->checks_keys) check_indices(t);
  inner.plan.strategy->run(parts_of(t), inner.canonical, inner.plan, memory);
}

}  // namespace

const Strategy k_parts = {
    .name = "parts",
    .summary = "real and imaginary parts as columns of real numbers",
    .supports = supports,
    .cost =
        [](const Transfer& t, const Canonical& c, int threads) {
          const auto inner = inner_of(t, c, threads);
          return inner->plan.strategy->cost(parts_of(t), inner->canonical, inner->plan.threads);
        },
    .workspace = [](const Transfer& t, const Canonical& c,
                    int threads) { return inner_of(t, c, threads)->plan.workspace; },
    .run = run,
    .inner = inner_of,
    .checks_keys = true,
};

}  // namespace sow::detail

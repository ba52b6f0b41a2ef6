// SPDX-License-Identifier: Apache-2.0
// Strategies and plans of the backend: as on the CPU, a strategy lives in a file of its own, and a
// Plan is what was chosen for a Transfer, whatever its data.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cuda/plan/problem.h"
#include "cuda/runtime/failure.h"
#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

struct Plan;

// What a strategy may look at: shapes, types, facts and the device, never the data.
struct Case {
  const Transfer& transfer;
  const Canonical& canonical;  // empty under a mask
  const Problem& problem;
  const MaskProblem& mask;  // filled in under a mask only
  const DeviceState& device;
};

// One run of a plan.
struct Launch {
  const CudaContext& context;
  const Transfer& transfer;
  const Plan& plan;
  const Problem& problem;   // the plan's, with this run's addresses
  const MaskProblem& mask;  // likewise
  const DeviceState& device;
  cudaStream_t stream;
  Flag* flag;  // null where nothing can be bad
  char* workspace;
  char* zeroed;  // all zero, and to be left so
};

struct Strategy {
  const char* name;
  const char* summary;  // one line for explain()
  bool (*supports)(const Case&);
  double (*cost)(const Case&);  // expected nanoseconds on the device
  // Fills in the plan's workspace, layout and other facts; null: there are none.
  void (*lay_out)(const Case&, Plan&);
  void (*run)(const Launch&);
};

// How a Transfer is done: everything that does not depend on data, on addresses (but for how they
// are aligned) or on a stream. It holds no memory of a device.
struct Plan {
  const Strategy* strategy = nullptr;  // null: nothing is written
  bool as_parts = false;               // complex sums, as sums of pairs of reals
  bool held = false;                   // by the order of a held index: keys were checked before
  bool reports = false;                // the strategy finds bad keys itself, without a flag
  uint32_t alignment = 0;              // of the addresses, as alignment_facts() says
  Canonical canonical;                 // empty under a mask
  Problem problem;                     // without addresses
  MaskProblem mask;                    // likewise
  size_t table_bytes = 0;              // of materialised offsets
  size_t workspace = 0;
  size_t zeroed = 0;                   // bytes of workspace that is zero before and after a run
  const char* variant = "";            // which of its ways the strategy takes, where it has several
  std::shared_ptr<const void> layout;  // of the strategy's own type

  template <class T>
  void set_layout(T value) {
    layout = std::make_shared<const T>(std::move(value));
  }
  template <class T>
  const T& layout_as() const {
    return *static_cast<const T*>(layout.get());
  }
};

std::span<const Strategy* const> strategies();
const Strategy& choose(const Case& problem_case, const char* forced);

// For costs: what a device of this kind moves, and what a launch costs.
inline constexpr double kBytesPerNs = 4000;
inline constexpr double kLaunchNs = 2500;
// What a call costs beside its strategy's launches where keys are checked by launches of their own.
inline constexpr double kCheckedCallNs = 4000;
// One launch that takes no longer is quicker than any two.
inline constexpr double kSmallCallNs = 6000;

}  // namespace sow::detail::cuda

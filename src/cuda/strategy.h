// Strategies of the backend: as on the CPU, each in a file of its own and listed in one array.
#pragma once

#include <span>

#include "cuda/failure.h"
#include "cuda/problem.h"
#include "cuda/runtime.h"

namespace sow::detail::cuda {

// What a strategy may look at: shapes, types, facts and the device, never the data.
struct Case {
  const Transfer& transfer;
  const Canonical& canonical;  // empty under a mask
  const Problem& problem;
  const DeviceState& device;
};

struct Launch {
  const CudaContext& context;
  const Case& problem_case;
  const Problem& problem;
  const DeviceState& device;
  cudaStream_t stream;
  Flag* flag;  // null where nothing can be bad
  char* workspace;
};

struct Strategy {
  const char* name;
  const char* says;
  bool (*supports)(const Case&);
  double (*cost)(const Case&);  // expected nanoseconds on the device
  size_t (*workspace)(const Case&);
  void (*run)(const Launch&);
  // Whether it tells failures itself, without a flag; null: never.
  bool (*reports)(const Case&) = nullptr;
};

std::span<const Strategy* const> strategies();
const Strategy& choose(const Case& problem_case, const char* forced);

// For costs: what a device of this kind moves, and what a launch costs.
inline constexpr double kBytesPerNs = 4000;
inline constexpr double kLaunchNs = 2500;
// What a call costs beside its strategy's launches where keys are checked and memory is asked for.
inline constexpr double kCheckedCallNs = 12000;

}  // namespace sow::detail::cuda

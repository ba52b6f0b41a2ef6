// SPDX-License-Identifier: Apache-2.0
// Materialised offsets, for problems of more dimensions or keys than a kernel parameter holds.
#pragma once

#include <vector>

#include "cuda/plan/problem.h"
#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

struct StridedAxis {
  int64_t size;
  int64_t stride;
};

// offsets[i] becomes the offset of row-major position i.
void write_offsets(int64_t* offsets, int64_t count, const std::vector<StridedAxis>& axes,
                   cudaStream_t stream);

size_t materialised_bytes(const Problem& problem);
// Replaces the walk and the keys of a problem that does not fit; bad keys set the flag.
void materialise(Problem& problem, const Transfer& transfer, const Canonical& canonical,
                 char* workspace, Flag* flag, cudaStream_t stream);

}  // namespace sow::detail::cuda

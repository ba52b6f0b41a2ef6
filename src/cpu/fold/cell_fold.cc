// SPDX-License-Identifier: Apache-2.0
// Lays out the memory of a CellFold.
#include "cpu/fold/cell_fold.h"

#include <algorithm>
#include <cstring>

#include "cpu/tuning.h"

namespace sow::detail {

CellFold::CellFold(const FoldKernels& kernels, int64_t cells, int64_t most_touched, int width,
                   Carver& carver)
    : kernels_(kernels), count_(cells), slots_(0) {
  cells_.width = width;
  cells_.counts = carver.take<uint32_t>(cells);
  cells_.states = carver.take<char>(cells * width * kernels.state_size);
  touched_.offsets = carver.take<int64_t>(most_touched);
  touched_.cells = carver.take<uint32_t>(most_touched);
  if (kernels.long_size > 0) {
    const int64_t bytes = int64_t{width} * kernels.long_size;
    slots_ = std::clamp<int64_t>(tuning::kRepairBytes / bytes, 1, most_touched);
    repairs_.longs = carver.take<char>(slots_ * bytes);
    repairs_.updates = carver.take<int64_t>(slots_);
  }
}

void CellFold::clear() {
  std::memset(cells_.counts, 0, static_cast<size_t>(count_) * sizeof(uint32_t));
}

}  // namespace sow::detail

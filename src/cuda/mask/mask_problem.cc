// SPDX-License-Identifier: Apache-2.0
// Collapses a masked Transfer's dimensions; their row-major order is kept, because ranks follow it.
#include "cuda/mask/mask.h"
#include "cuda/plan/materialise.h"

namespace sow::detail::cuda {

namespace {

struct MaskAxis {
  int64_t size;
  int64_t stride[4];
};

// Size-1 dimensions are dropped; neighbours that are one run in every operand are merged.
std::vector<MaskAxis> axes_of(const Transfer& t) {
  const Operand* operands[4] = {&t.mask, &t.dst, &t.src, &t.base};
  std::vector<MaskAxis> axes;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] == 1) continue;
    MaskAxis axis{t.shape[d], {}};
    for (int k = 0; k < 4; ++k) {
      const bool ranked = (k == MaskProblem::kDst && t.mask_side == MaskSide::destination) ||
                          (k == MaskProblem::kSrc && t.mask_side == MaskSide::source);
      if (!ranked && operands[k]->data != nullptr) axis.stride[k] = operands[k]->strides[d];
    }
    bool one_run = !axes.empty();
    for (int k = 0; one_run && k < 4; ++k)
      one_run = axes.back().stride[k] == axis.stride[k] * axis.size;
    if (one_run) {
      axis.size *= axes.back().size;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace

MaskProblem make_mask_problem(const Transfer& t) {
  MaskProblem p = bound(MaskProblem(), t);
  p.side = t.mask_side;
  p.rank_limit = t.rank_limit;
  p.rank_stride = t.rank_stride;
  p.width = width_of(t.dtype);
  const std::vector<MaskAxis> axes = axes_of(t);
  size_t leading = axes.size();
  while (leading > 0 && axes[leading - 1].stride[0] == 0) p.row *= axes[--leading].size;
  for (size_t i = 0; i < leading; ++i) p.mask_count *= axes[i].size;
  if (p.row <= INT32_MAX) p.row_divider.set(static_cast<uint32_t>(p.row));
  p.row_is_axis = axes.size() == leading + 1;
  for (int k = 0; k < 4 && p.row_is_axis; ++k) p.row_stride[k] = axes.back().stride[k];
  p.mask_dense = leading == 0 || (leading == 1 && axes[0].stride[0] == 1);
  p.all_dense = p.row == 1 && axes.size() <= 1;
  for (int k = 1; k < 4 && axes.size() == 1; ++k) {
    const bool used = k == MaskProblem::kDst   ? p.side != MaskSide::destination
                      : k == MaskProblem::kSrc ? p.side != MaskSide::source && p.src != nullptr
                                               : p.base != nullptr;
    if (used && axes[0].stride[k] != 1) p.all_dense = false;
  }
  p.materialised = axes.size() > static_cast<size_t>(kWalkAxes);
  if (p.materialised) return p;
  for (size_t i = 0; i < axes.size(); ++i) {
    p.walk.push(axes[i].size, axes[i].stride, 4);
    if (i < leading) p.mask_walk.push(axes[i].size, axes[i].stride, 1);
  }
  p.walk.finish();
  p.mask_walk.finish();
  return p;
}

size_t materialised_bytes(const MaskProblem& p) {
  if (!p.materialised) return 0;
  Carver carver(nullptr);
  for (int k = 0; k < 5; ++k) carver.take<int64_t>(k < 4 ? p.positions() : p.mask_count);
  return carver.used();
}

void materialise(MaskProblem& p, const Transfer& t, char* workspace, cudaStream_t stream) {
  if (!p.materialised) return;
  const std::vector<MaskAxis> axes = axes_of(t);
  Carver carver(workspace);
  for (int k = 0; k < 4; ++k) {
    int64_t* offsets = carver.take<int64_t>(p.positions());
    std::vector<StridedAxis> walk;
    for (const MaskAxis& axis : axes) walk.push_back({axis.size, axis.stride[k]});
    write_offsets(offsets, p.positions(), walk, stream);
    p.tables[k] = offsets;
  }
  int64_t* offsets = carver.take<int64_t>(p.mask_count);
  std::vector<StridedAxis> walk;
  int64_t count = p.mask_count;
  for (const MaskAxis& axis : axes) {
    if (count == 1) break;
    walk.push_back({axis.size, axis.stride[0]});
    count /= axis.size;
  }
  write_offsets(offsets, p.mask_count, walk, stream);
  p.mask_table = offsets;
}

}  // namespace sow::detail::cuda

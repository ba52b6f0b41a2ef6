// Reductions and assigns of any kind: positions sorted by place, then every place folded in order.
#include "cuda/decode.cuh"
#include "cuda/folds.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

namespace {

// The last position of each segment is moved; a unit is one element of a row.
template <int W>
__global__ void move_last(const __grid_constant__ Problem p, const __grid_constant__ Segments s, const Flag* flag) {
  using Unit = WordOf<W>;
  if (is_bad(flag)) return;
  const int64_t shorts = static_cast<int64_t>(s.counts->shorts);
  const int64_t total = (shorts + static_cast<int64_t>(s.counts->longs >> kChunkBits)) * p.row;
  for (int64_t unit = global_thread(); unit < total; unit += grid_threads()) {
    const int64_t which = unit / p.row, column = unit - which * p.row;
    const int64_t last = (which < shorts ? s.shorts[which].end : s.longs[which - shorts].end) - 1;
    const int64_t position = s.wide ? static_cast<int64_t>(static_cast<const uint64_t*>(s.order)[last])
                                    : static_cast<int64_t>(static_cast<const uint32_t*>(s.order)[last]);
    const int64_t dst = decode_dst(p, position), src = decode_src(p, position);
    reinterpret_cast<Unit*>(p.dst)[dst + column * p.row_dst] =
        p.src == nullptr ? *reinterpret_cast<const Unit*>(p.scalar)
                         : reinterpret_cast<const Unit*>(p.src)[src + column * p.row_src];
  }
}

bool supports(const Case& c) {
  if (c.transfer.mask_side != MaskSide::none) return false;
  if (c.transfer.reduce == Reduce::assign) return !c.transfer.dst_index.empty();
  // Sums of complex numbers come as sums of their parts.
  return c.problem.dtype < DType::complex64 || c.transfer.reduce == Reduce::mul;
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double positions = static_cast<double>(p.positions());
  const double sort = p.dst_keys == 0 ? 0 : 30000 + positions * 0.035;
  const double sectors = std::max<double>(static_cast<double>(p.row) * p.width, 32);
  return 8 * kLaunchNs + sort + positions * (sectors + 16) / kBytesPerNs;
}

char* carve_partials(Carver& carver, const Problem& p, const Segments& bounds) {
  return carver.take<char>(p.reduce == Reduce::assign
                               ? 0
                               : bounds.most_chunks * p.row * static_cast<int64_t>(kLargestPartial));
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  carver.take<char>(static_cast<int64_t>(segments_workspace(c)));
  carve_partials(carver, c.problem, segment_bounds(c.problem));
  return carver.used();
}

void run(const Launch& launch) {
  const Problem& p = launch.problem;
  Carver carver(launch.workspace);
  char* segments_memory = carver.take<char>(static_cast<int64_t>(segments_workspace(launch.problem_case)));
  char* partials = carve_partials(carver, p, segment_bounds(p));
  const Segments segments = make_segments(launch, segments_memory);
  if (p.reduce == Reduce::assign) {
    const int blocks = blocks_for(segments.most_shorts * p.row, kThreads, 16 * launch.device.processors);
    with_width(p.width, [&](auto w) {
      move_last<decltype(w)::value><<<blocks, kThreads, 0, launch.stream>>>(p, segments, launch.flag);
    });
    check_launch("ordered");
    return;
  }
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  if (p.dtype < DType::float16) fold_integers(launch, segments, partials);
  else if (sums) fold_sums(launch, segments, partials);
  else if (p.reduce == Reduce::mul) fold_products(launch, segments, partials);
  else fold_integers(launch, segments, partials);
}

}  // namespace

const Strategy kOrdered = {"ordered", "positions sorted by place, then every place folded in order",
                           supports, cost, workspace, run};

}  // namespace sow::detail::cuda

// SPDX-License-Identifier: Apache-2.0
// Both gradients of a masked_scatter in one pass over the gradient of its result: what the mask
// chose goes to the values by rank, the rest to the destination, with zeros where the mask chose.
#include "cuda/backward/backward.cuh"
#include "cuda/mask/mask.cuh"

namespace sow::detail::cuda {

namespace {

struct SplitArgs {
  MaskProblem p;  // src: the gradient; dst: that of the values
  char* rest;     // that of the destination
  MaskRanks ranks;
};

// A warp takes a part, as masks do it; the chosen are gathered in shared memory and written
// together.
template <int W>
__global__ void __launch_bounds__(kThreads)
    split_gradient(const __grid_constant__ SplitArgs a, int64_t parts) {
  using Unit = WordOf<W>;
  constexpr int V = 16 / W, kSteps = kMaskPart / (32 * V);
  __shared__ Unit chosen[kThreads / 32][kMaskPart];
  const int64_t part = global_thread() / 32;
  if (part >= parts) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = part * kMaskPart;
  const int here = static_cast<int>(min(a.p.mask_count - first, int64_t{kMaskPart}));
  const Unit* const from = reinterpret_cast<const Unit*>(a.p.src) + first;
  Unit* const rest = reinterpret_cast<Unit*>(a.rest) + first;
  Unit* const mine = chosen[threadIdx.x / 32];
  Pack<Unit, V> value[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int e = (s * 32 + lane) * V;
    if (e + V <= here) {
      value[s] = *reinterpret_cast<const Pack<Unit, V>*>(from + e);
      continue;
    }
    for (int k = 0; k < V; ++k) value[s].at[k] = e + k < here ? from[e + k] : Unit{};
  }
  const uint32_t bits = a.ranks.bits[part * 32 + lane];
  const int64_t base = rank_of_part(a.ranks, part);
  const int inclusive = scan_warp(__popc(bits));
  const int before = inclusive - __popc(bits), total = __shfl_sync(~0u, inclusive, 31);
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int e = (s * 32 + lane) * V;
    const uint32_t group = __shfl_sync(~0u, bits, e / 16);
    int rank = __shfl_sync(~0u, before, e / 16) + __popc(group & ((1u << (e % 16)) - 1));
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (((group >> (e % 16 + k)) & 1) == 0) continue;
      mine[rank++] = value[s].at[k];
      value[s].at[k] = Unit{};
    }
    if (e + V <= here) {
      *reinterpret_cast<Pack<Unit, V>*>(rest + e) = value[s];
      continue;
    }
    for (int k = 0; k < V && e + k < here; ++k) rest[e + k] = value[s].at[k];
  }
  __syncwarp();
  // Too few values were told by the forward call.
  const int64_t room = a.p.rank_limit - base;
  for (int i = lane; i < total && i < room; i += 32)
    reinterpret_cast<Unit*>(a.p.dst)[base + i] = mine[i];
}

// Values that no true asked for have no gradient.
template <int W>
__global__ void __launch_bounds__(kThreads) clear_values(const __grid_constant__ SplitArgs a) {
  for (int64_t i = *a.ranks.total + global_thread(); i < a.p.rank_limit; i += grid_threads()) {
    reinterpret_cast<WordOf<W>*>(a.p.dst)[i] = WordOf<W>{};
  }
}

}  // namespace

bool run_mask_backward(const CudaContext& context, const IndexedBackward& work,
                       const Transfer& compress) {
  if (work.x_grad == nullptr || compress.mask_side != MaskSide::destination) return false;
  SplitArgs a = {make_mask_problem(compress), work.x_grad, {}};
  const auto address = [](const void* data) { return reinterpret_cast<uintptr_t>(data); };
  if (a.p.width < 2 || a.p.width > 8) return false;
  if (!a.p.all_dense || a.p.rank_stride != 1 || (address(a.p.src) | address(a.rest)) % 16 != 0)
    return false;
  const int64_t tiles = mask_tiles(a.p), parts = (a.p.mask_count + kMaskPart - 1) / kMaskPart;
  if (tiles == 0) return false;
  Carver measure(nullptr);
  carve_ranks(measure, tiles, true);
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  a.ranks = carve_ranks(carver, tiles, true);
  const DeviceState& device = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  ZeroedScratch head(context, sizeof(ScanHead));
  scan_mask(a.p, a.ranks, reinterpret_cast<ScanHead*>(head.data()), nullptr, stream);
  head.set_clean();
  with_width(a.p.width, [&](auto w) {
    constexpr int W = decltype(w)::value;
    if constexpr (W == 2 || W == 4 || W == 8) {
      split_gradient<W><<<blocks_for(parts, kThreads / 32), kThreads, 0, stream>>>(a, parts);
      clear_values<W>
          <<<blocks_for(a.p.rank_limit, 4 * kThreads, device.processors), kThreads, 0, stream>>>(a);
    }
  });
  check_launch("backward");
  return true;
}

}  // namespace sow::detail::cuda

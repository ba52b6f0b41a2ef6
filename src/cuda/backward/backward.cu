// SPDX-License-Identifier: Apache-2.0
// The gradients of mean, amax and amin without intermediate tensors: how many share a place's
// gradient is counted, the shares are worked out once a place, and every update takes its own.
// Counting adds integers, so that no order changes the result; the bits are those of the rules in
// src/ops.
#include "cuda/backward/backward.h"

#include "cuda/backward/backward.cuh"
#include "cuda/backward/backward_rules.cuh"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

namespace {

// A bad key was told by the forward call, and takes no part here.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    find_attaining(const __grid_constant__ BackwardArgs<T> a) {
  for_each_group<T, V>(a, [&](int64_t group, int64_t place, int64_t dst, int64_t src) {
    uint32_t bits = 0;
    if (place >= 0) {
      const Pack<T, V> source = load<T, V>(a.source, src), result = load<T, V>(a.result, dst);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (!same_value(source.at[v], result.at[v])) continue;
        bits |= 1u << v;
        atomicAdd(a.shares + dst + v, 1u);
      }
    }
    a.attains[group] = static_cast<uint8_t>(bits);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    share_extremes(const __grid_constant__ BackwardArgs<T> a) {
  for (int64_t i = global_thread(); i < a.elements; i += grid_threads()) {
    const bool self = a.include_self && same_value(a.x[i], a.result[i]);
    const uint32_t shares = a.shares[i] + (self ? 1 : 0);
    const T part = share_of(a.grad[i], shares);
    a.part[i] = part;
    if (a.x_grad == nullptr) continue;
    // Without itself a touched place has somebody who attains it, and an untouched one keeps its
    // gradient.
    if (a.include_self)
      a.x_grad[i] = self ? part : zero_of<T>();
    else if (shares != 0)
      a.x_grad[i] = zero_of<T>();
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    give_attaining(const __grid_constant__ BackwardArgs<T> a) {
  for_each_group<T, V>(a, [&](int64_t group, int64_t, int64_t dst, int64_t src) {
    const uint32_t bits = a.attains[group];
    Pack<T, V> out = {};
    if (bits != 0) {
      const Pack<T, V> part = load<T, V>(a.part, dst);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if ((bits >> v & 1) != 0) out.at[v] = part.at[v];
      }
    }
    *reinterpret_cast<Pack<T, V>*>(a.source_grad + src) = out;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_updates(const __grid_constant__ BackwardArgs<T> a) {
  const bool simple = is_simple(a.p);
  for (int64_t i = global_thread(); i < a.positions; i += grid_threads()) {
    int64_t src = 0;
    bool bad = false;
    const int64_t place = place_of(a.p, simple, i, src, bad);
    if (place >= 0) atomicAdd(a.shares + place, 1u);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) share_means(const __grid_constant__ BackwardArgs<T> a) {
  const int64_t columns = a.columns, count = a.p.places * columns;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    const int64_t place = i / columns;
    const int64_t at = offset_of_place(a.p, place) + column_at(a.p, i - place * columns).dst;
    a.part[at] = share_of(a.grad[at], a.shares[place] + (a.include_self ? 1 : 0));
  }
}

template <class T, int V>
void run_extremes(const BackwardArgs<T>& a, int blocks, cudaStream_t stream) {
  check(cudaMemsetAsync(a.shares, 0, static_cast<size_t>(a.elements) * sizeof(uint32_t), stream),
        "backward");
  find_attaining<T, V><<<blocks, kThreads, 0, stream>>>(a);
  share_extremes<T><<<blocks, kThreads, 0, stream>>>(a);
  if (a.source_grad != nullptr) give_attaining<T, V><<<blocks, kThreads, 0, stream>>>(a);
}

template <class T>
bool run_typed(const CudaContext& context, const IndexedBackward& work, const Problem& p,
               int64_t elements) {
  const DeviceState& device = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  const bool mean = work.reduce == Reduce::mean;
  const int blocks = blocks_for(p.positions() * p.columns(), 4 * kThreads, 32 * device.processors);
  BackwardArgs<T> a = backward_args<T>(work, p, elements);
  const int64_t shares = mean ? p.places : a.elements;
  const int64_t groups = mean ? 0 : p.positions() * p.columns() / (is_dense(p) ? 4 : 1);
  Carver measure(nullptr);
  measure.take<uint32_t>(shares);
  measure.take<T>(mean ? 0 : a.elements);
  measure.take<uint8_t>(groups);
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  a.shares = carver.take<uint32_t>(shares);
  a.part = carver.take<T>(mean ? 0 : a.elements);
  a.attains = carver.take<uint8_t>(groups);
  if (mean) {
    a.part = a.x_grad;  // gathered afterwards
    check(cudaMemsetAsync(a.shares, 0, static_cast<size_t>(shares) * sizeof(uint32_t), stream),
          "backward");
    count_updates<T><<<blocks, kThreads, 0, stream>>>(a);
    share_means<T><<<blocks, kThreads, 0, stream>>>(a);
  } else if (is_dense(p)) {
    run_extremes<T, 4>(a, blocks, stream);
  } else {
    run_extremes<T, 1>(a, blocks, stream);
  }
  check_launch("backward");
  return true;
}

// Whether rows of four can be read and written as one: offsets are multiples of four elements, and
// so are the addresses.
bool groups_are_aligned(const IndexedBackward& work, const Problem& p) {
  const auto width = static_cast<uintptr_t>(4 * p.width);
  for (const char* data :
       {work.grad, work.result, work.source, static_cast<const char*>(work.source_grad)}) {
    if (reinterpret_cast<uintptr_t>(data) % width != 0) return false;
  }
  for (int i = 0; i < p.walk.rank; ++i) {
    if (p.walk.axis[i].stride[0] % 4 != 0 || p.walk.axis[i].stride[1] % 4 != 0) return false;
  }
  for (int i = 0; i < p.free.rank; ++i) {
    if (p.free.axis[i].stride[0] % 4 != 0 || p.free.axis[i].stride[1] % 4 != 0) return false;
  }
  for (int k = 0; k < p.dst_keys; ++k) {
    if (p.keys[k].scale % 4 != 0) return false;
  }
  return true;
}

}  // namespace

bool run_backward(const CudaContext& context, const IndexedBackward& work, const Transfer& places,
                  int64_t elements) {
  if (places.mask_side != MaskSide::none) return run_mask_backward(context, work, places);
  const bool mean = work.reduce == Reduce::mean, assign = work.reduce == Reduce::assign;
  if (work.reduce == Reduce::add || is_whole(work.dtype)) return false;
  if (has_parts(work.dtype) && !assign) return false;
  const Canonical canonical = canonicalize(places);
  if (!fits_problem(places, canonical)) return false;
  const Problem p = make_problem(places, canonical);
  if (p.dst_keys == 0 || p.src_keys != 0 || p.places <= 0 || p.positions() >= UINT32_MAX)
    return false;
  if (assign) return run_assign_backward(context, work, p);
  const bool whole = p.places * p.columns() == elements;
  if (mean && (work.x_grad == nullptr || !whole)) return false;
  if (!mean && is_dense(p) && !groups_are_aligned(work, p)) return false;
  if (!mean && run_rows_backward(context, work, places, canonical, p, elements)) return true;
  if (work.reduce == Reduce::mul)
    return whole && run_product_backward(context, work, places, p, elements);
  return with_type<float, double, float16, bfloat16>(
      work.dtype, [&](auto zero) { return run_typed<decltype(zero)>(context, work, p, elements); });
}

}  // namespace sow::detail::cuda

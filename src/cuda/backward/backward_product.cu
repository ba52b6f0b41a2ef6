// SPDX-License-Identifier: Apache-2.0
// The gradient of a product: each factor's is the product of the others, (g * P) / f, where P is
// the product of a place's factors that are not zero, folded in float64 as products are. With one
// zero only the zero itself has a gradient, with two nobody has.
#include "cuda/backward/backward.cuh"
#include "cuda/backward/backward_rules.cuh"
#include "cuda/plan/plan.h"

namespace sow::detail::cuda {

namespace {

template <class T>
struct ProductArgs {
  BackwardArgs<T> b;  // shares: zeros by element
  double* factors;    // by element of the source, zeros as ones
  double* product;    // by element of the destination; then weighted by the gradient
  uint8_t* zeros;     // by element: none, one, more
  uint8_t* touched;   // by place
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    spread_factors(const __grid_constant__ ProductArgs<T> a) {
  for_each_group<T, V>(a.b, [&](int64_t, int64_t place, int64_t dst, int64_t src) {
    const Pack<T, V> source = load<T, V>(a.b.source, src);
    Pack<double, V> factors;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const double factor = static_cast<double>(source.at[v]);
      factors.at[v] = factor == 0 ? 1 : factor;
      if (factor == 0 && place >= 0) atomicAdd(a.b.shares + dst + v, 1u);
    }
    *reinterpret_cast<Pack<double, V>*>(a.factors + src) = factors;
    if (place >= 0) a.touched[place] = 1;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    begin_products(const __grid_constant__ ProductArgs<T> a) {
  for (int64_t i = global_thread(); i < a.b.elements; i += grid_threads()) {
    const double self = a.b.include_self ? static_cast<double>(a.b.x[i]) : 1;
    a.product[i] = self == 0 ? 1 : self;
    a.b.shares[i] = self == 0 ? 1 : 0;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    weigh_products(const __grid_constant__ ProductArgs<T> a) {
  const Problem& p = a.b.p;
  const int64_t columns = a.b.columns, count = p.places * columns;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    const int64_t place = i / columns;
    const int64_t at = offset_of_place(p, place) + column_at(p, i - place * columns).dst;
    const double weighted = plain(static_cast<double>(a.b.grad[at]) * a.product[at]);
    const uint32_t zeros = a.b.shares[at];
    a.product[at] = weighted;
    a.zeros[at] = static_cast<uint8_t>(zeros < 2 ? zeros : 2);
    if (a.b.x_grad == nullptr || !a.b.include_self || a.touched[place] == 0) continue;
    a.b.x_grad[at] = factor_gradient<T>(a.b.x[at], weighted, zeros);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    give_products(const __grid_constant__ ProductArgs<T> a) {
  for_each_group<T, V>(a.b, [&](int64_t, int64_t place, int64_t dst, int64_t src) {
    Pack<T, V> out = {};
    if (place >= 0) {
      const Pack<T, V> source = load<T, V>(a.b.source, src);
      const Pack<double, V> weighted = load<double, V>(a.product, dst);
      const Pack<uint8_t, V> zeros = load<uint8_t, V>(a.zeros, dst);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        out.at[v] = factor_gradient<T>(source.at[v], weighted.at[v], zeros.at[v]);
      }
    }
    *reinterpret_cast<Pack<T, V>*>(a.b.source_grad + src) = out;
  });
}

// The products themselves, by the ways that all products go.
template <class T>
void fold_products_of(const CudaContext& context, const IndexedBackward& work,
                      const Transfer& places, const ProductArgs<T>& a) {
  Transfer fold = places;
  fold.dtype = DType::float64;
  fold.dst.data = reinterpret_cast<char*>(a.product);
  fold.src.data = reinterpret_cast<char*>(a.factors);
  fold.reduce = Reduce::mul;
  fold.include_self = work.include_self;
  fold.negate = false;
  run_plan(context, fold, make_plan(context, fold));
}

template <class T>
bool run_typed(const CudaContext& context, const IndexedBackward& work, const Transfer& places,
               const Problem& p, int64_t elements) {
  const DeviceState& device = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  ProductArgs<T> a = {};
  a.b = backward_args<T>(work, p, elements);
  const int64_t sources = p.positions() * p.columns();
  const auto carve = [&](Carver& carver) {
    a.factors = carver.take<double>(sources);
    a.product = carver.take<double>(a.b.elements);
    a.b.shares = carver.take<uint32_t>(a.b.elements);
    a.zeros = carver.take<uint8_t>(a.b.elements);
    a.touched = carver.take<uint8_t>(p.places);
  };
  Carver measure(nullptr);
  carve(measure);
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  carve(carver);
  const int blocks = blocks_for(sources, 4 * kThreads, 32 * device.processors);
  check(cudaMemsetAsync(a.touched, 0, static_cast<size_t>(p.places), stream), "backward");
  begin_products<T><<<blocks, kThreads, 0, stream>>>(a);
  if (is_dense(p))
    spread_factors<T, 4><<<blocks, kThreads, 0, stream>>>(a);
  else
    spread_factors<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  check_launch("backward");
  fold_products_of(context, work, places, a);
  weigh_products<T><<<blocks, kThreads, 0, stream>>>(a);
  if (a.b.source_grad != nullptr) {
    if (is_dense(p))
      give_products<T, 4><<<blocks, kThreads, 0, stream>>>(a);
    else
      give_products<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  }
  check_launch("backward");
  return true;
}

}  // namespace

bool run_product_backward(const CudaContext& context, const IndexedBackward& work,
                          const Transfer& places, const Problem& p, int64_t elements) {
  return with_type<float, double, float16, bfloat16>(work.dtype, [&](auto zero) {
    return run_typed<decltype(zero)>(context, work, places, p, elements);
  });
}

}  // namespace sow::detail::cuda

// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: one kernel per computing type serves all element types, with the CPU's
// bits.
#include "cuda/map/map.h"

#include <cstring>

#include "core/power.h"
#include "cuda/common/decode.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/map/map_number.cuh"
#include "cuda/plan/materialise.h"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

namespace {

struct MapArgs {
  MapOp op;
  int arity;
  int64_t count;
  Walk walk;                  // slots 0 to 2
  const int64_t* offsets[3];  // where the dimensions are too many for it
  const char* in[3];          // null: the scalar
  DType in_dtype[3];
  char* out;
  DType out_dtype;
  alignas(16) unsigned char scalar[16];
  double exponent;
};

__device__ inline void offsets_at(const MapArgs& a, int64_t i, int64_t (&at)[3]) {
  if (a.offsets[0] != nullptr) {
    for (int k = 0; k < 3; ++k) at[k] = a.offsets[k][i];
  } else {
    walk_to(a.walk, i, 3, at);
  }
}

template <class C>
__device__ inline C operand(const MapArgs& a, int k, int64_t offset) {
  if (a.in[k] == nullptr)
    return load_as<C>(reinterpret_cast<const char*>(a.scalar), a.in_dtype[k], 0);
  return load_as<C>(a.in[k], a.in_dtype[k], offset);
}

template <class C>
__device__ inline C plain_nan(C value) {
  if constexpr (std::is_integral_v<C>)
    return value;
  else if constexpr (is_pair<C>)
    return {plain_nan(value.re), plain_nan(value.im)};
  else
    return value == value ? value : quiet_nan<C>();
}

template <class C>
__device__ inline C product(C x, C y) {
  if constexpr (is_pair<C>)
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  else if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else
    return x * y;
}

// Scaled by the larger part of the divisor, so that nothing overflows on the way.
template <class C>
__device__ inline C quotient(C x, C y) {
  if constexpr (is_pair<C>) {
    using R = decltype(C::re);
    if (fabs(y.re) >= fabs(y.im)) {
      const R ratio = y.im / y.re, scale = y.re + y.im * ratio;
      return {(x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale};
    }
    const R ratio = y.re / y.im, scale = y.re * ratio + y.im;
    return {(x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale};
  } else if constexpr (std::is_integral_v<C>) {
    return y;  // no operation divides integers
  } else {
    return x / y;
  }
}

template <class C>
__device__ inline C one() {
  if constexpr (is_pair<C>)
    return {1, 0};
  else
    return 1;
}

template <class C>
__device__ inline C power(C base, double exponent) {
  if (is_pair<C> || (exponent == trunc(exponent) && fabs(exponent) <= 64)) {
    C result = one<C>();
    auto left = static_cast<uint64_t>(fabs(exponent));
    for (C factor = base; left != 0; left >>= 1, factor = product(factor, factor)) {
      if (left & 1) result = product(result, factor);
    }
    return exponent < 0 ? quotient(one<C>(), result) : result;
  }
  if constexpr (std::is_same_v<C, double>)
    return real_power(base, exponent);
  else
    return base;
}

template <class C>
__device__ inline C sum(C x, C y, bool negate) {
  if constexpr (is_pair<C>)
    return negate ? C{x.re - y.re, x.im - y.im} : C{x.re + y.re, x.im + y.im};
  else if constexpr (std::is_integral_v<C>) {
    const uint64_t a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    return static_cast<C>(negate ? a - b : a + b);
  } else {
    return negate ? x - y : x + y;
  }
}

// Integers of at most 64 bits: the one overflow, of the least by -1, has no rest.
template <class C>
__device__ inline C rest_of(C x, C y) {
  if constexpr (std::is_integral_v<C>) {
    if constexpr (std::is_unsigned_v<C>) {
      return y == 0 ? 0 : x % y;
    } else {
      if (y == 0 || y == -1) return 0;
      const C rest = x % y;
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
  } else if constexpr (is_pair<C>) {
    return x;  // no operation asks for it
  } else {
    const C rest = fmod(x, y);
    if (rest == 0) return copysign(rest, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
  }
}

template <class C>
__device__ inline C bits_of(MapOp op, C x, C y) {
  if constexpr (std::is_integral_v<C>) {
    return op == MapOp::bit_and ? x & y : op == MapOp::bit_or ? x | y : x ^ y;
  } else {
    return x;  // no operation asks for it
  }
}

template <class C>
__device__ inline C compute(const MapArgs& a, C x, C y) {
  switch (a.op) {
    case MapOp::add:
      return sum(x, y, false);
    case MapOp::sub:
      return sum(x, y, true);
    case MapOp::mul:
      return product(x, y);
    case MapOp::div:
      return quotient(x, y);
    case MapOp::neg:
      if constexpr (is_pair<C>)
        return {-x.re, -x.im};
      else if constexpr (std::is_integral_v<C>)
        return sum(C(0), x, true);
      else
        return -x;
    case MapOp::conj:
      if constexpr (is_pair<C>)
        return {x.re, -x.im};
      else
        return x;
    case MapOp::abs:
      if constexpr (is_pair<C> || std::is_unsigned_v<C>)
        return x;  // of pairs no operation asks for it
      else if constexpr (std::is_integral_v<C>)
        return x < 0 ? sum(C(0), x, true) : x;
      else
        return fabs(x);
    case MapOp::exp:
      if constexpr (std::is_same_v<C, double>)
        return real_exponential(x);
      else
        return x;  // no operation asks for it
    case MapOp::log:
      if constexpr (std::is_same_v<C, double>)
        return real_logarithm(x);
      else
        return x;
    case MapOp::rest:
      return rest_of(x, y);
    case MapOp::bit_and:
    case MapOp::bit_or:
    case MapOp::bit_xor:
      return bits_of(a.op, x, y);
    default:
      if constexpr (std::is_integral_v<C>)
        return x;
      else
        return power(x, a.exponent);
  }
}

template <class C>
__device__ inline bool same_value(C x, C y) {
  if constexpr (is_pair<C>)
    return same_value(x.re, y.re) && same_value(x.im, y.im);
  else if constexpr (std::is_integral_v<C>)
    return x == y;
  else {
    using Bits = typename FloatTraits<C>::Bits;
    return bit_cast<Bits>(x) == bit_cast<Bits>(y) || (x != x && y != y);
  }
}

template <class C>
__device__ inline bool compare(MapOp op, C x, C y) {
  if (op == MapOp::same) return same_value(x, y);
  if constexpr (is_pair<C>) {
    const bool equal = x.re == y.re && x.im == y.im;
    return op == MapOp::eq ? equal : !equal;
  } else {
    switch (op) {
      case MapOp::eq:
        return x == y;
      case MapOp::ne:
        return x != y;
      case MapOp::lt:
        return x < y;
      case MapOp::le:
        return x <= y;
      case MapOp::gt:
        return x > y;
      default:
        return x >= y;
    }
  }
}

// One element, whatever the operation; C is the type it is computed in.
template <class C>
__global__ void __launch_bounds__(kThreads) map_elements(const __grid_constant__ MapArgs a) {
  for (int64_t i = global_thread(); i < a.count; i += grid_threads()) {
    int64_t at[3] = {};
    offsets_at(a, i, at);
    const C x = operand<C>(a, 0, at[0]);
    if (a.op == MapOp::cast) {
      store_as(x, a.out, a.out_dtype, i);
    } else if (a.op == MapOp::share) {
      if constexpr (!std::is_integral_v<C>) {
        const int64_t parts = max(operand<int64_t>(a, 1, at[1]), int64_t{1});
        const double by = static_cast<double>(parts);
        if constexpr (is_pair<C>)
          store_as(plain_nan(C{static_cast<decltype(C::re)>(x.re / by),
                               static_cast<decltype(C::re)>(x.im / by)}),
                   a.out, a.out_dtype, i);
        else
          store_as(plain_nan(static_cast<C>(x / by)), a.out, a.out_dtype, i);
      }
    } else {
      const C y = a.arity > 1 ? operand<C>(a, 1, at[1]) : x;
      if (a.op >= MapOp::eq && a.op <= MapOp::same) {
        reinterpret_cast<uint8_t*>(a.out)[i] = compare(a.op, x, y);
      } else {
        store_as(plain_nan(compute(a, x, y)), a.out, a.out_dtype, i);
      }
    }
  }
}

// Moves bytes: NaN payloads stay.
template <int W>
__global__ void __launch_bounds__(kThreads) map_where(const __grid_constant__ MapArgs a) {
  using Unit = WordOf<W>;
  for (int64_t i = global_thread(); i < a.count; i += grid_threads()) {
    int64_t at[3] = {};
    offsets_at(a, i, at);
    const char* flag =
        a.in[0] == nullptr ? reinterpret_cast<const char*>(a.scalar) : a.in[0] + at[0];
    const int k = *flag != 0 ? 1 : 2;
    reinterpret_cast<Unit*>(a.out)[i] = a.in[k] == nullptr
                                            ? *reinterpret_cast<const Unit*>(a.scalar)
                                            : reinterpret_cast<const Unit*>(a.in[k])[at[k]];
  }
}

// The same where everything is one run of memory: 16 bytes a thread and step.
template <int W>
__global__ void __launch_bounds__(kThreads) map_where_dense(const __grid_constant__ MapArgs a) {
  using Unit = WordOf<W>;
  constexpr int V = 16 / W;
  const Unit scalar = *reinterpret_cast<const Unit*>(a.scalar);
  for (int64_t i = global_thread(); i < a.count / V; i += grid_threads()) {
    const Pack<uint8_t, V> flags = reinterpret_cast<const Pack<uint8_t, V>*>(a.in[0])[i];
    Pack<Unit, V> sides[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (a.in[1 + k] != nullptr)
        sides[k] = reinterpret_cast<const Pack<Unit, V>*>(a.in[1 + k])[i];
      else
        for (int v = 0; v < V; ++v) sides[k].at[v] = scalar;
    }
    Pack<Unit, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) out.at[v] = flags.at[v] != 0 ? sides[0].at[v] : sides[1].at[v];
    reinterpret_cast<Pack<Unit, V>*>(a.out)[i] = out;
  }
  const int64_t i = a.count / V * V + global_thread();
  if (i >= a.count) return;
  const int k = a.in[0][i] != 0 ? 1 : 2;
  reinterpret_cast<Unit*>(a.out)[i] =
      a.in[k] == nullptr ? scalar : reinterpret_cast<const Unit*>(a.in[k])[i];
}

struct MapAxis {
  int64_t size;
  int64_t stride[3];
};

std::vector<MapAxis> axes_of(const Map& map) {
  std::vector<MapAxis> axes;
  for (int d = 0; d < map.shape.rank(); ++d) {
    if (map.shape[d] == 1) continue;
    MapAxis axis{map.shape[d], {}};
    for (int k = 0; k < map.arity; ++k)
      axis.stride[k] = map.in[k].data == nullptr ? 0 : map.in[k].strides[d];
    bool one_run = !axes.empty();
    for (int k = 0; one_run && k < 3; ++k)
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

template <class C>
void launch_as(const MapArgs& a, const DeviceState& device, cudaStream_t stream) {
  map_elements<C>
      <<<blocks_for(a.count, kThreads, 64 * device.processors), kThreads, 0, stream>>>(a);
}

void launch(const MapArgs& a, const DeviceState& device, cudaStream_t stream) {
  const DType dtype = a.in_dtype[0];
  const bool in_double = a.op == MapOp::pow || a.op == MapOp::share || a.op == MapOp::cast ||
                         a.op == MapOp::exp || a.op == MapOp::log;
  if (has_parts(dtype)) {
    if (dtype == DType::complex128 || in_double)
      launch_as<Pair<double>>(a, device, stream);
    else
      launch_as<Pair<float>>(a, device, stream);
  } else if (dtype == DType::uint64) {
    launch_as<uint64_t>(a, device, stream);
  } else if (is_whole(dtype)) {
    launch_as<int64_t>(a, device, stream);
  } else if (dtype == DType::float64 || in_double) {
    launch_as<double>(a, device, stream);
  } else {
    launch_as<float>(a, device, stream);
  }
}

// Whether map_where_dense does: one axis at most, steps of one element, addresses in multiples
// of 16.
bool is_dense_where(const MapArgs& a, const std::vector<MapAxis>& axes) {
  if (axes.size() != 1 || a.in[0] == nullptr || reinterpret_cast<uintptr_t>(a.out) % 16 != 0)
    return false;
  for (int k = 0; k < 3; ++k) {
    if (a.in[k] == nullptr) continue;
    if (axes[0].stride[k] != 1 || reinterpret_cast<uintptr_t>(a.in[k]) % 16 != 0) return false;
  }
  return true;
}

}  // namespace

void run_map(const CudaContext& context, const Map& map) {
  const DeviceState& device = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  MapArgs a = {};
  a.op = map.op;
  a.arity = map.arity;
  a.out = map.out;
  a.out_dtype = map.out_dtype;
  a.exponent = map.exponent;
  std::memcpy(a.scalar, map.scalar, sizeof(a.scalar));
  for (int k = 0; k < map.arity; ++k) {
    a.in[k] = map.in[k].data;
    a.in_dtype[k] = map.in[k].dtype;
  }
  const std::vector<MapAxis> axes = axes_of(map);
  a.count = 1;
  for (const MapAxis& axis : axes) a.count *= axis.size;
  const bool fits = axes.size() <= static_cast<size_t>(kWalkAxes);
  Carver measure(nullptr);
  for (int k = 0; k < 3 && !fits; ++k) measure.take<int64_t>(a.count);
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  for (int k = 0; k < 3 && !fits; ++k) {
    int64_t* offsets = carver.take<int64_t>(a.count);
    std::vector<StridedAxis> walk;
    for (const MapAxis& axis : axes) walk.push_back({axis.size, axis.stride[k]});
    write_offsets(offsets, a.count, walk, stream);
    a.offsets[k] = offsets;
  }
  for (size_t i = 0; i < axes.size() && fits; ++i) a.walk.push(axes[i].size, axes[i].stride, 3);
  if (fits) a.walk.finish();
  if (map.op == MapOp::where && is_dense_where(a, axes)) {
    const int width = width_of(map.out_dtype);
    const int blocks = blocks_for(a.count * width / 16, kThreads, 16 * device.processors);
    with_width(width, [&](auto w) {
      map_where_dense<decltype(w)::value><<<blocks, kThreads, 0, stream>>>(a);
    });
  } else if (map.op == MapOp::where) {
    with_width(width_of(map.out_dtype), [&](auto w) {
      map_where<decltype(w)::value>
          <<<blocks_for(a.count, kThreads, 64 * device.processors), kThreads, 0, stream>>>(a);
    });
  } else {
    launch(a, device, stream);
  }
  check_launch("map");
}

}  // namespace sow::detail::cuda

// SPDX-License-Identifier: Apache-2.0
// Exact sums as device code: that nvcc accepts every part of them, for every type.
#include <cstdint>

#include "core/exact/exact_sum.h"
#include "limbs.h"

namespace sow::test {
namespace {

template <class T>
struct DeviceSums {
  T long_sum;
  T limb_sum;
  T checked_sum;
  double long_double;
  double limb_double;
  double checked_double;
  bool certain;
};

template <class T, int Parts>
__device__ void sum_checked(const T* terms, int64_t count, DeviceSums<T>* out) {
  detail::CheckedSum<T, Parts> sum;
  detail::CheckedSum<T, Parts> other;
  for (int64_t i = 0; i < count; ++i) (i & 1 ? sum : other).add(terms[i]);
  other.sub(terms[0]);
  sum.merge(other);
  out->certain = sum.exact() | sum.round_to(out->checked_sum) | sum.to_double(out->checked_double);
}

template <class T>
__device__ void sum_long(const T* terms, int64_t count, DeviceSums<T>* out) {
  detail::LongAccumulator<T> sum;
  detail::LongAccumulator<T> other;
  for (int64_t i = 0; i < count; ++i) (i & 1 ? sum : other).add(terms[i]);
  other.sub(terms[0]);
  other.add_part(detail::widen(terms[0]));
  sum.merge(other);
  out->long_sum = sum.round();
  out->long_double = sum.to_double();
}

template <class T>
__device__ void sum_limbs(const T* terms, int64_t count, DeviceSums<T>* out) {
  detail::Limbs<T> sum;
  detail::Limbs<T> other;
  for (int64_t i = 0; i < count; ++i) (i & 1 ? sum : other).add(terms[i]);
  other.sub(terms[0]);
  other.carry();
  sum.merge(other);
  out->limb_sum = sum.round();
  out->limb_double = sum.to_double();
}

template <class T>
__global__ void sum_all_ways(const T* terms, int64_t count, DeviceSums<T>* out) {
  sum_long(terms, count, out);
  sum_checked<T, 1>(terms, count, out);
  sum_checked<T, 2>(terms, count, out);
  if constexpr (sizeof(T) < sizeof(double)) {
    sum_limbs(terms, count, out);
    out->long_sum = T(static_cast<double>(out->long_sum) + static_cast<float>(out->limb_sum));
  }
}

template __global__ void sum_all_ways(const float16*, int64_t, DeviceSums<float16>*);
template __global__ void sum_all_ways(const bfloat16*, int64_t, DeviceSums<bfloat16>*);
template __global__ void sum_all_ways(const float*, int64_t, DeviceSums<float>*);
template __global__ void sum_all_ways(const double*, int64_t, DeviceSums<double>*);

}  // namespace
}  // namespace sow::test

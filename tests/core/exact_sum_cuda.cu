// Compiles the exact sums as device code: every function is instantiated in a kernel.
#include "core/exact_sum.h"

namespace sow::detail {

template <class T>
__global__ void sum(const T* values, int count, T* out) {
  LongAccumulator<T> total;
  LongAccumulator<T> odd;
  for (int i = 0; i < count; i += 2) total.add(values[i]);
  for (int i = 1; i < count; i += 2) odd.sub(values[i]);
  total.merge(odd);
  out[0] = total.round();
}

template __global__ void sum<double>(const double*, int, double*);
template __global__ void sum<float>(const float*, int, float*);
template __global__ void sum<float16>(const float16*, int, float16*);
template __global__ void sum<bfloat16>(const bfloat16*, int, bfloat16*);

}  // namespace sow::detail

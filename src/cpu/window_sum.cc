// The portable window loops, and the choice among the instruction sets.
#include "cpu/window_sum.h"

#include "core/isa.h"
#include "cpu/window_kernels.h"

namespace sow::detail {

// src/cpu/window_sum_avx512.cc: float32 sums; the rest is as here.
void use_avx512(WindowKernels& kernels);

namespace {

template <class T, Reduce R>
const WindowKernels* kernels_of() {
  using Loops = WindowLoops<T, R>;
  static const WindowKernels portable = {FloatTraits<T>::kDigits,
                                         FloatTraits<T>::kUnitExponent,
                                         R == Reduce::mean,
                                         Loops::scan,
                                         Loops::add,
                                         Loops::finish,
                                         Loops::settle,
                                         Loops::write,
                                         Loops::flush,
                                         Loops::doubt};
  if constexpr (SOW_HAS_X86_KERNELS && std::is_same_v<T, float>) {
    static const WindowKernels wide = [] {
      WindowKernels kernels = portable;
      use_avx512(kernels);
      return kernels;
    }();
    if (current_isa() == Isa::avx512) return &wide;
  }
  return &portable;
}

template <class T>
const WindowKernels* kernels_for(Reduce reduce) {
  if (reduce == Reduce::add) return kernels_of<T, Reduce::add>();
  if (reduce == Reduce::mean) return kernels_of<T, Reduce::mean>();
  return nullptr;
}

}  // namespace

const WindowKernels* window_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  return nullptr;
}

}  // namespace sow::detail

// The portable window loops, and the choice among the instruction sets.
#include "cpu/window_sum.h"

#include "core/isa.h"
#include "cpu/window_kernels.h"

namespace sow::detail {

// src/cpu/window_sum_avx512.cc; the rest is as here.
template <class T>
void use_avx512(WindowKernels& kernels);

namespace {

template <class T, Reduce R>
const WindowKernels* kernels_of() {
  using Loops = WindowLoops<T, R>;
  static const WindowKernels portable = {FloatTraits<T>::kDigits,
                                         FloatTraits<T>::kUnitExponent,
                                         FloatTraits<T>::kMaxExponent + 1,
                                         R == Reduce::mean,
                                         Loops::scan,
                                         Loops::add,
                                         Loops::add_keys,
                                         Loops::finish,
                                         Loops::settle,
                                         Loops::write,
                                         Loops::flush,
                                         Loops::doubt};
  if constexpr (SOW_HAS_X86_KERNELS) {
    static const WindowKernels wide = [] {
      WindowKernels kernels = portable;
      use_avx512<T>(kernels);
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

bool Window::set(const WindowRange& range, int64_t count, const WindowKernels& kernels, int more,
                 bool finest) {
  if (range.largest >= 0x7f800000u) return false;
  const int top =
      std::min(static_cast<int>(range.largest >> 23) - 126 + more, kernels.top);  // below 2^top
  const int count_bits = 64 - __builtin_clzll(static_cast<uint64_t>(count) | 1);
  exponent = std::max(kernels.unit, top + count_bits - kBits);
  if (finest) {
    const uint32_t smallest = range.smallest_less_one + 1;  // 0 when all are zeros
    const int last_bit =
        smallest == 0 ? top : static_cast<int>(smallest >> 23) - 126 - kernels.digits;
    exponent = std::max(exponent, last_bit);
  }
  value_bits = std::max(top - exponent, 0);
  limit = static_cast<uint32_t>(top + 126) << 23 | 0x7fffffu;
  minus_zeros = false;
  return true;
}
bool Window::set(const WindowRange& range, int64_t count, const WindowKernels& kernels) {
  return set(range, count, kernels, 0, true);
}
bool Window::guess(const WindowRange& range, int64_t count, const WindowKernels& kernels) {
  return set(range, count, kernels, 2, false);
}

const WindowKernels* window_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  return nullptr;
}

}  // namespace sow::detail

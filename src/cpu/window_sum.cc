// The portable window loops, and the choice among the instruction sets.
#include "cpu/window_sum.h"

#include "core/isa.h"
#include "cpu/window_kernels.h"
#include "cpu/window_wide.h"

namespace sow::detail {

// src/cpu/window_sum_avx512.cc, window_pairs_avx512.cc; the rest is as here.
template <class T>
void use_avx512(WindowKernels& kernels);

namespace {

template <class T, Reduce R>
const WindowKernels* kernels_of() {
  using Loops = WindowLoops<T, R>;
  static const WindowKernels portable = {Loops::kWords,
                                         Loops::Form::kRangeShift,
                                         FloatTraits<T>::kDigits,
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
                                         Loops::doubt,
                                         wide_sums<T, R>()};
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

// Of the smallest value, or of none.
int last_digit(const WindowRange& range, const WindowKernels& kernels, int none) {
  const uint32_t smallest = range.smallest_less_one + 1;  // 0 when all are zeros
  const int below = ((1 << (31 - kernels.range_shift)) - 1) / 2 - 1;
  return smallest == 0 ? none
                       : static_cast<int>(smallest >> kernels.range_shift) - below - kernels.digits;
}

}  // namespace

bool Window::set(const WindowRange& range, int64_t count, const WindowKernels& kernels, int more,
                 bool finest) {
  constexpr int kLeast =
      -960;  // the units of both integers of a float64, and their inverses, are normal
  const int shift = kernels.range_shift;
  const int exponents = (1 << (31 - shift)) - 1;  // the last one is that of infinity
  const int below = exponents / 2 - 1;            // magnitudes are less than 2^(biased - below)
  const int largest = static_cast<int>(range.largest >> shift);
  if (largest >= exponents) return false;
  const int top = std::min(largest - below + more, kernels.top);
  const int count_bits = 64 - __builtin_clzll(static_cast<uint64_t>(count) | 1);
  exponent = std::max(kernels.unit, top + count_bits - kBits);
  if (finest && kernels.words == 1) exponent = std::max(exponent, last_digit(range, kernels, top));
  if (kernels.words == 2 && exponent < kLeast) return false;
  value_bits = std::max(top - exponent, 0);
  limit = static_cast<uint32_t>(top + below + 1) << shift;
  --limit;
  minus_zeros = false;
  sum = 0;
  return true;
}
bool Window::set(const WindowRange& range, int64_t count, const WindowKernels& kernels) {
  return set(range, count, kernels, 0, true);
}
bool Window::guess(const WindowRange& range, int64_t count, const WindowKernels& kernels) {
  return set(range, count, kernels, 2, false);
}

bool Window::reaches(const WindowRange& range, const WindowKernels& kernels, int more) const {
  const int finest = kernels.words == 1 ? exponent : exponent - value_bits + kSpare;
  return last_digit(range, kernels, finest) >= finest - more;
}

const WindowKernels* window_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  if (dtype == DType::float64) return kernels_for<double>(reduce);
  return nullptr;
}

}  // namespace sow::detail

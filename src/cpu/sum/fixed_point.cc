// SPDX-License-Identifier: Apache-2.0
// The portable fixed-point loops, and the choice among the instruction sets.
#include "cpu/sum/fixed_point.h"

#include <array>

#include "core/isa.h"
#include "cpu/sum/bounded_sum.h"
#include "cpu/sum/fixed_point_kernels.h"

namespace sow::detail {

// src/cpu/sum/fixed_point_vector.cc, bounded_sum_avx512.cc; the rest is as here.
template <class T>
void use_vectors(FixedPointKernels& kernels, Isa isa);
template <class T>
void use_avx512(BoundedSums& sums, bool mean);

namespace {

template <class T, Reduce R>
const FixedPointKernels* kernels_of() {
  using Loops = FixedPointLoops<T, R>;
  static const auto levels = [] {
    const FixedPointKernels plain = {Loops::kWords,
                                     Loops::Form::kRangeShift,
                                     FloatTraits<T>::kDigits,
                                     FloatTraits<T>::kUnitExponent,
                                     FloatTraits<T>::kMaxExponent + 1,
                                     R == Reduce::mean,
                                     Loops::scan,
                                     Loops::add,
                                     Loops::add_keys,
                                     Loops::finish,
                                     Loops::resolve,
                                     Loops::write,
                                     Loops::flush,
                                     Loops::mark_inconclusive,
                                     bounded_sums<T, R>()};
    std::array<FixedPointKernels, 3> made = {plain, plain, plain};
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      if (!isa_available(isa)) continue;  // what fills a level's table is compiled for that level
      FixedPointKernels& kernels = made[static_cast<size_t>(isa)];
      use_vectors<T>(kernels, isa);
      if constexpr (SOW_HAS_X86_KERNELS && sizeof(T) < sizeof(double)) {
        if (isa == Isa::avx512) use_avx512<T>(kernels.bounded, kernels.counts);
      }
    }
    return made;
  }();
  return &levels[static_cast<size_t>(current_isa())];
}

template <class T>
const FixedPointKernels* kernels_for(Reduce reduce) {
  if (reduce == Reduce::add) return kernels_of<T, Reduce::add>();
  if (reduce == Reduce::mean) return kernels_of<T, Reduce::mean>();
  return nullptr;
}

// Of the smallest value, or of none.
int last_digit(const MagnitudeRange& range, const FixedPointKernels& kernels, int none) {
  const uint32_t smallest = range.smallest_less_one + 1;  // 0 when all are zeros
  const int below = ((1 << (31 - kernels.range_shift)) - 1) / 2 - 1;
  return smallest == 0 ? none
                       : static_cast<int>(smallest >> kernels.range_shift) - below - kernels.digits;
}

}  // namespace

bool FixedPointScale::set(const MagnitudeRange& range, int64_t count,
                          const FixedPointKernels& kernels, int more, bool finest) {
  constexpr int kLeast =
      -960;  // the units of both integers of a float64, and their inverses, are normal
  const int shift = kernels.range_shift;
  const int exponents = (1 << (31 - shift)) - 1;  // the last one is that of infinity
  const int below = exponents / 2 - 1;            // magnitudes are less than 2^(biased - below)
  const int largest = static_cast<int>(range.largest >> shift);
  if (largest >= exponents) return false;
  const int top = std::min(largest - below + more, kernels.top);
  const int count_bits = bit_width(count);
  exponent = std::max({kernels.unit, top + count_bits - kBits, top - kValueBits});
  if (finest && kernels.words == 1) exponent = std::max(exponent, last_digit(range, kernels, top));
  if (kernels.words == 2 && exponent < kLeast) return false;
  value_bits = std::max(top - exponent, 0);
  limit = static_cast<uint32_t>(top + below + 1) << shift;
  --limit;
  minus_zeros = false;
  sum = 0;
  return true;
}
bool FixedPointScale::set(const MagnitudeRange& range, int64_t count,
                          const FixedPointKernels& kernels) {
  return set(range, count, kernels, 0, true);
}
bool FixedPointScale::guess(const MagnitudeRange& range, int64_t count,
                            const FixedPointKernels& kernels) {
  return set(range, count, kernels, 2, false);
}

bool FixedPointScale::reaches(const MagnitudeRange& range, const FixedPointKernels& kernels,
                              int more) const {
  const int finest = kernels.words == 1 ? exponent : exponent - value_bits + kSpare;
  return last_digit(range, kernels, finest) >= finest - more;
}

const FixedPointKernels* fixed_point_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  if (dtype == DType::float64) return kernels_for<double>(reduce);
  return nullptr;
}

}  // namespace sow::detail

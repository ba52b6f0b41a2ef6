// SPDX-License-Identifier: Apache-2.0
// The oracle for exact sums: MPFR's correctly rounded sum, put into our formats by MPFR's own
// rounding.
#pragma once

#include <mpfr.h>

#include <cstdint>
#include <random>
#include <vector>

#include "core/exact/exact_traits.h"

namespace sow::test {

template <class T>
double widen(T value) {
  return static_cast<double>(value);
}

template <class T>
typename detail::FloatTraits<T>::Bits bits_of(T value) {
  return detail::bit_cast<typename detail::FloatTraits<T>::Bits>(value);
}

template <class T>
T from_bits(uint64_t bits) {
  return detail::bit_cast<T>(static_cast<typename detail::FloatTraits<T>::Bits>(bits));
}

// MPFR counts exponents from a mantissa in [1/2, 1), hence the ones added; subnormals need the
// range to be set.
template <class Target>
class MpfrRange {
 public:
  using Traits = detail::FloatTraits<Target>;
  MpfrRange() : least_(mpfr_get_emin()), most_(mpfr_get_emax()) {
    mpfr_set_emin(Traits::kUnitExponent + 1);
    mpfr_set_emax(Traits::kMaxExponent + 1);
  }
  ~MpfrRange() {
    mpfr_set_emin(least_);
    mpfr_set_emax(most_);
  }

 private:
  mpfr_exp_t least_;
  mpfr_exp_t most_;
};

// The pattern of a float64 that is representable in Target; zeros, infinities and NaN included.
template <class Target>
typename detail::FloatTraits<Target>::Bits pattern(double value) {
  using Traits = detail::FloatTraits<Target>;
  using Bits = typename Traits::Bits;
  if (value != value) return Traits::kQuietNan;
  const Bits sign = __builtin_signbit(value) ? Traits::kSign : Bits{0};
  const double magnitude = __builtin_fabs(value);
  if (magnitude == 0) return sign;
  if (__builtin_isinf(magnitude)) return static_cast<Bits>(sign | Traits::kInfinity);
  int exponent = 0;
  const double fraction = __builtin_frexp(magnitude, &exponent);
  int unit = exponent - Traits::kDigits;
  const bool subnormal = unit < Traits::kUnitExponent;
  if (subnormal) unit = Traits::kUnitExponent;
  const auto mantissa = static_cast<uint64_t>(__builtin_ldexp(fraction, exponent - unit));
  const uint64_t biased = subnormal ? 0 : static_cast<uint64_t>(unit - Traits::kUnitExponent);
  return static_cast<Bits>(sign | ((biased << (Traits::kDigits - 1)) + mantissa));
}

// The sum of the terms, rounded once to Target. Signs of zero sums follow the contract: -0 only
// from -0 alone.
template <class Target, class T>
typename detail::FloatTraits<Target>::Bits mpfr_sum_bits(const std::vector<T>& terms) {
  using Traits = detail::FloatTraits<Target>;
  std::vector<mpfr_t> numbers(terms.size());
  std::vector<mpfr_ptr> pointers;
  bool all_minus_zero = true;
  for (size_t i = 0; i < terms.size(); ++i) {
    mpfr_init2(numbers[i], 53);
    mpfr_set_d(numbers[i], widen(terms[i]), MPFR_RNDN);
    pointers.push_back(numbers[i]);
    all_minus_zero = all_minus_zero && mpfr_zero_p(numbers[i]) && mpfr_signbit(numbers[i]);
  }
  mpfr_t sum;
  mpfr_init2(sum, Traits::kDigits);
  int ternary = mpfr_sum(sum, pointers.data(), terms.size(), MPFR_RNDN);
  const bool zero = mpfr_zero_p(sum);
  {
    const MpfrRange<Target> range;
    ternary = mpfr_check_range(sum, ternary, MPFR_RNDN);
    mpfr_subnormalize(sum, ternary, MPFR_RNDN);
  }
  double rounded = mpfr_get_d(sum, MPFR_RNDN);
  if (zero) rounded = all_minus_zero ? -0.0 : 0.0;
  mpfr_clear(sum);
  for (auto& number : numbers) mpfr_clear(number);
  return pattern<Target>(rounded);
}

template <class T>
T random_finite(std::mt19937_64& random, int least_biased, int most_biased) {
  using Traits = detail::FloatTraits<T>;
  std::uniform_int_distribution<int> exponents(least_biased, most_biased);
  const uint64_t exponent = static_cast<uint64_t>(exponents(random)) << (Traits::kDigits - 1);
  const uint64_t sign = (random() & 1) ? static_cast<uint64_t>(Traits::kSign) : 0;
  return from_bits<T>(sign | exponent | (random() & (Traits::kHidden - 1)));
}

template <class T>
constexpr int kTopBiased = (1 << detail::FloatTraits<T>::kExponentBits) - 2;

template <class T>
T negated(T value) {
  return from_bits<T>(bits_of(value) ^ detail::FloatTraits<T>::kSign);
}

}  // namespace sow::test

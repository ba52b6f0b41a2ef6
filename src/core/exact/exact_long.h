// SPDX-License-Identifier: Apache-2.0
// The long accumulator: a fixed-point integer wide enough for any sum of a floating type. It is
// always exact; the reference executor uses nothing else, and everything faster falls back to it.
#pragma once

#include <cstdint>

#include "core/exact/exact_traits.h"

namespace sow::detail {

// Two's complement, in units of T's smallest subnormal; room for 2^64 of the largest finite terms
// and a sign.
template <class T>
class LongAccumulator {
  using Traits = FloatTraits<T>;

 public:
  static constexpr int kWords = (Traits::kRange + 64 + 1 + 63) / 64;

  SOW_HD LongAccumulator() { reset(); }
  SOW_HD void reset() {
    for (int i = 0; i < kWords; ++i) words_[i] = 0;
    flags_.seen = 0;
  }

  SOW_HD void add(T value, bool negate = false) {
    const Term<T> term(value);
    const bool negative = term.negative() != negate;
    flags_.seen |= SumFlags::of(term, negative);
    if (term.finite()) add_magnitude(negative, term.mantissa(), term.shift());
  }
  SOW_HD void sub(T value) { add(value, true); }

  // A finite float64 that is a multiple of T's unit below 2^64 largest values: what a CheckedSum<T>
  // holds. Its zeros do not count as terms.
  SOW_HD void add_part(double value) {
    const Term<double> term(value);
    if (term.magnitude() == 0) return;
    flags_.seen |= SumFlags::kNotMinusZero;
    uint64_t mantissa = term.mantissa();
    int shift = term.shift() + FloatTraits<double>::kUnitExponent - Traits::kUnitExponent;
    if (shift < 0) {
      mantissa >>= -shift;
      shift = 0;
    }
    add_magnitude(term.negative(), mantissa, shift);
  }

  // An integer number of 2^shift units.
  SOW_HD void add_units(int64_t count, int shift) {
    const bool negative = count < 0;
    const uint64_t bits = static_cast<uint64_t>(count);
    add_magnitude(negative, negative ? 0 - bits : bits, shift);
  }
  SOW_HD void add_flags(SumFlags flags) { flags_.seen |= flags.seen; }

  SOW_HD void merge(const LongAccumulator& other) {
    flags_.seen |= other.flags_.seen;
    uint64_t carry = 0;
    for (int i = 0; i < kWords; ++i) {
      const uint64_t partial = words_[i] + carry;
      carry = partial < carry;
      words_[i] = partial + other.words_[i];
      carry += words_[i] < partial;
    }
  }

  // The exact sum rounded once to T, or once to float64.
  SOW_HD T round() const { return bit_cast<T>(round_to<Traits>()); }
  SOW_HD double to_double() const { return bit_cast<double>(round_to<FloatTraits<double>>()); }

 private:
  SOW_HD void add_magnitude(bool negative, uint64_t mantissa, int shift) {
    const int word = shift >> 6;
    const int offset = shift & 63;
    const uint64_t low = mantissa << offset;
    const uint64_t high = offset == 0 ? 0 : mantissa >> (64 - offset);
    if (negative) {
      const uint64_t borrow = words_[word] < low;
      words_[word] -= low;
      subtract_from(word + 1, high, borrow);
    } else {
      words_[word] += low;
      add_from(word + 1, high, words_[word] < low);
    }
  }
  // `high` is below 2^63, so a carry fits in with it.
  SOW_HD void add_from(int word, uint64_t high, uint64_t carry) {
    uint64_t rest = high + carry;
    for (; rest != 0 && word < kWords; ++word) {
      words_[word] += rest;
      rest = words_[word] < rest;
    }
  }
  SOW_HD void subtract_from(int word, uint64_t high, uint64_t borrow) {
    uint64_t rest = high + borrow;
    for (; rest != 0 && word < kWords; ++word) {
      const uint64_t before = words_[word];
      words_[word] = before - rest;
      rest = before < rest;
    }
  }

  template <class Target>
  SOW_HD typename Target::Bits round_to() const {
    if (flags_.special()) return flags_.template special_bits<Target>();
    if (flags_.all_minus_zero()) return Target::kSign;
    return static_cast<typename Target::Bits>(
        pack_rounded<Target::kDigits, Target::kExponentBits>(leading_bits()));
  }

  // The sum's first 64 significant bits, the last of them set if anything nonzero follows.
  SOW_HD Scaled leading_bits() const {
    int lowest = 0;
    while (lowest < kWords && words_[lowest] == 0) ++lowest;
    if (lowest == kWords) return {false, 0, 0};
    const bool negative = (words_[kWords - 1] >> 63) != 0;
    // The magnitude word by word, without a copy: negation leaves the zeros below the lowest
    // nonzero word.
    const auto magnitude = [&](int i) {
      if (!negative || i < lowest) return words_[i];
      return i == lowest ? 0 - words_[i] : ~words_[i];
    };
    int top = kWords - 1;
    while (magnitude(top) == 0) --top;
    const int zeros = count_leading_zeros(magnitude(top));
    uint64_t mantissa = magnitude(top) << zeros;
    if (top > 0) {
      const uint64_t next = magnitude(top - 1);
      if (zeros > 0) mantissa |= next >> (64 - zeros);
      if ((next << zeros) != 0 || lowest < top - 1) mantissa |= 1;
    }
    return {negative, mantissa, Traits::kUnitExponent + 64 * top - zeros};
  }

  uint64_t words_[kWords];
  SumFlags flags_;
};

}  // namespace sow::detail

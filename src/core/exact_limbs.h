// Limbs by exponent: one integer addition a term, never inexact. For private copies and histograms,
// where a destination meets so many terms that a float64 would have to give up.
#pragma once

#include <cstdint>

#include "core/exact_long.h"

namespace sow::detail {

// Limb i counts units of 2^(i * kBinades) smallest subnormals. The halves fit more binades into a
// limb because their mantissas are short; float16 needs one limb in all. float64 has none: 53 bits
// leave no room beside the shift, so each term would touch three of 67 digits, and sorting and
// folding is quicker than that.
template <class T>
struct LimbFormat {
  using Traits = FloatTraits<T>;
  static_assert(sizeof(T) <= 4, "float64 is summed by CheckedSum and LongAccumulator");
  static constexpr int kMaxShift = (1 << Traits::kExponentBits) - 3;
  static constexpr int kBinades =
      Traits::kDigits == 24 ? 16 : (kMaxShift < 32 ? kMaxShift + 1 : 32);
  static constexpr int kDirect = kMaxShift / kBinades + 1;  // limbs that terms are added to
  static constexpr int kCount = kDirect + 1;  // and one for carries, enough for 2^42 terms
  // Half of what 63 bits hold: the rest is for what a carry leaves behind.
  static constexpr int64_t kAdditionsBeforeCarry = int64_t{1}
                                                   << (62 - (Traits::kDigits + kBinades - 1));

  // Where a finite term goes, and what is added there.
  SOW_HD static int limb(Term<T> term) { return term.shift() / kBinades; }
  SOW_HD static int64_t amount(Term<T> term, bool negative) {
    const auto magnitude = static_cast<int64_t>(term.mantissa() << (term.shift() % kBinades));
    return negative ? -magnitude : magnitude;
  }
};

// At most kAdditionsBeforeCarry additions between two carries; the owner counts.
template <class T>
class Limbs {
 public:
  using Format = LimbFormat<T>;

  SOW_HD Limbs() { reset(); }
  SOW_HD void reset() {
    for (int i = 0; i < Format::kCount; ++i) limbs_[i] = 0;
    flags_.seen = 0;
  }

  SOW_HD void add(T value, bool negate = false) {
    const Term<T> term(value);
    const bool negative = term.negative() != negate;
    flags_.seen |= SumFlags::of(term, negative);
    if (term.finite()) limbs_[Format::limb(term)] += Format::amount(term, negative);
  }
  SOW_HD void sub(T value) { add(value, true); }

  // From the top down, so that no limb receives before it has given.
  SOW_HD void carry() {
    constexpr int64_t kBase = int64_t{1} << Format::kBinades;
    for (int i = Format::kCount - 2; i >= 0; --i) {
      const int64_t rest = limbs_[i] & (kBase - 1);
      limbs_[i + 1] += (limbs_[i] - rest) / kBase;
      limbs_[i] = rest;
    }
  }

  // Both are carried first, so that merging never counts as additions.
  SOW_HD void merge(Limbs other) {
    carry();
    other.carry();
    for (int i = 0; i < Format::kCount; ++i) limbs_[i] += other.limbs_[i];
    carry();
    flags_.seen |= other.flags_.seen;
  }

  SOW_HD LongAccumulator<T> to_long() const {
    LongAccumulator<T> sum;
    for (int i = 0; i < Format::kCount; ++i) sum.add_units(limbs_[i], i * Format::kBinades);
    sum.add_flags(flags_);
    return sum;
  }
  SOW_HD T round() const { return to_long().round(); }
  SOW_HD double to_double() const { return to_long().to_double(); }

 private:
  int64_t limbs_[Format::kCount];
  SumFlags flags_;
};

}  // namespace sow::detail

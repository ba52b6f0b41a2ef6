// SPDX-License-Identifier: Apache-2.0
// A sum in limbs as plain code: LimbFormat put to use, to be compared with the other sums.
#pragma once

#include "core/exact/exact_sum.h"

namespace sow::detail {

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

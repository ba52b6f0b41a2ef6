// SPDX-License-Identifier: Apache-2.0
// Limbs by exponent: one integer addition per term, never inexact. For destinations that meet so
// many terms that a float64 would have to give up; CUDA's strategies keep them in shared memory.
#pragma once

#include <cstdint>

#include "core/exact/exact_long.h"

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

}  // namespace sow::detail

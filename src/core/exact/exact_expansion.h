// SPDX-License-Identifier: Apache-2.0
// Sums as expansions: a few values of the type itself whose real sum is exactly that of many, so
// that they can stand for them wherever sums are exact: in a message, in a log.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/exact/exact_checked.h"

namespace sow::detail {

// Sums one group of terms and gives its expansion. Two float64 hold nearly every sum; the terms of
// what they cannot hold are read again into the long accumulator.
template <class T>
class Expansion {
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;

 public:
  // Calls emit(value) for every part, the largest first, `most` times at most; how many there are,
  // or most + 1 if they are more. There is one at least: a zero has the sign of the exact sum, and
  // infinities and NaN are what the sum is. each(f) calls f(term) for every term.
  template <class Each, class Emit>
  static int64_t of(Each&& each, int64_t most, Emit&& emit) {
    CheckedSum<T, 2> quick;
    each([&](T term) { quick.add(term); });
    if (quick.exact()) {
      Writer<Emit> writer{most, emit};
      if (split(quick.high(), quick.low(), writer)) return writer.count;
    }
    SumFlags flags;
    LongAccumulator<T> sum;
    each([&](T term) {
      const Term<T> bits(term);
      flags.seen |= SumFlags::of(bits, bits.negative());
      sum.add(term);
    });
    Writer<Emit> writer{most, emit};
    if (flags.special()) {
      writer.put(bit_cast<T>(flags.template special_bits<Traits>()));
      return writer.count;
    }
    const T kLargest = bit_cast<T>(static_cast<Bits>(Traits::kInfinity - 1));
    do {
      T part = sum.round();
      // A sum beyond the range is parts of the largest value first.
      if (!Term<T>(part).finite()) {
        const Bits sign = static_cast<Bits>(bit_cast<Bits>(part) & Traits::kSign);
        part = bit_cast<T>(static_cast<Bits>(bit_cast<Bits>(kLargest) | sign));
      }
      writer.put(part);
      sum.sub(part);
    } while (writer.count <= most && Term<T>(sum.round()).magnitude() != 0);
    return writer.count;
  }

 private:
  template <class Emit>
  struct Writer {
    int64_t most;
    Emit& emit;
    int64_t count = 0;
    void put(T value) {
      if (count++ < most) emit(value);
    }
  };

  // high + low, which is exact, in parts. False, before anything was given, where a part overflows.
  template <class Out>
  static bool split(double high, double low, Out& writer) {
    if (!(absolute(high) <=
          static_cast<double>(bit_cast<T>(static_cast<Bits>(Traits::kInfinity - 1)))))
      return false;
    if (low == 0 && high == 0) {
      writer.put(static_cast<T>(high));
      return true;
    }
    for (double rest : {high, low}) {
      while (rest != 0) {  // what is left of a rounded value is a float64 again
        const T part = static_cast<T>(rest);
        writer.put(part);
        rest -= widen(part);
      }
    }
    return true;
  }
};

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// What the updates of one place add up to: Accumulator<T, R> is the arithmetic of every fold.
//
//   State start()                          nothing yet
//   void seed(State&, T old)               the old value takes part (include_self); before any add
//   void add(State&, T x, uint32_t n)      the n-th update of this place, in source order
//   void merge(State&, const State&)       both saw part of the updates; not for products
//   bool finish(State, updates, self, T&)  the result, or false: a float sum that may be inexact
//
// A sum for which finish is inconclusive is added up again in a Long, which is never inconclusive.
// single_update() is the whole fold of a place that meets one update.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/exact/exact_sum.h"
#include "cpu/common/byte_width.h"
#include "sow/reduce.h"

namespace sow::detail {

// A bool as it lies in memory: any nonzero byte is true.
struct BoolByte {
  uint8_t byte;
};

template <class T>
inline constexpr bool is_complex_element = false;
template <class P>
inline constexpr bool is_complex_element<std::complex<P>> = true;
template <class T>
inline constexpr bool is_float_element = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                         std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// The type's positive quiet NaN in place of any NaN.
template <class T>
inline T canonical_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value == value ? value : bit_cast<T>(FloatTraits<T>::kQuietNan);
  }
  const Term<T> term(value);
  return term.nan() ? bit_cast<T>(FloatTraits<T>::kQuietNan) : value;
}

template <class T, Reduce R, class Enable = void>
struct Accumulator;

// -- exact float sums and means

template <class T, Reduce R>
inline constexpr bool is_float_sum = is_float_element<T> && (R == Reduce::add || R == Reduce::mean);

template <class T>
inline T mean_of(double sum, int64_t count) {
  return canonical_nan(static_cast<T>(sum / static_cast<double>(count)));
}

template <class T, Reduce R>
struct Accumulator<T, R, std::enable_if_t<is_float_sum<T, R>>> {
  static constexpr bool kDirect = false;
  static constexpr bool kMerges = true;
  using State = CheckedSum<T>;
  using Long = LongAccumulator<T>;

  static State start() { return State(); }
  static void seed(State& s, T old) { s.add(old); }
  static void add(State& s, T x, uint32_t) { s.add(x); }
  static void merge(State& s, const State& other) { s.merge(other); }
  static bool finish(const State& s, int64_t updates, bool self, T& out) {
    if constexpr (R == Reduce::add) return s.round_to(out);
    // Dividing and rounding are monotone as well, and forget what float64 could not tell.
    double least, most;
    if (!s.ends(least, most)) return false;
    out = mean_of<T>(least, updates + self);
    if (least == most) return true;
    using Bits = typename FloatTraits<T>::Bits;
    return bit_cast<Bits>(out) == bit_cast<Bits>(mean_of<T>(most, updates + self));
  }

  static void long_add(Long& sum, T x) { sum.add(x); }
  static T long_finish(const Long& sum, int64_t updates, bool self) {
    if constexpr (R == Reduce::add) return sum.round();
    return mean_of<T>(sum.to_double(), updates + self);
  }
};

// -- products in chunks of 256

inline constexpr uint32_t kMulChunk = 256;

inline double times(double a, double b) { return a * b; }
inline std::complex<double> times(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
struct Product {
  using Wide = double;
  static Wide widened(T x) { return widen(x); }
  static T rounded(Wide x) { return canonical_nan(static_cast<T>(x)); }
};
template <class P>
struct Product<std::complex<P>> {
  using Wide = std::complex<double>;
  static Wide widened(std::complex<P> x) { return {x.real(), x.imag()}; }
  static std::complex<P> rounded(Wide x) {
    return {canonical_nan(static_cast<P>(x.real())), canonical_nan(static_cast<P>(x.imag()))};
  }
};

template <class T>
struct Accumulator<T, Reduce::mul, std::enable_if_t<is_float_element<T> || is_complex_element<T>>> {
  static constexpr bool kDirect = false;
  static constexpr bool kMerges = false;
  using Wide = typename Product<T>::Wide;
  struct Real {
    Wide total, chunk;
    void close() {
      total = times(total, chunk);
      chunk = Wide(1);
    }
  };
  // A complex product by 1 is not the number itself (0 * infinity), so `begun` decides.
  struct Complex {
    Wide total, chunk;
    bool begun = false;
    void close() {
      total = begun ? times(total, chunk) : chunk;
      begun = true;
      chunk = Wide(1);
    }
  };
  using State = std::conditional_t<is_complex_element<T>, Complex, Real>;

  static State start() { return {Wide(1), Wide(1)}; }
  static void seed(State& s, T old) {
    s.total = Product<T>::widened(old);
    if constexpr (is_complex_element<T>) s.begun = true;
  }
  static void add(State& s, T x, uint32_t n) {
    s.chunk = times(s.chunk, Product<T>::widened(x));
    if (n % kMulChunk == kMulChunk - 1) s.close();
  }
  static bool finish(State s, int64_t updates, bool, T& out) {
    if (updates % kMulChunk != 0) s.close();
    out = Product<T>::rounded(s.total);
    return true;
  }
};

// -- extremes of floats: integers in the order of the values

template <class T, Reduce R>
struct Accumulator<
    T, R, std::enable_if_t<is_float_element<T> && (R == Reduce::amax || R == Reduce::amin)>> {
  static constexpr bool kDirect = true;
  static constexpr bool kMerges = true;
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;
  using State = std::make_signed_t<Bits>;
  static constexpr State kLowest = static_cast<State>(Traits::kSign);
  static constexpr State kHighest = static_cast<State>(Traits::kSign - 1);
  // Beyond every number, on the side that wins.
  static constexpr State kNan = R == Reduce::amax ? kHighest : kLowest;

  // The bits of a negative number in descending order; its own inverse. No branch: signs are
  // as good as random.
  static State mirrored(State bits) {
    return static_cast<State>(bits ^ ((bits >> (8 * sizeof(State) - 1)) & kHighest));
  }
  // -0 comes just below +0, and NaN wins.
  static State key_of(T value) {
    const State bits = static_cast<State>(bit_cast<Bits>(value));
    const bool nan = static_cast<State>(bits & kHighest) > static_cast<State>(Traits::kInfinity);
    return nan ? kNan : mirrored(bits);
  }
  static T value_of(State key) {
    return bit_cast<T>(
        static_cast<Bits>(key == kNan ? static_cast<State>(Traits::kQuietNan) : mirrored(key)));
  }

  static State start() { return R == Reduce::amax ? kLowest : kHighest; }
  static void merge(State& s, State other) {
    if constexpr (R == Reduce::amax) {
      s = other > s ? other : s;
    } else {
      s = other < s ? other : s;
    }
  }
  static void seed(State& s, T old) { s = key_of(old); }
  static void add(State& s, T x, uint32_t) { merge(s, key_of(x)); }
  static bool finish(State s, int64_t, bool, T& out) {
    out = value_of(s);
    return true;
  }
};

// -- integers, wrapping

template <class T, Reduce R>
struct Accumulator<
    T, R, std::enable_if_t<std::is_integral_v<T> && R != Reduce::assign && R != Reduce::mean>> {
  static constexpr bool kDirect = true;
  static constexpr bool kMerges = true;
  using State = T;
  using Unsigned = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

  static State start() {
    if constexpr (R == Reduce::add || R == Reduce::bit_or || R == Reduce::bit_xor) return 0;
    if constexpr (R == Reduce::mul) return 1;
    if constexpr (R == Reduce::bit_and) return static_cast<T>(-1);
    constexpr Unsigned kTop = Unsigned{1} << (8 * sizeof(T) - 1);
    constexpr T kLowest = std::is_signed_v<T> ? static_cast<T>(kTop) : T{0};
    constexpr T kHighest =
        std::is_signed_v<T> ? static_cast<T>(kTop - 1) : static_cast<T>(~Unsigned{0});
    return R == Reduce::amax ? kLowest : kHighest;
  }
  static void merge(State& s, State x) {
    if constexpr (R == Reduce::add)
      s = static_cast<T>(static_cast<Unsigned>(s) + static_cast<Unsigned>(x));
    if constexpr (R == Reduce::mul)
      s = static_cast<T>(static_cast<Unsigned>(s) * static_cast<Unsigned>(x));
    if constexpr (R == Reduce::amax) s = x > s ? x : s;
    if constexpr (R == Reduce::amin) s = x < s ? x : s;
    if constexpr (R == Reduce::bit_and) s = static_cast<T>(s & x);
    if constexpr (R == Reduce::bit_or) s = static_cast<T>(s | x);
    if constexpr (R == Reduce::bit_xor) s = static_cast<T>(s ^ x);
  }
  static void seed(State& s, T old) { s = old; }
  static void add(State& s, T x, uint32_t) { merge(s, x); }
  static bool finish(State s, int64_t, bool, T& out) {
    out = s;
    return true;
  }
};

template <class T>
struct Accumulator<T, Reduce::mean, std::enable_if_t<std::is_integral_v<T>>> {
  static constexpr bool kDirect = false;
  static constexpr bool kMerges = true;
  using State = uint64_t;  // wraps, whatever the width

  static State start() { return 0; }
  static void merge(State& s, State other) { s += other; }
  static void seed(State& s, T old) { s = static_cast<State>(static_cast<int64_t>(old)); }
  static void add(State& s, T x, uint32_t) { s += static_cast<State>(static_cast<int64_t>(x)); }
  static bool finish(State s, int64_t updates, bool self, T& out) {
    if constexpr (std::is_unsigned_v<T>) {
      out = static_cast<T>(s / static_cast<uint64_t>(updates + self));
      return true;
    }
    const int64_t sum = static_cast<int64_t>(s), count = updates + self;
    const int64_t quotient = sum / count;
    out = static_cast<T>(quotient - (sum % count < 0));
    return true;
  }
};

// -- bool: or, and, xor

template <Reduce R>
struct Accumulator<BoolByte, R, std::enable_if_t<R != Reduce::assign && R != Reduce::mean>> {
  static constexpr bool kDirect = true;
  static constexpr bool kMerges = true;
  static constexpr bool kXor = R == Reduce::bit_xor;
  static constexpr bool kOr = R == Reduce::add || R == Reduce::amax || kXor;
  using State = uint8_t;

  static State start() { return kOr ? 0 : 1; }
  static void merge(State& s, State other) { s = kXor ? s ^ other : kOr ? s | other : s & other; }
  static void seed(State& s, BoolByte old) { s = old.byte != 0; }
  static void add(State& s, BoolByte x, uint32_t) { merge(s, x.byte != 0); }
  static bool finish(State s, int64_t, bool, BoolByte& out) {
    out.byte = s;
    return true;
  }
};

// -- moves: the last one wins

template <int Width>
struct Accumulator<Word<Width>, Reduce::assign> {
  static constexpr bool kDirect = true;
  static constexpr bool kMerges = true;
  using T = Word<Width>;
  using State = Word<Width>;

  static State start() { return State{}; }
  static void merge(State& s, const State& later) { s = later; }
  static void seed(State&, const T&) {}
  static void add(State& s, const T& x, uint32_t) { s = x; }
  static bool finish(const State& s, int64_t, bool, T& out) {
    out = s;
    return true;
  }
};

template <class T, Reduce R>
inline constexpr bool may_be_inconclusive = is_float_sum<T, R>;

template <class T, Reduce R>
inline T single_update(const T& old, bool self, const T& x) {
  using A = Accumulator<T, R>;
  if constexpr (std::is_floating_point_v<T> && is_float_sum<T, R>) {
    // One addition rounds once, to the type or to float64.
    if constexpr (R == Reduce::add) return canonical_nan(self ? old + x : x);
    const double term = static_cast<double>(x);
    return self ? mean_of<T>(static_cast<double>(old) + term, 2) : mean_of<T>(term, 1);
  } else {
    typename A::State state = A::start();
    if (self && R != Reduce::assign) A::seed(state, old);
    A::add(state, x, 0);
    T out;
    if (A::finish(state, 1, self, out)) return out;
    if constexpr (may_be_inconclusive<T, R>) {
      typename A::Long sum;
      sum.reset();
      if (self) A::long_add(sum, old);
      A::long_add(sum, x);
      out = A::long_finish(sum, 1, self);
    }
    return out;
  }
}

}  // namespace sow::detail

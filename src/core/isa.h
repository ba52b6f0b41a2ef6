// SPDX-License-Identifier: Apache-2.0
// Which vector instructions our kernels may use on this machine, and the attributes that let them.
#pragma once

#if defined(__FAST_MATH__)
#error "sow cannot be built with -ffast-math: its sums are exact only under IEEE 754 arithmetic"
#endif

namespace sow::detail {

// Each level includes those before it. avx512 is what Ice Lake, Zen 4 and newer have: older
// AVX-512 lacks the expand and compress of 8 and 16-bit lanes, and counts as avx2.
enum class Isa { portable, avx2, avx512 };

// The level kernels are chosen by: the best this processor has, unless SOW_ISA names another.
// Throws an Error if SOW_ISA names a level that is unknown or missing here.
Isa current_isa();

// One of three functions: the one for that level.
template <class Function>
Function* by_isa(Isa isa, Function* portable, Function* avx2, Function* avx512) {
  return isa == Isa::avx512 ? avx512 : isa == Isa::avx2 ? avx2 : portable;
}
template <class Function>
Function* by_isa(Function* portable, Function* avx2, Function* avx512) {
  return by_isa(current_isa(), portable, avx2, avx512);
}

bool isa_available(Isa isa);
const char* isa_name(Isa isa);

// Lets tests force a level for a while, in the whole process; an Error if it is missing here.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  int previous_;
};

}  // namespace sow::detail

// A kernel for one level carries its attribute, and so does every function and lambda inlined into
// it, after any [[attribute]]. FMA is never asked for; the compiler may imply it, and
// -ffp-contract=off keeps it unused.
#if defined(__x86_64__)
#define SOW_AVX2_NAMES "avx2,f16c,bmi,bmi2,lzcnt,popcnt"
#define SOW_AVX512_NAMES                                                     \
  "avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vbmi,avx512vbmi2,avx2," \
  "f16c,bmi,bmi2,lzcnt,popcnt"
#define SOW_TARGET_AVX2 __attribute__((target(SOW_AVX2_NAMES)))
#define SOW_TARGET_AVX512 __attribute__((target(SOW_AVX512_NAMES)))
#define SOW_HAS_X86_KERNELS 1
#else
#define SOW_TARGET_AVX2
#define SOW_TARGET_AVX512
#define SOW_HAS_X86_KERNELS 0
#endif

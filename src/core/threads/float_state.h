// SPDX-License-Identifier: Apache-2.0
// A guard that gives our code the default floating-point state and the caller's back afterwards.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#else
#include <cfenv>
#endif

namespace sow::detail {

// Other libraries set flush-to-zero, rounding modes and traps on threads that we run on, and a new
// thread inherits them; our sums are exact only without. Sticky exception flags come back as they
// were found. Arithmetic under the guard belongs in a function that the compiler can't inline
// beside it: it sees no connection between an addition and the state.
#if defined(__x86_64__)

class FloatStateGuard {
 public:
  // Inside another guard of this thread there is nothing to do: only the outermost one works.
  FloatStateGuard() : outermost_(!inside_) {
    if (outermost_) enter();
  }
  ~FloatStateGuard() {
    if (outermost_) leave();
  }

  FloatStateGuard(const FloatStateGuard&) = delete;
  FloatStateGuard& operator=(const FloatStateGuard&) = delete;

 private:
  void enter() {
    inside_ = true;
    mxcsr_ = _mm_getcsr();
    if (mxcsr_ != kDefaultMxcsr) _mm_setcsr(kDefaultMxcsr);
    asm volatile("fnstcw %0\n\tfnstsw %1" : "=m"(x87_control_), "=m"(x87_status_) : : "memory");
    if (x87_control_ != kDefaultX87Control) {
      const X87Environment clean{.control = kDefaultX87Control};
      asm volatile("fldenv %0" : : "m"(clean) : "memory");
    }
  }

  void leave() {
    inside_ = false;
    _mm_setcsr(mxcsr_);
    uint16_t status;
    asm volatile("fnstsw %0" : "=m"(status) : : "memory");
    const bool same_flags = ((status ^ x87_status_) & kX87Flags) == 0;
    if (x87_control_ == kDefaultX87Control && same_flags) return;
    const X87Environment found{.control = x87_control_, .status = x87_status_};
    asm volatile("fldenv %0" : : "m"(found) : "memory");
  }

  // What fldenv loads. An empty register stack, as between any two calls, has all tags set.
  struct X87Environment {
    uint16_t control;
    uint16_t unused_0 = 0xffff;
    uint16_t status = 0;
    uint16_t unused_1 = 0xffff;
    uint16_t tags = 0xffff;
    uint16_t unused_2 = 0xffff;
    uint32_t last_instruction_and_operand[4] = {};
  };
  static_assert(sizeof(X87Environment) == 28);

  // Every exception masked, no flag raised, round to nearest; no FTZ or DAZ, x87 in full width.
  static constexpr uint32_t kDefaultMxcsr = 0x1f80;
  static constexpr uint16_t kDefaultX87Control = 0x037f;
  static constexpr uint16_t kX87Flags = 0x003f;

  static inline constinit thread_local bool inside_ = false;

  bool outermost_;
  uint32_t mxcsr_ = 0;  // this and what follows: what the outermost found
  uint16_t x87_control_ = 0;
  uint16_t x87_status_ = 0;
};

#else

class FloatStateGuard {
 public:
  FloatStateGuard() {
    std::fegetenv(&found_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatStateGuard() { std::fesetenv(&found_); }

  FloatStateGuard(const FloatStateGuard&) = delete;
  FloatStateGuard& operator=(const FloatStateGuard&) = delete;

 private:
  std::fenv_t found_;
};

#endif

}  // namespace sow::detail

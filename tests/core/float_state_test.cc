// SPDX-License-Identifier: Apache-2.0
// Tests that our workers compute in the default floating-point state and leave the caller's alone.
#include "core/threads/float_state.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#include <stdexcept>

#include "core/threads/parallel.h"

namespace sow::detail {
namespace {

// What the state does to arithmetic, seen through values the compiler cannot fold.
struct Seen {
  int rounding = std::fegetround();
  bool upward = false;    // 1 + tiny > 1
  bool downward = false;  // 1 - tiny < 1
  bool subnormals = false;
};

[[gnu::noinline]] Seen look() {
  volatile double one = 1.0, tiny = 0x1p-60;
  volatile float subnormal = 1e-40f, half = 0.5f;
  Seen seen;
  seen.upward = one + tiny > one;
  seen.downward = one - tiny < one;
  seen.subnormals = subnormal * half != 0.0f;
  return seen;
}

void expect_default(const Seen& seen) {
  EXPECT_EQ(seen.rounding, FE_TONEAREST);
  EXPECT_FALSE(seen.upward);
  EXPECT_FALSE(seen.downward);
  EXPECT_TRUE(seen.subnormals);
}

[[gnu::noinline]] void raise_flags() {
  volatile double zero = 0.0, one = 1.0, three = 3.0, result;
  volatile long double wide = 1.0L, wide_three = 3.0L, wide_result;
  result = one / zero;
  result = one / three;
  wide_result = wide / wide_three;
  static_cast<void>(result);
  static_cast<void>(wide_result);
}

// Gives back the state that the test found, whatever it did.
class FloatStateTest : public testing::Test {
 protected:
  FloatStateTest() { std::fegetenv(&found_); }
  ~FloatStateTest() override { std::fesetenv(&found_); }

 private:
  std::fenv_t found_;
};

TEST_F(FloatStateTest, RoundingModesOfTheCallerStayOutside) {
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    for (const int threads : {1, 2, 3}) {
      std::fesetround(rounding);
      Seen seen[3];
      parallel_run(threads, [&](int index, int) { seen[index] = look(); });
      const Seen after = look();
      std::fesetround(FE_TONEAREST);
      for (int i = 0; i < threads; ++i) expect_default(seen[i]);
      EXPECT_EQ(after.rounding, rounding);
      EXPECT_EQ(after.upward, rounding == FE_UPWARD);
      EXPECT_EQ(after.downward, rounding == FE_DOWNWARD || rounding == FE_TOWARDZERO);
    }
  }
}

TEST_F(FloatStateTest, FlagsOfTheCallerAreAsTheyWere) {
  for (const int flags : {0, FE_INEXACT, FE_OVERFLOW | FE_UNDERFLOW}) {
    for (const int threads : {1, 2}) {
      std::feclearexcept(FE_ALL_EXCEPT);
      std::feraiseexcept(flags);
      const int before = std::fetestexcept(FE_ALL_EXCEPT);
      parallel_run(threads, [&](int, int) { raise_flags(); });
      EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), before);
    }
  }
}

TEST_F(FloatStateTest, AnExceptionRestoresToo) {
  std::fesetround(FE_UPWARD);
  EXPECT_THROW(parallel_run(1, [](int, int) { throw std::runtime_error("out"); }),
               std::runtime_error);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  EXPECT_THROW(parallel_run(2, [](int, int) { throw std::runtime_error("out"); }),
               std::runtime_error);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
}

#if defined(__x86_64__)

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kExceptionMasks = 0x1f80;

TEST_F(FloatStateTest, FlushToZeroOfTheCallerStaysOutside) {
  for (const unsigned mode : {kFlushToZero, kDenormalsAreZero, kFlushToZero | kDenormalsAreZero}) {
    for (const int threads : {1, 2, 3}) {
      _mm_setcsr(kExceptionMasks | mode);
      Seen seen[3];
      parallel_run(threads, [&](int index, int) { seen[index] = look(); });
      const unsigned after = _mm_getcsr();
      const bool flushed = !look().subnormals;
      _mm_setcsr(kExceptionMasks);
      for (int i = 0; i < threads; ++i) expect_default(seen[i]);
      EXPECT_EQ(after, kExceptionMasks | mode);
      EXPECT_TRUE(flushed);
    }
  }
}

TEST_F(FloatStateTest, TrapsOfTheCallerDoNotFire) {
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_INEXACT);
  parallel_run(1, [](int, int) { raise_flags(); });
  parallel_run(2, [](int, int) { raise_flags(); });
  const int enabled = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(enabled, FE_DIVBYZERO | FE_INVALID | FE_INEXACT);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
}

#endif

}  // namespace
}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Tests that the instruction level can be forced, and that no level contracts a product and a sum.
#include "core/isa.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "sow/error.h"

namespace sow::detail {
namespace {

constexpr Isa kLevels[] = {Isa::portable, Isa::avx2, Isa::avx512};

TEST(IsaTest, LevelsHaveNames) {
  EXPECT_STREQ(isa_name(Isa::portable), "portable");
  EXPECT_STREQ(isa_name(Isa::avx2), "avx2");
  EXPECT_STREQ(isa_name(Isa::avx512), "avx512");
}

TEST(IsaTest, LevelsAreNested) {
  EXPECT_TRUE(isa_available(Isa::portable));
  EXPECT_TRUE(isa_available(current_isa()));
  if (isa_available(Isa::avx512)) {
    EXPECT_TRUE(isa_available(Isa::avx2));
  }
}

TEST(IsaTest, ScopesForceALevelAndGiveItBack) {
  const Isa before = current_isa();
  for (const Isa isa : kLevels) {
    if (!isa_available(isa)) {
      EXPECT_THROW(ScopedIsa{isa}, Error);
      continue;
    }
    {
      const ScopedIsa outer(isa);
      EXPECT_EQ(current_isa(), isa);
      {
        const ScopedIsa inner(Isa::portable);
        EXPECT_EQ(current_isa(), Isa::portable);
      }
      EXPECT_EQ(current_isa(), isa);
    }
    EXPECT_EQ(current_isa(), before);
  }
}

// In a process of its own: the environment is read once.
[[noreturn]] void exit_with_level(const char* setting) {
  setenv("SOW_ISA", setting, 1);
  try {
    std::exit(static_cast<int>(current_isa()));
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(error.kind() == ErrorKind::argument ? 10 : 11);
  }
}

TEST(IsaDeathTest, TheEnvironmentForcesALevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Isa isa : kLevels) {
    if (isa_available(isa)) {
      EXPECT_EXIT(exit_with_level(isa_name(isa)), testing::ExitedWithCode(static_cast<int>(isa)),
                  "");
    } else {
      EXPECT_EXIT(exit_with_level(isa_name(isa)), testing::ExitedWithCode(10), "it has: portable");
    }
  }
  EXPECT_EXIT(exit_with_level("sse9"), testing::ExitedWithCode(10),
              "no level 'sse9'; it has: portable");
}

[[gnu::noinline]] void run_portable(double* a, const double* b, const double* c) {
  for (int i = 0; i < 16; ++i) a[i] = a[i] * b[i] + c[i];
}
[[gnu::noinline]] SOW_TARGET_AVX2 void run_avx2(double* a, const double* b, const double* c) {
  for (int i = 0; i < 16; ++i) a[i] = a[i] * b[i] + c[i];
}
[[gnu::noinline]] SOW_TARGET_AVX512 void run_avx512(double* a, const double* b, const double* c) {
  for (int i = 0; i < 16; ++i) a[i] = a[i] * b[i] + c[i];
}

TEST(IsaTest, ProductsAreRoundedBeforeTheyAreAdded) {
  using Kernel = void (*)(double*, const double*, const double*);
  const Kernel kernels[] = {run_portable, run_avx2, run_avx512};
  for (const Isa isa : kLevels) {
    if (!isa_available(isa)) continue;
    double a[16], b[16], c[16];
    for (int i = 0; i < 16; ++i) {
      a[i] = 1 + 0x1p-30;  // its square needs 61 bits: rounded it is 1 + 2^-29
      b[i] = a[i];
      c[i] = -(1 + 0x1p-29);
    }
    kernels[static_cast<int>(isa)](a, b, c);
    for (const double result : a) EXPECT_EQ(result, 0.0) << isa_name(isa);
  }
}

}  // namespace
}  // namespace sow::detail

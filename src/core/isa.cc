// SPDX-License-Identifier: Apache-2.0
// Finds the instruction level once, and lets the environment or a test choose a lower one.
#include "core/isa.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sow/error.h"
#include "sow/runtime.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sow::detail {
namespace {

constexpr Isa kLevels[] = {Isa::portable, Isa::avx2, Isa::avx512};
constexpr int kNotForced = -1;

std::atomic<int> forced{kNotForced};

#if defined(__x86_64__)
// clang 14 does not know these by name.
bool has_lzcnt() {
  unsigned a, b, c, d;
  return __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (c & (1u << 5)) != 0;
}
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
}

Isa detect() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
                    has_lzcnt() && has_f16c();
  if (!avx2) return Isa::portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vbmi") &&
                      __builtin_cpu_supports("avx512vbmi2");
  return avx512 ? Isa::avx512 : Isa::avx2;
}
#else
Isa detect() { return Isa::portable; }
#endif

Isa best_isa() {
  static const Isa best = detect();
  return best;
}

std::string available_names() {
  std::string names;
  for (const Isa isa : kLevels) {
    if (!isa_available(isa)) continue;
    if (!names.empty()) names += ", ";
    names += isa_name(isa);
  }
  return names;
}

Isa isa_from_environment() {
  const char* name = std::getenv("SOW_ISA");
  if (name == nullptr || *name == '\0') return best_isa();
  for (const Isa isa : kLevels) {
    if (std::string_view(name) == isa_name(isa) && isa_available(isa)) return isa;
  }
  throw Error(ErrorKind::argument, "[SOW_ISA] this machine has no level '" + std::string(name) +
                                       "'; it has: " + available_names());
}

}  // namespace

bool isa_available(Isa isa) { return isa <= best_isa(); }

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

Isa current_isa() {
  const int level = forced.load(std::memory_order_relaxed);
  if (level != kNotForced) return static_cast<Isa>(level);
  static const Isa chosen = isa_from_environment();
  return chosen;
}

ScopedIsa::ScopedIsa(Isa isa) {
  if (!isa_available(isa)) {
    throw Error(ErrorKind::argument, "[ScopedIsa] this machine has no level '" +
                                         std::string(isa_name(isa)) +
                                         "'; it has: " + available_names());
  }
  previous_ = forced.exchange(static_cast<int>(isa));
}

ScopedIsa::~ScopedIsa() { forced.store(previous_); }

}  // namespace sow::detail

namespace sow {

const char* instruction_set() { return detail::isa_name(detail::current_isa()); }

}  // namespace sow

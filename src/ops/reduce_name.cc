// SPDX-License-Identifier: Apache-2.0
// Reductions by name.
#include "core/fail.h"
#include "sow/reduce.h"

namespace sow {
namespace {

struct Named {
  std::string_view name;
  Reduce value;
};

// The first name of a reduction is the one it prints with.
constexpr Named kNames[] = {
    {"assign", Reduce::assign},     {"add", Reduce::add},
    {"sum", Reduce::add},           {"mul", Reduce::mul},
    {"multiply", Reduce::mul},      {"prod", Reduce::mul},
    {"amax", Reduce::amax},         {"max", Reduce::amax},
    {"amin", Reduce::amin},         {"min", Reduce::amin},
    {"mean", Reduce::mean},         {"bitwise_and", Reduce::bit_and},
    {"bitwise_or", Reduce::bit_or}, {"bitwise_xor", Reduce::bit_xor},
};

Reduce parse(std::string_view name) {
  for (const Named& named : kNames) {
    if (named.name == name) return named.value;
  }
  detail::fail(ErrorKind::argument,
               "reduce: unknown reduction \"{}\"; the names are assign, add = sum, "
               "mul = multiply = prod, amax = max, amin = min, mean, bitwise_and, bitwise_or, "
               "bitwise_xor",
               name);
}

}  // namespace

ReduceName::ReduceName(std::string_view name) : value_(parse(name)) {}

const char* name_of(Reduce reduce) {
  for (const Named& named : kNames) {
    if (named.value == reduce) return named.name.data();
  }
  return "unknown";
}

}  // namespace sow

// SPDX-License-Identifier: Apache-2.0
// The reductions, by enum or by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sow/export.h"

namespace sow {

// What happens where several updates meet, and with the old value.
enum class Reduce : uint8_t { assign, add, mul, amax, amin, mean, bit_and, bit_or, bit_xor };
inline constexpr int kReduceCount = 9;
inline bool is_bitwise(Reduce reduce) { return reduce >= Reduce::bit_and; }

// A reduction by enum or by name: assign, add = sum, mul = multiply = prod, amax = max,
// amin = min, mean, bitwise_and, bitwise_or, bitwise_xor. An unknown name is an error that lists
// these.
class SOW_API ReduceName {
 public:
  ReduceName(Reduce value) : value_(value) {}
  ReduceName(std::string_view name);
  ReduceName(const char* name) : ReduceName(std::string_view(name)) {}
  ReduceName(const std::string& name) : ReduceName(std::string_view(name)) {}
  Reduce value() const { return value_; }

 private:
  Reduce value_;
};
SOW_API const char* name_of(Reduce reduce);

inline constexpr int64_t kEnd = INT64_MAX;  // a slice's stop: to the end

}  // namespace sow

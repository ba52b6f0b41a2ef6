// SPDX-License-Identifier: Apache-2.0
// Writes and reads digits through <charconv>, where the C library would look at the locale.
#include "core/digits.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#if !defined(__cpp_lib_to_chars)  // libc++ before 20 writes floating point, but does not read it
#include <xlocale.h>
#endif

namespace sow::detail {

namespace {

template <class... Format>
std::string written(double value, Format... format) {
  char text[400];  // 309 digits before the point
  return std::string(text, std::to_chars(text, text + sizeof text, value, format...).ptr);
}

}  // namespace

std::string scientific(double value, int digits) {
  return written(value, std::chars_format::scientific, digits);
}

std::string fixed(double value, int digits) {
  return written(value, std::chars_format::fixed, digits);
}

double parse(const std::string& text) {
#if defined(__cpp_lib_to_chars)
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
#else
  return strtod_l(text.c_str(), nullptr, nullptr);  // null is the locale "C" there
#endif
}

std::string without_exponent(const std::string& text, const char* whole_suffix) {
  std::string out = text[0] == '-' ? "-" : "";
  const size_t first = out.size(), mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  std::string digits = text.substr(first, 1);
  if (mark > first + 2) digits.append(text, first + 2, mark - first - 2);
  if (exponent < 0) {
    return out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() > whole) return out.append(digits.insert(whole, 1, '.'));
  return out.append(digits).append(whole - digits.size(), '0').append(whole_suffix);
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const std::string text = written(value, std::chars_format::scientific);
  const double magnitude = std::abs(value);
  const bool exponent = value != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  return exponent ? text : without_exponent(text, "");
}

}  // namespace sow::detail

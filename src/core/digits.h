// SPDX-License-Identifier: Apache-2.0
// Numbers as decimal digits, the same in every locale.
#pragma once

#include <string>

namespace sow::detail {

std::string scientific(double value, int digits);  // "1.50e+10": that many after the point
std::string fixed(double value, int digits);       // "1.50"

// What scientific() and fixed() wrote.
double parse(const std::string& text);

// What scientific() wrote of a finite number, without an exponent: "2.5", "0.25", and a number
// without a fraction with `whole_suffix`.
std::string without_exponent(const std::string& text, const char* whole_suffix);

// The shortest that reads back as the same value: "2.5", "3", "1e+20", "nan".
std::string shortest(double value);

}  // namespace sow::detail

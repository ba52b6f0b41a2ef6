// SPDX-License-Identifier: Apache-2.0
// Sentences with gaps: text("axis {} of size {}", 1, 5). Light to include, because every operation
// does; digits are written in core/digits.h.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "sow/dims.h"
#include "sow/dtype.h"

namespace sow::detail {

// Whatever may stand in a gap, as text.
struct Spoken {
  std::string text;
  Spoken(std::string value) : text(std::move(value)) {}
  Spoken(std::string_view value) : text(value) {}
  Spoken(const char* value) : text(value) {}
  Spoken(const Dims& value) : text(to_string(value)) {}
  Spoken(DType value) : text(name_of(value)) {}
  Spoken(bool value) : text(value ? "true" : "false") {}
  Spoken(double value);  // the shortest that reads back as the same value
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Spoken(T value) : text(std::to_string(value)) {}
};

// A sentence whose gaps the compiler counts.
template <size_t Gaps>
struct Sentence {
  std::string_view text;
  consteval Sentence(const char* sentence) : text(sentence) {
    size_t found = 0;
    for (size_t i = 0; i + 1 < text.size(); ++i) found += text[i] == '{' && text[i + 1] == '}';
    if (found != Gaps) throw "as many words as gaps";
  }
};

std::string fill_gaps(std::string_view sentence, std::initializer_list<Spoken> words);

template <class... Args>
std::string text(Sentence<sizeof...(Args)> sentence, const Args&... args) {
  return fill_gaps(sentence.text, {Spoken(args)...});
}

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Fills the gaps of a sentence.
#include "core/text.h"

#include "core/digits.h"

namespace sow::detail {

Spoken::Spoken(double value) : text(shortest(value)) {}

std::string fill_gaps(std::string_view sentence, std::initializer_list<Spoken> words) {
  std::string out;
  size_t at = 0;
  for (const Spoken& word : words) {
    const size_t gap = sentence.find("{}", at);
    out.append(sentence.substr(at, gap - at)).append(word.text);
    at = gap + 2;
  }
  return out.append(sentence.substr(at));
}

}  // namespace sow::detail

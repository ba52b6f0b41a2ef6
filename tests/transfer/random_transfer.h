// SPDX-License-Identifier: Apache-2.0
// Random Transfers with the memory they point into: any the operations could make, and then some.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "draw.h"
#include "transfer/transfer.h"

namespace sow::test {

// Exactly as large as what is read or written of it, so that a sanitizer sees one step too far;
// a destination has guard bytes on both sides instead, which take part in the comparison.
using Buffer = std::vector<char>;

struct Problem {
  detail::Transfer transfer;
  Buffer destination;
  std::vector<std::unique_ptr<Buffer>> inputs;
  std::vector<Index> held;      // keeps the order that the Transfer may point to
  bool too_few_values = false;  // strategies must refuse, and the reference is not asked
};

Problem draw_problem(Draw& draw);

// The whole problem in a few lines, for a failure's message.
std::string describe(const Problem& problem);

}  // namespace sow::test

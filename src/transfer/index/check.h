// SPDX-License-Identifier: Apache-2.0
// The errors that depend on data, in the words of the contract, for every device.
#pragma once

#include "transfer/transfer.h"

namespace sow::detail {

// The key at this row-major position of the index as the user gave it is out of range.
[[noreturn]] void report_bad_index(const char* op, const IndexOperand& index, int64_t position,
                                   int64_t key);

// A mask has more trues than the side addressed by rank has elements.
[[noreturn]] void report_too_few(const char* op, int64_t trues, int64_t limit, bool source_side);

}  // namespace sow::detail

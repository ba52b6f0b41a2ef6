// SPDX-License-Identifier: Apache-2.0
// What a file may say about each operation: how many tensors it takes, and which reduction.
#pragma once

#include "ops/op.h"

namespace sow::detail {

struct SavedOp {
  enum class Source : uint8_t {
    none,      // `tensors` of them and no scalar
    either,    // and one more tensor, or a scalar
    maybe,     // or one more, and no scalar
    scalar,    // and a scalar
    indices,   // and any number of indices
    index_put  // the same, then a tensor or a scalar
  };
  const char* name;
  int tensors;
  Source source = Source::none;
  Reduce reduce = Reduce::assign;
  bool any_reduce = false;
};

// Null for an operation that files do not have: those that only gradient rules use.
const SavedOp* find_saved_op(std::string_view name);

// Throws unless a call with these attributes and so many tensors is one the operation can take.
void expect_well_formed(const SavedOp& op, const Attrs& attrs, size_t tensors, bool in_place,
                        const OpDef& def);

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Handles of a program's values: in-place forms and views mean what they mean eagerly.
#pragma once

#include "program/graph.h"

namespace sow::detail {

// How a symbolic view was made: a step from its parent, or from the root, which is no view.
struct SymbolicView {
  const OpDef* op = nullptr;  // null: the same elements (detach)
  Attrs attrs;
  std::shared_ptr<const SymbolicView> parent;
  Tensor root;
  int root_value = 0;  // the root's when this was made: another one since, and it is made again
};

// Makes a view again whose root was written since.
void refresh(const Tensor& tensor);

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Which calls of a graph are needed, and until when the memory of a value is read.
#pragma once

#include "program/graph.h"

namespace sow::detail {

class Uses {
 public:
  explicit Uses(const Graph& graph);

  bool needed(size_t node) const { return needed_[node]; }
  // Whether a call reads the data of its input i, not only its shape.
  bool reads(const GraphNode& node, size_t i) const;

  // The last call that reads the value or what may share its memory; past the end for an output.
  int last(int value) const { return last_use_[root(value)]; }
  bool may_share(int a, int b) const { return root(a) == root(b); }
  // From now on `value` lies in the memory of `with`.
  void join(int value, int with);

 private:
  int root(int value) const;
  void find_needed();
  void find_last_uses();

  const Graph& graph_;
  std::vector<bool> needed_;            // by node
  std::vector<int> parent_, last_use_;  // by value; last_use_ counts for roots
};

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// An index tensor with what is known about it: the bounds policy, and, once held, its order.
#pragma once

#include <memory>

#include "sow/tensor.h"

namespace sow {

namespace detail {
struct IndexOrder;  // src/transfer/index/index_order.h
}

// What happens to an index outside -n <= i < n (semantics, section 4).
enum class Bounds : uint8_t {
  error,    // nothing is written, and the error names the first bad index
  drop,     // that update is left out; a gather gives zero there
  clip,     // the nearest valid index, after negative ones are wrapped
  promise,  // the caller vouches for it; undefined if broken
};

// What a caller knows about the keys; verified when the index is held (semantics, section 7).
struct IndexFacts {
  bool sorted = false;
  bool unique = false;
};

// Every function that takes an index takes one of these; a Tensor becomes one by itself:
//   scatter_add(x, 0, index, src);
//   scatter_add(x, 0, Index(index, Bounds::drop), src);
// A held Index copies and checks its keys once, and keeps their order for every later use:
//   Index edges = Index::hold(index, nodes.size(0));
class SOW_API Index {
 public:
  Index(Tensor keys, Bounds bounds = Bounds::error) : keys_(std::move(keys)), bounds_(bounds) {}
  // Among the indices of index_put and index_get: this axis is not indexed (None in Python).
  static Index whole_axis() {
    Index index = Tensor();
    index.whole_axis_ = true;
    return index;
  }
  // Copies the keys, checks them against an axis of `size`, verifies the facts and orders them.
  static Index hold(const Tensor& keys, int64_t size, Bounds bounds = Bounds::error,
                    IndexFacts facts = {});

  const Tensor& keys() const { return keys_; }
  Bounds bounds() const { return bounds_; }
  // Whether it leaves its axis out.
  bool is_whole_axis() const { return whole_axis_; }
  bool held() const { return order_ != nullptr; }
  int64_t size() const;  // of the axis it was held for; -1 if not held
  IndexFacts facts() const;
  const std::shared_ptr<const detail::IndexOrder>& order() const { return order_; }

 private:
  Tensor keys_;
  Bounds bounds_;
  bool whole_axis_ = false;
  std::shared_ptr<const detail::IndexOrder> order_;
};

}  // namespace sow

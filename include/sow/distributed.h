// SPDX-License-Identifier: Apache-2.0
// Destinations cut by rows over several processes, with the bits of one: what travels, and over
// what.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sow/index.h"
#include "sow/reduce.h"
#include "sow/tensor.h"

namespace sow::distributed {

// How processes talk: one small class for each engine (sow/mpi.h has the one for MPI). Every rank
// makes the same calls in the same order.
class SOW_API Exchange {
 public:
  virtual ~Exchange();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The bytes of every rank, in their order; all give the same number of them.
  void all_gather(const void* mine, int64_t bytes, void* all);
  // Row-major rows, in blocks by receiver; the result's are in blocks by sender. On whatever device
  // the rows are.
  Tensor all_to_all(const Tensor& rows, const std::vector<int64_t>& send,
                    const std::vector<int64_t>& receive);
  // What this rank has sent to others so far.
  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  virtual void gather(const void* mine, int64_t bytes, void* all) = 0;
  virtual void exchange(const Tensor& rows, const std::vector<int64_t>& send, const Tensor& into,
                        const std::vector<int64_t>& receive) = 0;

 private:
  int64_t bytes_sent_ = 0;
};

// Updates of the same places in fewer rows, which stand for them: the sum of floats is an expansion
// of the same type (a few rows whose real sum is exactly that of all), so that whoever folds them
// gets the same bits. assign keeps the last, amax and amin the winner; products, and the means of
// integers, stay as they are.
struct Updates {
  Tensor keys;    // int64, ascending
  Tensor rows;    // of the source's type
  Tensor counts;  // of a mean of floats: how many updates each row stands for; else undefined
};
// The keys address places from 0 on.
SOW_API Updates merge_updates(const Tensor& keys, const Tensor& source, ReduceName reduce);
// The mean of updates whose counts are given.
SOW_API Tensor index_mean_(const Tensor& x, const Updates& updates, bool include_self = true);

// An index into the rows of a destination of which every rank has a part: keys go to their owners
// once, when it is made, and values as often as it is used.
class SOW_API ShardedIndex {
 public:
  // `rows` is how many this rank has; the parts follow each other in rank order. A key that is bad
  // on one rank is the same error on all.
  ShardedIndex(std::shared_ptr<Exchange> exchange, const Tensor& keys, int64_t rows,
               Bounds bounds = Bounds::error);
  // Coordinates into leading axes of x, the first of which is of the rows of all parts: an index
  // into the places that those axes have when they are one. Shapes as ScatterND.
  static ShardedIndex of_coordinates(std::shared_ptr<Exchange> exchange, const Index& indices,
                                     const Tensor& x);
  struct State;
  explicit ShardedIndex(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& state() const { return *state_; }
  int64_t size() const;   // of all parts together
  int64_t count() const;  // of this rank's keys

  // Where this rank's updates go, without merging: the keys of the updates that come here, the
  // updates themselves, and back. What gradients are made of.
  Tensor local_keys() const;
  Tensor send(const Tensor& source) const;
  Tensor send_back(const Tensor& rows) const;

 private:
  std::shared_ptr<State> state_;
};

// As the functions of these names with axis 0, on this rank's part. Where the ranks' arguments do
// not fit together, or those of one are wrong, all raise the same error and nothing is written.
SOW_API Tensor index_add_(const Tensor& x, const ShardedIndex& index, const Tensor& source);
SOW_API Tensor index_copy_(const Tensor& x, const ShardedIndex& index, const Tensor& source);
SOW_API Tensor index_reduce_(const Tensor& x, const ShardedIndex& index, const Tensor& source,
                             ReduceName reduce, bool include_self = true);
SOW_API Tensor index_select(const Tensor& x, const ShardedIndex& index);

// The same with an index for this call alone.
SOW_API Tensor index_add_(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                          const Index& index, const Tensor& source);
SOW_API Tensor index_copy_(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                           const Index& index, const Tensor& source);
SOW_API Tensor index_reduce_(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                             const Index& index, const Tensor& source, ReduceName reduce,
                             bool include_self = true);
SOW_API Tensor index_select(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                            const Index& index);

// By coordinates, the first of which is of the rows of all parts: shapes as ScatterND.
SOW_API Tensor tensor_scatter_nd_(const std::shared_ptr<Exchange>& exchange, const Tensor& x,
                                  const Index& indices, const Tensor& updates, ReduceName reduce,
                                  bool negate = false);

// All ranks call it before they go on: the same error on all if `problem` of one is not null, or if
// what they are about to do differs. How many rows each has.
SOW_API std::vector<int64_t> agree(Exchange& exchange, const std::string& op,
                                   const std::string& about, int64_t rows,
                                   const Error* problem = nullptr);

}  // namespace sow::distributed

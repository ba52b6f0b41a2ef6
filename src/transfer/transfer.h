// SPDX-License-Identifier: Apache-2.0
// A Transfer: the whole of a scatter, gather or strided copy as plain data.
//
//     for every position i of shape, in row-major order:   dst[D(i)]  (+)=  src[S(i)]
//
// D and S are affine (strides), plus what index tensors add, plus, under a mask, the rank of the
// true. Strides count elements; every operand has one per dimension of `shape`.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/inline_vector.h"
#include "sow/index.h"
#include "sow/ops.h"

namespace sow::detail {

struct Operand {
  char* data = nullptr;
  Dims strides;
};

// Adds scale * key to an address, where key is read from an index tensor and, once wrapped, lies
// in [0, extent).
struct IndexOperand {
  const char* data = nullptr;
  DType dtype = DType::int64;  // int32 or int64
  Dims strides;                // over the Transfer's shape
  int64_t extent = 0;
  int64_t scale = 1;
  // For the check and its message: the index tensor as the user gave it, the axis it addresses,
  // and which component of a coordinate (or which of several index tensors) it is; -1: the only
  // one.
  Dims own_shape;
  Dims own_strides;
  int axis = 0;
  int component = -1;
  bool separate = false;  // the components are index tensors of their own (index_put)
};

using IndexOperands = InlineVector<IndexOperand, 1>;

// Which side is addressed by the rank of a true in the mask (the other side is affine).
enum class MaskSide : uint8_t {
  none,
  source,       // masked_scatter: dst affine, src[rank]
  destination,  // masked_select: dst[rank], src affine
  skip,         // masked_fill: both affine, false places are left alone
};

struct Transfer {
  const char* op = "";  // for messages
  DType dtype = DType::float32;
  Dims shape;
  Operand dst;
  Operand src;  // data == nullptr: the scalar below, for every position
  alignas(16) std::byte scalar[16] = {};

  IndexOperands dst_index;
  IndexOperands src_index;
  Bounds bounds = Bounds::error;
  const IndexOrder* order = nullptr;  // of dst_index[0], if somebody holds it

  Reduce reduce = Reduce::assign;
  bool include_self = true;
  bool negate = false;  // the terms are subtracted

  MaskSide mask_side = MaskSide::none;
  Operand mask;            // bytes, nonzero is true
  int64_t rank_limit = 0;  // elements on the rank side; more trues than this is an error
  int64_t rank_stride = 1;
  // Of a destination by rank, on the CPU: the places after the last true's, up to rank_limit,
  // become zero.
  bool clear_rest = false;
  // What counting the mask has left on the device (DeviceTable::count_true), if anything: then it
  // is not read again.
  void* mask_ranks = nullptr;
  // Out of place under a mask: false places take this (same strides rule); null: they are kept.
  Operand base;
};

// What a key that is dropped decodes to, on either side.
inline constexpr int64_t kDropped = INT64_MIN;

// One key, wrapped and bounded as the policy says. `error` keys were checked before.
inline int64_t resolve_key(int64_t key, int64_t extent, Bounds bounds) {
  if (key < 0) key += extent;
  if (bounds == Bounds::drop) return key < 0 || key >= extent ? kDropped : key;
  if (bounds == Bounds::clip) return key < 0 ? 0 : key >= extent ? extent - 1 : key;
  return key;
}

inline int64_t load_key(const IndexOperand& index, int64_t offset) {
  if (index.dtype == DType::int32) {
    int32_t key;
    std::memcpy(&key, index.data + 4 * offset, 4);
    return key;
  }
  int64_t key;
  std::memcpy(&key, index.data + 8 * offset, 8);
  return key;
}

// Throws the contract's error for the first bad key in row-major order, under Bounds::error; for
// an axis of size 0 under clip as well. Reads each index tensor once.
void check_indices(const Transfer& transfer);

// The reference executor: serial, plain, and by definition right. It checks nothing.
void run_reference(const Transfer& transfer);

// Checks, plans and runs on the device of the operands.
void execute(const Transfer& transfer, Device device);

// While one lives, inside explain(), nothing is written to the tensor.
class KeepWhileExplaining {
 public:
  explicit KeepWhileExplaining(const Tensor& tensor);
  ~KeepWhileExplaining();
  KeepWhileExplaining(const KeepWhileExplaining&) = delete;
  KeepWhileExplaining& operator=(const KeepWhileExplaining&) = delete;

 private:
  const Tensor* previous_;
};

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// A Map: an elementwise operation as plain data.
//
//     for every position i of shape:   out[i]  =  op(in[0][i], in[1][i], in[2][i])
//
// The output is row-major. It shares no memory with an input, unless it is that input, element for
// element (on the CPU). Strides count elements.
#pragma once

#include <array>
#include <cstddef>

#include "sow/tensor.h"

namespace sow::detail {

// Integers wrap. float16 and bfloat16 compute in float32 and round once, unless said otherwise.
// Complex products are (ac - bd, ad + bc). On bool add is "or" and mul "and".
enum class MapOp : uint8_t {
  add,
  sub,
  mul,
  div,  // floating and complex
  neg,
  conj,  // complex
  pow,   // to the power of Map::exponent, in float64 (complex128), rounded once
  eq,
  ne,
  lt,
  le,
  gt,
  ge,     // to bool
  same,   // to bool: the same bits, or both NaN
  where,  // in[0] bool: bytes of in[1] where it is nonzero, else of in[2]
  share,  // in[0] / max(in[1], 1), a count in int64: in float64, then rounded
  cast,   // integers and bool to any real type; floating to floating, complex to complex
  abs,    // real
  exp,    // floating: in float64, rounded once (src/core/power.h)
  log,    // the same; natural
  rest,   // of a / b, with b's sign; 0 where an integer b is. No bool, no complex
  bit_and,
  bit_or,
  bit_xor,  // integers and bool
};
const char* name_of(MapOp op);

struct MapOperand {
  const char* data = nullptr;  // null: the scalar
  DType dtype = DType::float32;
  Dims strides;  // one per dimension of the shape
};

struct Map {
  MapOp op = MapOp::add;
  Dims shape;
  char* out = nullptr;
  DType out_dtype = DType::float32;
  int arity = 2;
  std::array<MapOperand, 3> in;
  alignas(16) std::byte scalar[16] = {};  // of the dtype of the operand that has no data
  double exponent = 1;
};

// Runs on the device of the operands; inside explain() it only says what it would do.
void execute(const Map& map, Device device);

void run_map_cpu(const Map& map);

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Counting the trues of a mask, and where they are.
#pragma once

#include <cstdint>

#include "cpu/common/work_queue.h"
#include "transfer/nested_dims.h"
#include "transfer/transfer.h"

namespace sow::detail {

// How many of `count` bytes are nonzero.
int64_t count_true(const void* mask, int64_t count);

// Writes the positions of the nonzero bytes, in order; `out` has room for all of them.
void true_positions(const void* mask, int64_t count, int64_t* out);

// The trues at the flat positions [first, last) of a strided mask.
int64_t count_range(const uint8_t* mask, const Nest<1>& nest, int64_t first, int64_t last);

// Fills ranks[p] with the trues before chunk p, for p up to and with the last chunk's end, and
// returns them all.
int64_t scan_mask(const uint8_t* mask, const Nest<1>& nest, const Chunks& chunks, int threads,
                  int64_t* ranks);

// Throws the contract's error if the rank side has fewer elements than there are trues.
void expect_enough(const Transfer& transfer, int64_t trues);

// Zeroes what the trues leave of a destination by rank, where the Transfer asks for it.
void clear_rest(const Transfer& transfer, int64_t trues);

}  // namespace sow::detail

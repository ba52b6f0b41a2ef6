// SPDX-License-Identifier: Apache-2.0
// The gradients of an indexed scatter in one walk: the updates of each destination are found once,
// and while they are in the cache they get their shares.
#pragma once

#include "transfer/canonical.h"

namespace sow::detail {

struct IndexedBackward {
  Reduce reduce = Reduce::assign;
  bool include_self = true;
  DType dtype = DType::float32;
  // Everything of the destination's shape is row-major, and so is everything of the source's.
  const char* grad = nullptr;  // of the result
  const char* result = nullptr;
  const char* x = nullptr;
  const char* source = nullptr;
  char* x_grad = nullptr;       // touched places are written, others left; null: not wanted
  char* source_grad = nullptr;  // every place but dropped ones is written; null: not wanted
};

// `places` is the scatter of source_grad's places into grad's, of which no address but the keys' is
// read. A mean's sources get one share per destination: it is left in x_grad, for them to gather.
// The bits are those of the rules in src/ops.
bool can_run_indexed_backward(const Transfer& places);
size_t indexed_backward_workspace(const Transfer& places, const Canonical& canonical, int threads);
void run_indexed_backward(const IndexedBackward& work, const Transfer& places,
                          const Canonical& canonical, int threads, char* workspace);

// Runs it now, or hands it to the Recorder.
void execute(const IndexedBackward& work, const Transfer& places);

}  // namespace sow::detail

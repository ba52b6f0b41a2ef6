// SPDX-License-Identifier: Apache-2.0
// How an Error is thrown: one call with a sentence, so that messages read like the contract's.
#pragma once

#include "core/text.h"
#include "sow/error.h"

#ifdef __FAST_MATH__
#error "sow promises exact bits: compile it without -ffast-math"
#endif

namespace sow::detail {

// fail(ErrorKind::shape, "{}: mask {} does not broadcast to x {}", op, mask, x);
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, Sentence<sizeof...(Args)> sentence, const Args&... args) {
  throw Error(kind, text(sentence, args...));
}

}  // namespace sow::detail

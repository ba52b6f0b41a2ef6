// SPDX-License-Identifier: Apache-2.0
// The one exception of the library: what went wrong, in words, with a kind a program can test.
#pragma once

#include <stdexcept>
#include <string>

#include "sow/export.h"

namespace sow {

enum class ErrorKind {
  argument,  // a value that no rule allows: an unknown reduction, an axis out of range
  shape,     // extents that do not fit
  type,      // element types that do not fit
  index,     // an index out of range
  overlap,   // a destination that overlaps itself, or is read-only
  device,    // operands on different devices, a device that is not there
  memory,    // no memory, or a size beyond 64 bits
  autograd,  // a rule of gradients broken
};

class SOW_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace sow

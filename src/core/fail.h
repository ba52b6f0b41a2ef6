// How an Error is thrown: one call with a format, so that messages read like the contract's.
#pragma once

#include <fmt/format.h>

#include "sow/dims.h"
#include "sow/dtype.h"
#include "sow/error.h"

#ifdef __FAST_MATH__
#error "sow promises exact bits: compile it without -ffast-math"
#endif

template <>
struct fmt::formatter<sow::Dims> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const sow::Dims& dims, Context& context) const {
    return fmt::formatter<std::string>::format(sow::to_string(dims), context);
  }
};

template <>
struct fmt::formatter<sow::DType> : fmt::formatter<std::string> {
  template <class Context>
  auto format(sow::DType dtype, Context& context) const {
    return fmt::formatter<std::string>::format(sow::name_of(dtype), context);
  }
};

namespace sow::detail {

// fail(ErrorKind::shape, "{}: mask {} does not broadcast to x {}", op, mask, x);
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<const Args&...> format,
                       const Args&... args) {
  throw Error(kind, fmt::format(format, args...));
}

}  // namespace sow::detail

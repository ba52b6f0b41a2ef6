// The strategies that strategies.cc lists; each is defined in the file of its name.
#pragma once

#include "cuda/strategy.h"

namespace sow::detail::cuda {

extern const Strategy kCells;

}  // namespace sow::detail::cuda

// The strategies that strategies.cc lists; each is defined in the file of its name.
#pragma once

#include "cuda/strategy.h"

namespace sow::detail::cuda {

extern const Strategy kMove;
extern const Strategy kTranspose;
extern const Strategy kMaskElements;
extern const Strategy kMaskRows;
extern const Strategy kWinner;
extern const Strategy kCells;
extern const Strategy kBins;
extern const Strategy kLimbs;
extern const Strategy kPartition;
extern const Strategy kOrdered;
extern const Strategy kBlock;
extern const Strategy kSmall;
extern const Strategy kDirect;

}  // namespace sow::detail::cuda

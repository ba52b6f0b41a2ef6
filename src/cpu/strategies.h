// Every CPU strategy; each is defined in the file of its name and listed in strategies.cc.
#pragma once

#include "transfer/plan.h"

namespace sow::detail {

extern const Strategy k_reference;
extern const Strategy k_tile;

}  // namespace sow::detail

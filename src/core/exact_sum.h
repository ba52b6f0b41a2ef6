// Exact floating-point sums, shared by CPU and CUDA: include this one.
#pragma once

#include "core/exact_long.h"

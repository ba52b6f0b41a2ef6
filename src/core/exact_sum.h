// Exact floating-point sums, shared by CPU and CUDA: include this one. Every way gives the same
// bits wherever it gives an answer, so a strategy may choose, mix and merge them by speed alone.
//   LongAccumulator  always exact, any number of terms; the meaning of all the others
//   CheckedSum       one or two float64, quick; refuses when it cannot prove its answer
//   Limbs            integers by exponent, always exact, one addition a term; not for float64
// Row folds on the CPU use core/exact_rows.h as well.
#pragma once

#include "core/exact_checked.h"
#include "core/exact_limbs.h"
#include "core/exact_long.h"
#include "core/exact_traits.h"

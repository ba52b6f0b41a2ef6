// SPDX-License-Identifier: Apache-2.0
// Exact floating-point sums, shared by CPU and CUDA: include this one.
//
// The contract: a sum is the exact sum of its terms, rounded once. Many mechanisms give it, and all
// give the same bits wherever they give an answer, so a strategy may choose, mix and merge them by
// speed alone. Each either is exact by construction or can say that it is inconclusive; what is
// inconclusive is added up again, before anything of it is written, by one that is not.
//
// | mechanism                     | holds                      | proves                           |
// | ----------------------------- | -------------------------- | -------------------------------- |
// | LongAccumulator (exact_long)  | a fixed-point integer as   | always exact, any number of      |
// |                               | wide as the type's range   | terms; the meaning of all others |
// | CheckedSum (exact_checked)    | one float64, two for       | the error of every addition is   |
// |                               | float64, and a bound on    | known (two_sum); conclusive when |
// |                               | what was lost              | the bound leaves one rounding    |
// | the same in rows (exact_rows, | CheckedSum of many columns | as CheckedSum                    |
// | exact_tile)                   | side by side, in vectors   |                                  |
// | limbs (exact_limbs)           | 64-bit integers, one per   | always exact until a carry is    |
// |                               | so many binades            | due; not for float64             |
// | fixed point                   | one 64-bit integer (two    | terms are whole numbers of one   |
// | (cpu/sum/fixed_point)         | for float64) at a common   | scale and no cell can overflow;  |
// |                               | scale, and a few residuals | others go to the residuals       |
// | fixed point of short rows     | the same, row by row       | the same                         |
// | (cpu/sum/fixed_point_rows)    |                            |                                  |
// | bounded sums                  | a float64 and a bound on   | conclusive when the bound leaves |
// | (cpu/sum/bounded_sum)         | all roundings              | one rounding; any exponents      |
// | one float64 per place         | a float64                  | no addition rounds: all terms    |
// | (cpu/sum/float64_fold)        |                            | are multiples of one bit and     |
// |                               |                            | sums stay below 2^53 of it, or   |
// |                               |                            | is_exact_sum() of each           |
// | spread of exponents           | one float64 per column of  | so few terms, so near to each    |
// | (cpu/rows/row_tile)           | a row, in registers        | other, that no addition rounds;  |
// |                               |                            | else the bound of bounded sums   |
//
// Who uses which, in the order in which they are tried:
//   small                         one float64 per place; then what block does
//   block, private, partition     fixed point, bounded sums (CheckedSum for float64), long
//   partition and block, few      is_exact_sum of the repeated destinations, CheckedSum, long
//     updates per place
//   short_rows                    fixed point of short rows (its residuals in long accumulators);
//                                 where those have no room, what ordered does
//   ordered                       spread of exponents in a row tile, CheckedSum rows of one part,
//                                 of two parts, long; segments in chunks: long partial sums
//   reference                     long
//   CUDA                          fixed point in global memory, what it does not hold linked to its
//                                 cell (sums); fixed point and limbs in shared memory (bins,
//                                 partition); CheckedSum and long (block, ordered)
#pragma once

#include "core/exact/exact_checked.h"
#include "core/exact/exact_limbs.h"
#include "core/exact/exact_long.h"
#include "core/exact/exact_traits.h"

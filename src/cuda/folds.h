// The folds of every type and reduction, chosen at run time.
#pragma once

#include "cuda/segments.h"

namespace sow::detail::cuda {

inline constexpr size_t kLargestPartial = 24;  // bytes of any fold's accumulator

void fold_sums(const Launch& launch, const Segments& segments, char* partials);      // fold_sum.cu
void fold_products(const Launch& launch, const Segments& segments, char* partials);  // fold_product.cu
void fold_integers(const Launch& launch, const Segments& segments, char* partials);  // fold_integer.cu

}  // namespace sow::detail::cuda

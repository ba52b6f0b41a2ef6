// SPDX-License-Identifier: Apache-2.0
// The loops of short rows that need no cells: one for each type, compiled for two instruction sets.
#include "cpu/short_rows/short_apply.h"

#include <cstring>

#include "core/dtype_switch.h"
#include "core/isa.h"
#include "cpu/fold/accumulator.h"
#include "sow/half.h"
#include "transfer/kernel_type.h"

namespace sow::detail {

namespace {

template <class T, Reduce R>
[[gnu::always_inline]] inline T folded(T old, T value) {
  using A = Accumulator<T, R>;
  if constexpr (is_float_element<T>) {
    typename A::State state = A::key_of(old);
    A::merge(state, A::key_of(value));
    return A::value_of(state);
  } else {
    typename A::State state = A::start();
    A::seed(state, old);
    A::add(state, value, 0);
    A::finish(state, 1, true, old);
    return old;
  }
}

// Columns == 0: as many as the items say.
template <class T, Reduce R, int Columns>
[[gnu::always_inline]] inline void apply(char* dst, int64_t step, const ShortItems& given) {
  const ShortItems items = given;  // which nothing that is written can change
  const int columns = Columns == 0 ? items.columns : Columns;
  for (int64_t i = 0; i < items.count; ++i) {
    const T* from = reinterpret_cast<const T*>(items.src + items.items[i] * items.step);
    T* to = reinterpret_cast<T*>(dst + items.rows[i] * step);
    prefetch_short_rows(dst, step, items, i);
    // Read before anything is written, so that it is clear that they do not overlap.
    T row[Columns == 0 ? kShortColumns : Columns];
    for (int c = 0; c < columns; ++c) row[c] = folded<T, R>(to[c], from[c]);
    std::memcpy(to, row, static_cast<size_t>(columns) * sizeof(T));
  }
}

template <class T, Reduce R, int Columns>
void apply_plain(char* dst, int64_t step, const ShortItems& items) {
  apply<T, R, Columns>(dst, step, items);
}
template <class T, Reduce R, int Columns>
SOW_TARGET_AVX512 void apply_avx512(char* dst, int64_t step, const ShortItems& items) {
  apply<T, R, Columns>(dst, step, items);
}

template <class T, Reduce R, int Columns>
ApplyShortRows apply_for() {
  if (SOW_HAS_X86_KERNELS && current_isa() == Isa::avx512) return apply_avx512<T, R, Columns>;
  return apply_plain<T, R, Columns>;
}
template <class T, Reduce R>
ApplyShortRows apply_for(int columns) {
  if (columns == 2) return apply_for<T, R, 2>();
  if (columns == 4) return apply_for<T, R, 4>();
  if (columns == 8) return apply_for<T, R, 8>();
  return apply_for<T, R, 0>();
}
template <class T>
ApplyShortRows apply_for(Reduce reduce, int columns) {
  if (reduce == Reduce::amax) return apply_for<T, Reduce::amax>(columns);
  if (reduce == Reduce::amin) return apply_for<T, Reduce::amin>(columns);
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {  // which unsigned ones share
    if (reduce == Reduce::add) return apply_for<T, Reduce::add>(columns);
    if (reduce == Reduce::mul) return apply_for<T, Reduce::mul>(columns);
  }
  return nullptr;
}

}  // namespace

ApplyShortRows short_apply(DType dtype, Reduce reduce, int columns) {
  [[maybe_unused]] const bool extreme = reduce == Reduce::amax || reduce == Reduce::amin;
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (extreme && dtype == DType::float32 && current_isa() == Isa::avx512)
      return short_extremes_avx512(reduce, columns);
  }
  ApplyShortRows found = nullptr;
  with_dtype(kernel_type(dtype, reduce), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr ((std::is_integral_v<T> && !std::is_same_v<T, bool>) || is_float_element<T>) {
      found = apply_for<T>(reduce, columns);
    }
  });
  return found;
}

}  // namespace sow::detail

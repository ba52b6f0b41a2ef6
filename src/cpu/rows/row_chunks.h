// SPDX-License-Identifier: Apache-2.0
// Destination rows with very many items, in chunks: a partial result per chunk and column, joined
// in the order of the items. Partial sums are Longs, so that no join can be inexact.
#pragma once

#include "cpu/rows/row_kernels.h"

namespace sow::detail {

// What a chunk leaves behind. Sums that were not exact are added up again by the caller.
template <class T, Reduce R, class Enable = void>
struct PartialOf {
  using A = Accumulator<T, R>;
  using Type = typename A::State;
  static bool take(const RowState<T, R>& state, int c, int64_t, Type& out) {
    out = state.states[c];
    return true;
  }
  static T join(const Type* first, int64_t chunks, int64_t stride, int64_t updates, const T* old) {
    Type state = A::start();
    if (old != nullptr) A::seed(state, *old);
    for (int64_t j = 0; j < chunks; ++j) A::merge(state, first[j * stride]);
    T out;
    A::finish(state, updates, old != nullptr, out);
    return out;
  }
};

// The exact value of a checked sum as the only terms of a Long, or false if it isn't exact.
template <class T>
bool long_of(const CheckedSum<T>& sum, LongAccumulator<T>& out) {
  out.reset();
  if (!sum.exact()) return false;
  if (bit_cast<uint64_t>(sum.high()) == FloatTraits<double>::kSign) return true;  // only -0
  out.add(bit_cast<T>(typename FloatTraits<T>::Bits{0}));
  out.add_part(sum.high());
  out.add_part(sum.low());
  return true;
}

template <class T, Reduce R>
struct PartialOf<T, R, std::enable_if_t<may_be_inconclusive<T, R>>> {
  using A = Accumulator<T, R>;
  using Type = typename A::Long;
  static bool take(const RowState<T, R>& state, int c, int64_t, Type& out) {
    return long_of(state.sum(c), out);
  }
  static T join(Type* first, int64_t chunks, int64_t stride, int64_t updates, const T* old) {
    for (int64_t j = 1; j < chunks; ++j) first->merge(first[j * stride]);
    if (old != nullptr) A::long_add(*first, *old);
    return A::long_finish(*first, updates, old != nullptr);
  }
};

template <class T>
struct PartialOf<T, Reduce::mul, std::enable_if_t<is_float_element<T> || is_complex_element<T>>> {
  using Type = typename Product<T>::Wide;
  static bool take(const RowState<T, Reduce::mul>& state, int c, int64_t items, Type& out) {
    out = items % kMulChunk == 0 ? state.total[c] : state.chunk[c];
    return true;
  }
  static T join(const Type* first, int64_t chunks, int64_t stride, int64_t, const T* old) {
    Type total = old != nullptr ? Product<T>::widened(*old) : Type(1);
    for (int64_t j = 0; j < chunks; ++j) {
      total = old != nullptr || j > 0 ? times(total, first[j * stride]) : first[j * stride];
    }
    return Product<T>::rounded(total);
  }
};

template <class T, Reduce R>
struct ChunkLoops {
  using A = Accumulator<T, R>;
  using Rows = RowLoops<T, R>;
  using Partial = PartialOf<T, R>;
  using Type = typename Partial::Type;

  static void fold(const RowJob& job, int64_t begin, int64_t end, char* partials) {
    begin = Rows::first_of(begin, end);
    Type* out = reinterpret_cast<Type*>(partials);
    const auto add = Rows::adder();
    for (int64_t column = job.first_column; column < job.last_column; column += kRowColumns) {
      const int n = static_cast<int>(std::min<int64_t>(kRowColumns, job.last_column - column));
      RowState<T, R> state;
      add(state, job, {begin, end, column, n}, nullptr);
      for (int c = 0; c < n; ++c, ++out) {
        if (Partial::take(state, c, end - begin, *out)) continue;
        if constexpr (may_be_inconclusive<T, R>) {
          out->reset();
          for (int64_t k = begin; k < end; ++k)
            A::long_add(*out, Rows::one_value(job, k, column + c));
        }
      }
    }
  }

  static void join(const RowJob& job, int64_t segment, char* partials, int64_t chunks) {
    Type* first = reinterpret_cast<Type*>(partials);
    T* row = Rows::row_of(job, segment);
    const int64_t width = job.last_column - job.first_column;
    const int64_t updates = job.begins[segment + 1] - job.begins[segment];
    for (int64_t c = 0; c < width; ++c) {
      T& to = row[(job.first_column + c) * job.dst_column];
      const T old = to;
      to = Partial::join(first + c, chunks, width, updates, job.include_self ? &old : nullptr);
    }
  }
};

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// The sums of short rows in plain C++, and the choice among the instruction sets.
#include "cpu/sum/fixed_point_rows.h"

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/sum/fixed_point_kernels.h"

namespace sow::detail {

namespace {

template <class T>
bool add_rows(int64_t* cells, const ShortItems& items, const RowScale& scale,
              RowResiduals& residuals) {
  return short_adder(dtype_of<T>(), items.columns)(cells, items, scale, residuals);
}

// As fine as can be if values are a few times as large as any that was looked at: finer and larger
// ones are for the residuals.
template <class T>
RowScale scale_of(const ShortItems& some, int64_t count) {
  const FixedPointKernels& kernels = *fixed_point_kernels(dtype_of<T>(), Reduce::add);
  MagnitudeRange finite;
  for (int64_t i = 0; i < some.count; ++i) {
    MagnitudeRange row;
    kernels.scan(some.src + some.items[i] * some.step, some.columns, row);
    if (row.largest < FloatTraits<float>::kInfinity) finite.include(row);
  }
  FixedPointScale scale;
  scale.guess(finite, count, kernels);
  return {scale.exponent, std::ldexp(1.0, -scale.exponent),
          std::ldexp(1.0, FixedPointScale::kBits - bit_width(count))};
}

template <class T, Reduce R>
struct ShortEnds {
  using Bits = typename FloatTraits<T>::Bits;
  using Loops = FixedPointLoops<T, R>;

  static T* row_at(const ShortBlock& block, int64_t row) {
    return reinterpret_cast<T*>(block.dst + row * block.step);
  }
  static T& place_of(const ShortBlock& block, uint32_t cell) {
    const auto columns = static_cast<uint32_t>(block.columns);
    return row_at(block, cell / columns)[cell % columns];
  }
  static bool is_ambiguous(T old) { return Loops::is_minus_zero(old) || Term<T>(old).nan(); }
  static FixedPointForm<T> form_of(const ShortBlock& block) {
    FixedPointScale scale;
    scale.exponent = block.exponent;
    return FixedPointForm<T>(scale);
  }
  static T result(const LongAccumulator<T>& sum, int64_t count) {
    if constexpr (R == Reduce::mean) return mean_of<T>(sum.to_double(), count);
    return sum.round();
  }
  // False: it must be known whether there were updates. seen < 0: it is not.
  static bool end(const ShortBlock& block, int64_t cell, int64_t seen,
                  const FixedPointForm<T>& form, T& to) {
    T result;
    const CellEnd what = Loops::end(&cell, seen, to, block.include_self, form, false, result);
    if (what == CellEnd::write) to = result;
    return what != CellEnd::inconclusive;
  }

  // The result of one cell that has residuals [first, last).
  static T resolve(const ShortBlock& block, const uint64_t* first, const uint64_t* last) {
    const auto cell = static_cast<uint32_t>(*first >> 32);
    const int64_t seen =
        block.seen == nullptr ? -1 : block.seen[cell / static_cast<uint32_t>(block.columns)];
    LongAccumulator<T> sum;
    if (block.include_self) sum.add(place_of(block, cell));
    sum.add_units(block.cells[cell], block.exponent - FloatTraits<T>::kUnitExponent);
    if (seen != last - first) sum.add(bit_cast<T>(Bits{0}));  // a term in the cell, which is no -0
    for (; first != last; ++first) sum.add(bit_cast<T>(static_cast<Bits>(*first)));
    return result(sum, seen + block.include_self);
  }

  static bool is_ambiguous_term(const ShortBlock& block, uint64_t term) {
    const auto cell = static_cast<uint32_t>(term >> 32);
    return block.cells[cell] == 0 && is_ambiguous(place_of(block, cell));
  }
  // Residuals become results, one per cell; returns the end of them.
  static uint64_t* resolve_all(const ShortBlock& block, const RowResiduals& residuals) {
    uint64_t* const past = residuals.terms + residuals.count;
    std::sort(residuals.terms, past);
    uint64_t* resolved = residuals.terms;
    for (uint64_t *first = residuals.terms, *last = first; first != past; first = last) {
      while (last != past && *last >> 32 == *first >> 32) ++last;
      const uint64_t cell = *first >> 32;
      *resolved++ = cell << 32 | bit_cast<Bits>(resolve(block, first, last));
    }
    return resolved;
  }

  static void finish(ShortBlock block, const RowResiduals& residuals, const ShortCounter& counter) {
    const auto count = [&] {
      if (block.seen == nullptr) block.seen = counter.count(counter.context, counter.worker);
    };
    if (std::any_of(residuals.terms, residuals.terms + residuals.count,
                    [&](uint64_t term) { return is_ambiguous_term(block, term); })) {
      count();
    }
    const uint64_t* const resolved = resolve_all(block, residuals);
    if (!finish_rows(block)) {
      count();
      finish_ambiguous(block);
    }
    for (const uint64_t* at = residuals.terms; at != resolved; ++at) {
      place_of(block, static_cast<uint32_t>(*at >> 32)) = bit_cast<T>(static_cast<Bits>(*at));
    }
  }
  // What was left as it was.
  static void finish_ambiguous(const ShortBlock& block) {
    const FixedPointForm<T> form = form_of(block);
    for (int64_t row = 0; row < block.rows; ++row) {
      for (int c = 0; block.seen[row] != 0 && c < block.columns; ++c) {
        T& to = row_at(block, row)[c];
        if (block.cells[row * block.columns + c] == 0 && is_ambiguous(to))
          end(block, 0, block.seen[row], form, to);
      }
    }
  }
  // False: some rows are ambiguous.
  static bool finish_rows(const ShortBlock& block) {
    const bool dense = block.step == block.columns * static_cast<int64_t>(sizeof(T));
    if (dense && block.seen == nullptr) {
      return finish_run(block, block.cells, -1, block.rows * block.columns, row_at(block, 0));
    }
    bool all = true;
    for (int64_t row = 0; row < block.rows; ++row) {
      const int64_t seen = block.seen == nullptr ? -1 : int64_t{block.seen[row]};
      all &= finish_run(block, block.cells + row * block.columns, seen, block.columns,
                        row_at(block, row));
    }
    return all;
  }
  static bool finish_run(const ShortBlock& block, const int64_t* cells, int64_t seen,
                         int64_t length, T* to) {
    const FixedPointForm<T> form = form_of(block);
    bool all = true;
    int64_t i = 0;
    if constexpr (std::is_same_v<T, float> && R == Reduce::add) {
      while (seen < 0 && i < length && block.include_self) {
        int64_t stopped;
        i += finish_short_sums(cells + i, to + i, length - i, form.unit, stopped);
        for (; stopped > 0; --stopped, ++i) all &= end(block, cells[i], seen, form, to[i]);
      }
    }
    for (; i < length; ++i) all &= end(block, cells[i], seen, form, to[i]);
    return all;
  }
};

template <class T>
const ShortKernels* kernels_for(Reduce reduce) {
  using Sum = ShortEnds<T, Reduce::add>;
  using Mean = ShortEnds<T, Reduce::mean>;
  static const ShortKernels sum = {add_rows<T>, scale_of<T>, Sum::finish};
  static const ShortKernels mean = {add_rows<T>, scale_of<T>, Mean::finish};
  return reduce == Reduce::add ? &sum : reduce == Reduce::mean ? &mean : nullptr;
}

}  // namespace

const ShortKernels* short_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  return nullptr;
}

}  // namespace sow::detail

// The sums of short rows in plain C++, and the choice among the instruction sets.
#include "cpu/short_sums.h"

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/accumulator.h"

namespace sow::detail {

namespace {

template <class T>
bool add_plain(int64_t* cells, const ShortItems& items, const ShortWindow& window,
               ShortRests& rests) {
  for (int64_t i = 0; i < items.count; ++i) {
    const auto* from = reinterpret_cast<const T*>(items.src + items.items[i] * items.step);
    if (!add_short_row(cells, from, items.rows[i], items.columns, window, rests)) return false;
  }
  return true;
}

template <class T>
bool add_rows(int64_t* cells, const ShortItems& items, const ShortWindow& window,
              ShortRests& rests) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512)
      return short_adder_avx512(dtype_of<T>(), items.columns)(cells, items, window, rests);
  }
  return add_plain<T>(cells, items, window, rests);
}

// As fine as 62 bits allow if values are a few times as large as any that was looked at: finer and
// larger ones are for the rests.
template <class T>
ShortWindow window_of(const ShortItems& some, int64_t count) {
  constexpr int kMargin = 2, kBits = 62;
  uint32_t largest = 0;  // magnitude
  for (int64_t i = 0; i < some.count; ++i) {
    const auto* from = reinterpret_cast<const T*>(some.src + some.items[i] * some.step);
    for (int c = 0; c < some.columns; ++c) {
      const uint32_t magnitude = Term<T>(from[c]).magnitude();
      largest = std::max(largest, magnitude < FloatTraits<T>::kInfinity ? magnitude : 0u);
    }
  }
  int top = FloatTraits<T>::kUnitExponent;
  if (largest != 0) {
    std::frexp(widen(bit_cast<T>(static_cast<typename FloatTraits<T>::Bits>(largest))), &top);
  }
  const int count_bits = 64 - __builtin_clzll(static_cast<uint64_t>(count) | 1);
  ShortWindow window;
  window.exponent = std::max(top + kMargin + count_bits - kBits, FloatTraits<T>::kUnitExponent);
  window.scale = std::ldexp(1.0, -window.exponent);
  window.limit = std::ldexp(1.0, kBits - count_bits);
  return window;
}

template <class T, Reduce R>
struct ShortEnds {
  using Bits = typename FloatTraits<T>::Bits;
  static constexpr bool kEights =
      SOW_HAS_X86_KERNELS && std::is_same_v<T, float> && R == Reduce::add;

  static T* row_at(const ShortBlock& block, int64_t row) {
    return reinterpret_cast<T*>(block.dst + row * block.step);
  }
  static T& place_of(const ShortBlock& block, uint32_t cell) {
    const auto columns = static_cast<uint32_t>(block.columns);
    return row_at(block, cell / columns)[cell % columns];
  }
  static bool is_delicate(T old) {
    const auto bits = bit_cast<Bits>(old);
    return bits == FloatTraits<T>::kSign || Term<T>(old).nan();
  }
  static T result(const LongAccumulator<T>& sum, int64_t count) {
    if constexpr (R == Reduce::mean) return mean_of<T>(sum.to_double(), count);
    return sum.round();
  }

  // One cell without rests that met updates; its old value may be anything.
  static T end_long(const ShortBlock& block, int64_t cell, T old, int64_t seen) {
    LongAccumulator<T> sum;
    if (block.include_self) sum.add(old);
    sum.add(bit_cast<T>(Bits{0}));
    sum.add_units(cell, block.exponent - FloatTraits<T>::kUnitExponent);
    return result(sum, seen + block.include_self);
  }
  // False: it must be known whether there were updates. seen < 0: it is not.
  static bool end(const ShortBlock& block, int64_t cell, int64_t seen, double unit, T& to) {
    const T old = to;
    if (seen == 0) return true;
    if (seen < 0 && cell == 0) return !is_delicate(old);
    const double sum = static_cast<double>(cell);
    const bool plain =
        static_cast<int64_t>(sum) == cell && (!block.include_self || Term<T>(old).finite());
    if (!plain) {
      to = end_long(block, cell, old, seen);
      return true;
    }
    double total = sum * unit, error = 0;
    if (block.include_self) total = two_sum(widen(old), total, error);
    if constexpr (R == Reduce::mean) {
      to = mean_of<T>(total, seen + block.include_self);
    } else {
      to = round_pair<T>(total, error);
    }
    return true;
  }

  // The result of one cell that has rests [first, last).
  static T settle(const ShortBlock& block, const uint64_t* first, const uint64_t* last) {
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

  static bool is_doubtful(const ShortBlock& block, uint64_t term) {
    const auto cell = static_cast<uint32_t>(term >> 32);
    return block.cells[cell] == 0 && is_delicate(place_of(block, cell));
  }
  // Rests become results, one a cell; returns the end of them.
  static uint64_t* settle_all(const ShortBlock& block, const ShortRests& rests) {
    uint64_t* const past = rests.terms + rests.count;
    std::sort(rests.terms, past);
    uint64_t* settled = rests.terms;
    for (uint64_t *first = rests.terms, *last = first; first != past; first = last) {
      while (last != past && *last >> 32 == *first >> 32) ++last;
      const uint64_t cell = *first >> 32;
      *settled++ = cell << 32 | bit_cast<Bits>(settle(block, first, last));
    }
    return settled;
  }

  static void finish(ShortBlock block, const ShortRests& rests, const ShortCounter& counter) {
    const auto count = [&] {
      if (block.seen == nullptr) block.seen = counter.count(counter.context, counter.worker);
    };
    if (std::any_of(rests.terms, rests.terms + rests.count,
                    [&](uint64_t term) { return is_doubtful(block, term); })) {
      count();
    }
    const uint64_t* const settled = settle_all(block, rests);
    if (!finish_rows(block)) {
      count();
      finish_doubtful(block);
    }
    for (const uint64_t* at = rests.terms; at != settled; ++at) {
      place_of(block, static_cast<uint32_t>(*at >> 32)) = bit_cast<T>(static_cast<Bits>(*at));
    }
  }
  // What was left as it was.
  static void finish_doubtful(const ShortBlock& block) {
    for (int64_t row = 0; row < block.rows; ++row) {
      for (int c = 0; block.seen[row] != 0 && c < block.columns; ++c) {
        T& to = row_at(block, row)[c];
        if (block.cells[row * block.columns + c] == 0 && is_delicate(to))
          to = end_long(block, 0, to, block.seen[row]);
      }
    }
  }
  // False: some rows are doubtful.
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
    const double unit = std::ldexp(1.0, block.exponent);
    bool all = true;
    int64_t i = 0;
    if constexpr (kEights) {
      const bool eights = seen < 0 && length >= 8 && current_isa() == Isa::avx512;
      for (; eights && i + 8 <= length; i += 8) {
        for (uint32_t left = finish_eight_avx512(cells + i, to + i, unit); left != 0;
             left &= left - 1) {
          const int64_t at = i + __builtin_ctz(left);
          all &= end(block, cells[at], seen, unit, to[at]);
        }
      }
    }
    for (; i < length; ++i) all &= end(block, cells[i], seen, unit, to[i]);
    return all;
  }
};

template <class T>
const ShortKernels* kernels_for(Reduce reduce) {
  using Sum = ShortEnds<T, Reduce::add>;
  using Mean = ShortEnds<T, Reduce::mean>;
  static const ShortKernels sum = {add_rows<T>, window_of<T>, Sum::finish};
  static const ShortKernels mean = {add_rows<T>, window_of<T>, Mean::finish};
  return reduce == Reduce::add ? &sum : reduce == Reduce::mean ? &mean : nullptr;
}

template <class K>
int keep_plain(const ShortKeys& keys, int count, uint32_t* items, uint32_t* rows) {
  const K* from = reinterpret_cast<const K*>(keys.keys);
  const auto extent = static_cast<uint64_t>(keys.extent);
  int found = 0;
  bool good = true;
  for (int i = 0; i < count; ++i) {
    const auto key = static_cast<uint64_t>(static_cast<int64_t>(from[i]));
    good &= key + extent < 2 * extent;
    const uint64_t wraps = static_cast<uint64_t>(static_cast<int64_t>(key) >> 63) & extent;
    const uint32_t row = static_cast<uint32_t>(key + wraps) - keys.lowest;
    items[found] = keys.first + static_cast<uint32_t>(i);
    rows[found] = row;
    found += row < keys.rows;
  }
  return good ? found : -1;
}

}  // namespace

const ShortKernels* short_kernels(DType dtype, Reduce reduce) {
  if (dtype == DType::float32) return kernels_for<float>(reduce);
  if (dtype == DType::bfloat16) return kernels_for<bfloat16>(reduce);
  if (dtype == DType::float16) return kernels_for<float16>(reduce);
  return nullptr;
}

KeepShortRows keep_short_rows(DType index) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return keep_short_rows_avx512(index);
  }
  return index == DType::int32 ? keep_plain<int32_t> : keep_plain<int64_t>;
}

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// The row loops for one type and reduction.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/isa.h"
#include "cpu/fold/cell_kernels.h"
#include "cpu/rows/row_prefetch.h"
#include "cpu/rows/row_state.h"
#include "cpu/rows/row_tile.h"

namespace sow::detail {

// Sums in two parts, and bounds on what they lost.
struct WiderRow {
  double high[kRowColumns], low[kRowColumns], lost[kRowColumns];

  SOW_INLINE void start(int n) {
    for (int c = 0; c < n; ++c) {
      high[c] = -0.0;
      low[c] = lost[c] = 0;
    }
  }
  void merge(const WiderRow& other, int n) {
    checked_add_row(other.high, high, low, lost, n);
    checked_add_row(other.low, low, lost, n);
    for (int c = 0; c < n; ++c) lost[c] += other.lost[c];
  }
};

// Adds the items [begin, end) of a job to a block of columns. Only this is compiled for every
// instruction level; what happens once a destination row is not.
template <class T, Reduce R, int VectorBytes>
struct RowAdder {
  using State = RowState<T, R>;

  static SOW_INLINE void add(State& state, const RowJob& job, RowRange range, T* old) {
    const int n = range.columns;
    if constexpr (is_float_sum<T, R>) {
      if (n == kRowColumns && job.src_column == 1 && !job.negate)
        return add_in_registers(state, job, range, old);
    }
    state.start(n);
    if (old != nullptr) state.seed(old, n);
    if (job.src_column == 1 && !job.negate) {
      for (int64_t k = range.begin; k < range.end; ++k) {
        prefetch(job, range, k);
        state.add(item(job, k, range.column), n, k - range.begin);
      }
      return;
    }
    T row[kRowColumns];
    for (int64_t k = range.begin; k < range.end; ++k) {
      const T* from = item(job, k, range.column);
      for (int c = 0; c < n; ++c) {
        const T value = from[c * job.src_column];
        row[c] = job.negate ? negated(value) : value;
      }
      state.add(row, n, k - range.begin);
    }
  }

  static SOW_INLINE const T* item(const RowJob& job, int64_t k, int64_t column) {
    const int64_t offset = job.src_base + static_cast<int64_t>(job.ids[k]) * job.src_step;
    return reinterpret_cast<const T*>(job.src) + offset + column * job.src_column;
  }

 private:
  // Into the second-level cache first, as RowTile says.
  static SOW_INLINE void prefetch(const RowJob& job, RowRange range, int64_t k) {
    if (k + kFarRows >= job.items) return;
    const int64_t bytes = range.columns * static_cast<int64_t>(sizeof(T));
    const char* far = reinterpret_cast<const char*>(item(job, k + kFarRows, range.column));
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(far + i, 0, 2);
    const char* near = reinterpret_cast<const char*>(item(job, k + kNearRows, range.column));
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(near + i);
  }

  static SOW_INLINE void add_in_registers(State& state, const RowJob& job, RowRange range, T* old) {
    if constexpr (kCheckedParts<T> == 2) {
      add_in_registers<2>(job, range, old, [&](const auto& tile, int c) {
        tile.spill(state.high + c, state.low + c, state.lost + c);
      });
    } else {
      add_in_registers<1>(job, range, old, [&](const auto& tile, int c) {
        tile.spill(state.high + c, state.lost + c);
      });
    }
  }
  // Calls spill(tile, column) for the sums of some columns after the other.
  template <int Parts, class Spill>
  static SOW_INLINE void add_in_registers(const RowJob& job, RowRange range, const T* old,
                                          Spill spill) {
    constexpr int kVectors = (VectorBytes == 64 ? 8 : 4) / Parts;
    constexpr int kTile = kVectors * VectorBytes / 8;
    for (int c = 0; c < kRowColumns; c += kTile) {
      FoldTile<T, VectorBytes, kTile, Parts> tile;
      if (old != nullptr) tile.add(old + c);
      for (int64_t k = range.begin; k < range.end; ++k) {
        if (c == 0) prefetch(job, range, k);
        tile.add(item(job, k, range.column + c));
      }
      spill(tile, c);
    }
  }

 public:
  // Sums of narrow types in two parts, where one was not enough.
  static SOW_INLINE void add_wider(WiderRow& row, const RowJob& job, RowRange range, const T* old) {
    const int n = range.columns;
    if (n == kRowColumns && job.src_column == 1 && !job.negate) {
      return add_in_registers<2>(job, range, old, [&](const auto& tile, int c) {
        tile.spill(row.high + c, row.low + c, row.lost + c);
      });
    }
    row.start(n);
    if (old != nullptr) checked_add_row(old, row.high, row.low, row.lost, n);
    T values[kRowColumns];
    for (int64_t k = range.begin; k < range.end; ++k) {
      const T* from = item(job, k, range.column);
      for (int c = 0; c < n; ++c) {
        const T value = from[c * job.src_column];
        values[c] = job.negate ? negated(value) : value;
      }
      checked_add_row(values, row.high, row.low, row.lost, n);
    }
  }
};

// The types that have RowTile kernels.
template <class T>
inline constexpr bool is_tiled = std::is_same_v<T, float> || std::is_same_v<T, bfloat16> ||
                                 std::is_same_v<T, float16> || std::is_same_v<T, double>;

template <class T, Reduce R>
struct RowLoops {
  using A = Accumulator<T, R>;
  using State = RowState<T, R>;
  using Portable = RowAdder<T, R, 16>;
  // Types that no goal names are folded by the portable loops alone.
  static constexpr bool kLevels = is_float_element<T>;

  static void add_portable(State& state, const RowJob& job, RowRange range, T* old) {
    Portable::add(state, job, range, old);
  }
  SOW_TARGET_AVX2 static void add_avx2(State& state, const RowJob& job, RowRange range, T* old) {
    RowAdder<T, R, 32>::add(state, job, range, old);
  }
  SOW_TARGET_AVX512 static void add_avx512(State& state, const RowJob& job, RowRange range,
                                           T* old) {
    RowAdder<T, R, 64>::add(state, job, range, old);
  }
  static constexpr bool kMayWiden = is_float_sum<T, R> && kCheckedParts<T> == 1;
  static void add_wider_portable(WiderRow& row, const RowJob& job, RowRange range, const T* old) {
    Portable::add_wider(row, job, range, old);
  }
  SOW_TARGET_AVX2 static void add_wider_avx2(WiderRow& row, const RowJob& job, RowRange range,
                                             const T* old) {
    RowAdder<T, R, 32>::add_wider(row, job, range, old);
  }
  SOW_TARGET_AVX512 static void add_wider_avx512(WiderRow& row, const RowJob& job, RowRange range,
                                                 const T* old) {
    RowAdder<T, R, 64>::add_wider(row, job, range, old);
  }
  static void add_wider(WiderRow& row, const RowJob& job, RowRange range, const T* old) {
    using AddWider = void (*)(WiderRow&, const RowJob&, RowRange, const T*);
    static constexpr AddWider kAdders[] = {add_wider_portable, add_wider_avx2, add_wider_avx512};
    kAdders[static_cast<int>(current_isa())](row, job, range, old);
  }

  using Add = void (*)(State&, const RowJob&, RowRange, T*);
  static Add adder() {
    if constexpr (kLevels) {
      static constexpr Add kAdders[] = {add_portable, add_avx2, add_avx512};
      return kAdders[static_cast<int>(current_isa())];
    }
    return add_portable;
  }

  static T one_value(const RowJob& job, int64_t k, int64_t column) {
    const T value = *Portable::item(job, k, column);
    return job.negate ? negated(value) : value;
  }
  static T* row_of(const RowJob& job, int64_t segment) {
    const int64_t place = job.places != nullptr ? job.places[job.begins[segment]] : segment;
    return reinterpret_cast<T*>(job.dst) + job.dst_base + place * job.dst_step;
  }

  // Of moves only the last item counts.
  static int64_t first_of(int64_t begin, int64_t end) {
    return R == Reduce::assign && begin != end ? end - 1 : begin;
  }

  static void fold_rows(const RowJob& job, int64_t first, int64_t last) {
    if (job.last_column - job.first_column == 1 && !job.negate)
      return fold_elements(job, first, last);
    if constexpr (R == Reduce::assign) {
      if (job.src_column == 1 && job.dst_column == 1) return move_rows(job, first, last);
    }
    const Add add = adder();
    if constexpr (is_tiled<T>) {
      const bool plain = job.src_column == 1 && job.dst_column == 1 && !job.negate;
      if (plain && tile_kernel(kTileColumns, 0) != nullptr)
        return fold_tiles(job, first, last, add);
    }
    for (int64_t s = first; s < last; ++s) {
      RowRange range{first_of(job.begins[s], job.begins[s + 1]), job.begins[s + 1], 0, 0};
      if (range.begin == range.end) continue;
      T* row = row_of(job, s);
      for (int64_t column = job.first_column; column < job.last_column; column += kRowColumns) {
        range.column = column;
        range.columns = static_cast<int>(std::min<int64_t>(kRowColumns, job.last_column - column));
        fold_block(job, range, row + column * job.dst_column, add);
      }
    }
  }

  static void move_rows(const RowJob& job, int64_t first, int64_t last) {
    const size_t bytes = static_cast<size_t>(job.last_column - job.first_column) * sizeof(T);
    for (int64_t s = first; s < last; ++s) {
      if (s + kNearRows < last && job.begins[s + kNearRows + 1] > 0) {
        const char* to_prefetch = reinterpret_cast<const char*>(
            Portable::item(job, job.begins[s + kNearRows + 1] - 1, job.first_column));
        for (size_t i = 0; i < std::min<size_t>(bytes, 512); i += 64)
          __builtin_prefetch(to_prefetch + i);
      }
      if (job.begins[s] == job.begins[s + 1]) continue;
      std::memcpy(row_of(job, s) + job.first_column,
                  Portable::item(job, job.begins[s + 1] - 1, job.first_column), bytes);
    }
  }

  static FoldRowTile tile_kernel(int64_t columns, int shift) {
    return row_tile_kernel(dtype_of<T>(), R, static_cast<int>(columns), shift);
  }

  // Everything is dense: kernels with the accumulators in registers, and the others for sums that
  // these are inconclusive.
  static void fold_tiles(const RowJob& job, int64_t first, int64_t last, Add add) {
    const int64_t width = job.last_column - job.first_column;
    RowTile tile;
    tile.src_step = job.src_step * static_cast<int64_t>(sizeof(T));
    const T* src = reinterpret_cast<const T*>(job.src) + job.src_base + job.first_column;
    const int shift = row_shift(src, tile.src_step, kTileColumns);
    const FoldRowTile whole = tile_kernel(kTileColumns, shift);
    const FoldRowTile part =
        width % kTileColumns == 0 ? whole : tile_kernel(width % kTileColumns, 0);
    tile.include_self = job.include_self;
    if (width <= kTileColumns && last - first > kFarRows) prefetch_first(job, job.begins[first]);
    RowPrefetcher prefetcher(job, first, last, static_cast<int64_t>(sizeof(T)));
    for (int64_t s = first; s < last; ++s) {
      if (job.far_lists) prefetcher.prefetch_from(s);
      RowRange range{job.begins[s], job.begins[s + 1], 0, 0};
      if (range.begin == range.end) continue;
      tile.ids = job.ids + range.begin;
      tile.count = range.end - range.begin;
      prefetch_ahead(job, s, s + 1 < last, tile);
      T* row = row_of(job, s);
      for (int64_t column = job.first_column; column < job.last_column; column += kTileColumns) {
        range.column = column;
        range.columns = static_cast<int>(std::min<int64_t>(kTileColumns, job.last_column - column));
        tile.src = job.src + (job.src_base + column) * static_cast<int64_t>(sizeof(T));
        tile.dst = reinterpret_cast<char*>(row + column);
        tile.columns = range.columns;
        const FoldRowTile fold = range.columns == kTileColumns ? whole : part;
        if constexpr (kMayWiden) {
          if (fold != nullptr && tile.count > kSpreadItems) {
            fold_many(job, range, tile, fold, row + column);
            continue;
          }
        }
        if (fold != nullptr && fold(tile)) continue;
        if constexpr (kMayWiden && R == Reduce::mean) {
          if (fold != nullptr) {  // one part would not tell a float64 either
            fold_wider(job, range, row + column);
            continue;
          }
        }
        fold_block(job, range, row + column, add);
      }
    }
  }
  // Rows that no row before these asks for.
  static void prefetch_first(const RowJob& job, int64_t begin) {
    const int64_t end = std::min(job.items, begin + kFarRows);
    const int64_t bytes = (job.last_column - job.first_column) * static_cast<int64_t>(sizeof(T));
    for (int64_t k = begin; k < end; ++k) {
      const char* row = reinterpret_cast<const char*>(Portable::item(job, k, job.first_column));
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
    }
  }
  // What the kernel fetches: of rows in one tile the next ones in order, of wider ones the same
  // tile of the rows that come next.
  static void prefetch_ahead(const RowJob& job, int64_t s, bool more, RowTile& tile) {
    const int64_t left = job.items - job.begins[s];
    const bool one_tile = job.last_column - job.first_column <= kTileColumns;
    tile.known = one_tile ? left : tile.count;
    if (one_tile || tile.count > kFarRows) {
      tile.far = tile.ids + kFarRows;
      tile.far_count = std::clamp<int64_t>(tile.known - kFarRows, 0, tile.count);
    } else {
      tile.far = tile.ids + tile.count;
      tile.far_count =
          more ? std::min<int64_t>(job.begins[s + 2] - job.begins[s + 1], kFarRows) : 0;
    }
  }

  static void fold_block(const RowJob& job, RowRange range, T* to, Add add) {
    const int n = range.columns;
    T out[kRowColumns];
    T* old = nullptr;
    if (job.include_self && R != Reduce::assign) {
      for (int c = 0; c < n; ++c) out[c] = to[c * job.dst_column];
      old = out;
    }
    State state;
    add(state, job, range, old);
    uint8_t inconclusive[kRowColumns];
    const bool all = state.finish(range.end - range.begin, job.include_self, out, inconclusive, n);
    if constexpr (may_be_inconclusive<T, R>) {
      if (!all) return repair(job, range, to, out, inconclusive);
    }
    for (int c = 0; c < n; ++c) to[c * job.dst_column] = out[c];
  }

  // Writes what was certain, and adds up the other columns with more digits.
  static void repair(const RowJob& job, RowRange range, T* to, const T* out,
                     const uint8_t* inconclusive) {
    if constexpr (kMayWiden) {
      T old[kRowColumns];
      for (int c = 0; c < range.columns; ++c) old[c] = to[c * job.dst_column];
      WiderRow row;
      add_wider(row, job, range, job.include_self ? old : nullptr);
      for (int c = 0; c < range.columns; ++c) {
        T& place = to[c * job.dst_column];
        place = inconclusive[c]
                    ? wide_sum(job, range, c, old[c], {row.high[c], row.low[c], row.lost[c]})
                    : out[c];
      }
    } else {
      for (int c = 0; c < range.columns; ++c) {
        T& place = to[c * job.dst_column];
        place = inconclusive[c] ? long_sum(job, range, c, place) : out[c];
      }
    }
  }
  static T wide_sum(const RowJob& job, RowRange range, int c, const T& old,
                    const CheckedSum<T, 2>& sum) {
    T rounded;
    double wide;
    if (R == Reduce::add && sum.round_to(rounded)) return rounded;
    if (R == Reduce::mean && sum.to_double(wide))
      return mean_of<T>(wide, range.end - range.begin + job.include_self);
    return long_sum(job, range, c, old);
  }
  // Everything in two parts at once.
  static void fold_wider(const RowJob& job, RowRange range, T* to) {
    T old[kRowColumns];
    for (int c = 0; c < range.columns; ++c) old[c] = to[c * job.dst_column];
    WiderRow row;
    add_wider(row, job, range, job.include_self ? old : nullptr);
    finish_wider(job, range, row, to);
  }
  static void finish_wider(const RowJob& job, RowRange range, const WiderRow& row, T* to) {
    const int n = range.columns;
    const int64_t count = range.end - range.begin + job.include_self;
    std::conditional_t<R == Reduce::mean, double, T> sums[kRowColumns] = {};
    uint8_t inconclusive[kRowColumns];
    const bool all = checked_finish_row<T>(row.high, row.low, row.lost, n, sums, inconclusive);
    for (int c = 0; c < n; ++c) {
      T& place = to[c * job.dst_column];
      if (!all && inconclusive[c]) {
        place = long_sum(job, range, c, place);
      } else if constexpr (R == Reduce::mean) {
        place = mean_of<T>(sums[c], count);
      } else {
        place = sums[c];
      }
    }
  }
  // So many items that no tile could prove their sum: piece by piece, and the pieces in two parts.
  static void fold_many(const RowJob& job, RowRange range, RowTile tile, FoldRowTile fold, T* to) {
    WiderRow row;
    row.start(range.columns);
    if (job.include_self) checked_add_row(to, row.high, row.low, row.lost, range.columns);
    alignas(64) double sums[kRowColumns];
    tile.sums = sums;
    tile.include_self = false;
    for (RowRange piece = range; piece.begin < range.end; piece.begin = piece.end) {
      piece.end = std::min(piece.begin + kSpreadItems, range.end);
      tile.ids = job.ids + piece.begin;
      tile.count = piece.end - piece.begin;
      detail::prefetch_ahead(tile, range.end - piece.begin);
      if (fold(tile)) {
        checked_add_row(sums, row.high, row.low, row.lost, range.columns);
      } else {
        WiderRow some;
        add_wider(some, job, piece, nullptr);
        row.merge(some, range.columns);
      }
    }
    finish_wider(job, range, row, to);
  }
  static T long_sum(const RowJob& job, RowRange range, int c, const T& old) {
    typename A::Long sum;
    if (job.include_self) A::long_add(sum, old);
    for (int64_t k = range.begin; k < range.end; ++k)
      A::long_add(sum, one_value(job, k, range.column + c));
    return A::long_finish(sum, range.end - range.begin, job.include_self);
  }

  static T long_element(const RowJob& job, RowRange range, const T& old) {
    if constexpr (kMayWiden) {
      // Two parts of float64 nearly always hold what one does not.
      CheckedSum<T, 2> sum;
      if (job.include_self) sum.add(old);
      for (int64_t k = range.begin; k < range.end; ++k) sum.add(one_value(job, k, range.column));
      return wide_sum(job, range, 0, old, sum);
    } else {
      return long_sum(job, range, 0, old);
    }
  }

  // Rows of one element: an accumulator in registers.
  static void fold_elements(const RowJob& job, int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      const int64_t end = job.begins[s + 1], begin = first_of(job.begins[s], end);
      if (begin == end) continue;
      T& to = row_of(job, s)[job.first_column * job.dst_column];
      typename A::State state = A::start();
      if (job.include_self && R != Reduce::assign) A::seed(state, to);
      for (int64_t k = begin; k < end; ++k) {
        if (k + 16 < job.items) __builtin_prefetch(Portable::item(job, k + 16, job.first_column));
        A::add(state, *Portable::item(job, k, job.first_column), static_cast<uint32_t>(k - begin));
      }
      T out;
      const bool certain = A::finish(state, end - begin, job.include_self, out);
      if constexpr (may_be_inconclusive<T, R>) {
        if (!certain) out = long_element(job, {begin, end, job.first_column, 1}, to);
      }
      to = out;
    }
  }
};

}  // namespace sow::detail

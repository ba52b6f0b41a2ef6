// SPDX-License-Identifier: Apache-2.0
// Updates applied straight to the destination, without accumulators: what "direct" and "owned"
// share.
#pragma once

#include <cstring>
#include <type_traits>

#include "cpu/common/prefetch.h"
#include "cpu/read/update_reader.h"
#include "cpu/transfer_facts.h"
#include "cpu/tuning.h"

namespace sow::detail {

// Moves, and reductions whose running result is exact in the type; the old value must take part.
inline bool is_direct(const Transfer& t) {
  if (!is_fold(t)) return false;
  return fold_kernels(t.dtype, t.reduce)->direct && (t.include_self || t.reduce == Reduce::assign);
}

class DirectWalk {
 public:
  DirectWalk(const Transfer& t, const Canonical& c)
      : transfer_(t),
        canonical_(c),
        kernels_(*fold_kernels(t.dtype, t.reduce)),
        reader_(t, c, kernels_) {}

  UpdateReader& reader() { return reader_; }

  // The updates of the first items of one outer position.
  void run(const OuterBase& base, int64_t items) {
    const Axis& row = canonical_.row;
    const bool whole_rows = transfer_.reduce == Reduce::assign && transfer_.src.data != nullptr &&
                            row.size > 1 && row.dst == 1 && row.src == 1;
    if (whole_rows) return move_rows(base, items);
    for (int64_t column = 0; column < row.size; column += kColumns) {
      const int width = static_cast<int>(std::min<int64_t>(kColumns, row.size - column));
      const Destination dst{transfer_.dst.data + column * row.dst * kernels_.value_size, row.dst,
                            true};
      reader_.read(base, 0, items, column, width,
                   [&](const Updates& updates) { kernels_.apply.rows(dst, updates, width); });
    }
  }

 private:
  static constexpr int64_t kColumns = 256;

  void move_rows(const OuterBase& base, int64_t items) {
    const int64_t size = kernels_.value_size;
    const size_t bytes = static_cast<size_t>(canonical_.row.size * size);
    const auto move = [&](auto length) {
      reader_.read_places(base, 0, items, kTileItems,
                          [&](const int64_t* to, const int64_t* from, int count, bool) {
                            for (int i = 0; i < count; ++i) {
                              std::memcpy(transfer_.dst.data + to[i] * size,
                                          transfer_.src.data + from[i] * size, length());
                            }
                          });
    };
    // A call for each short row costs more than the row.
    switch (bytes) {
      case 8:
        return move(std::integral_constant<size_t, 8>{});
      case 16:
        return move(std::integral_constant<size_t, 16>{});
      case 32:
        return move(std::integral_constant<size_t, 32>{});
      case 64:
        return move(std::integral_constant<size_t, 64>{});
      default:
        return move([bytes] { return bytes; });
    }
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  UpdateReader reader_;
};

// What an element costs that goes straight to its place.
inline double element_ns(const Transfer& t) {
  if (t.reduce == Reduce::assign) return tuning::kMoveNs;
  const bool extreme = t.reduce == Reduce::amax || t.reduce == Reduce::amin;
  return extreme && is_floating(t.dtype) ? tuning::kDirectExtremeNs : tuning::kDirectNs;
}

// What one worker needs for every update of the Transfer, which it does in so many tasks.
inline double direct_ns(const Transfer& t, const Canonical& c, int64_t tasks) {
  const double rows = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  const double size = static_cast<double>(size_of(t.dtype));
  const double row = static_cast<double>(c.row.size);
  double each = element_ns(t);
  if (c.row.size > 1) {
    const double far = rows * row * size > 1e6 ? tuning::kMoveFarByteNs : tuning::kMoveByteNs;
    const double move = row * size <= 64 ? tuning::kMoveShortRowNs : tuning::kMoveRowNs;
    each = t.reduce == Reduce::assign ? move + far * row * size
                                      : tuning::kRowNs + tuning::kRowColumnNs * row;
  }
  double places = row;
  for (const IndexOperand& index : t.dst_index) places *= static_cast<double>(index.extent);
  // Positions whose places are met here and there find none of them in the cache.
  const bool scattered = !is_touched(1, static_cast<int64_t>(std::min(places, 1e15)), c.item_count,
                                     static_cast<int>(size));
  if (scattered) places *= static_cast<double>(c.outer_count);
  // Nothing waits for what is only written.
  const double miss = tuning::miss_ns(places * size) * (t.reduce == Reduce::assign ? 0.5 : 1);
  return rows * (each + far_keys_ns(c) + miss) + static_cast<double>(tasks) * tuning::kTaskNs;
}

}  // namespace sow::detail

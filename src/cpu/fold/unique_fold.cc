// SPDX-License-Identifier: Apache-2.0
// Which places meet several updates is found with an epoch mark per place: the number of the first
// update that met it.
#include "cpu/fold/unique_fold.h"

#include <algorithm>

#include "cpu/common/byte_width.h"

namespace sow::detail {

namespace {

uint32_t first_of(const UniqueUpdates& unique, uint32_t cell) {
  const uint32_t mark = unique.short_marks
                            ? reinterpret_cast<const uint16_t*>(unique.epoch_marks)[cell]
                            : reinterpret_cast<const uint32_t*>(unique.epoch_marks)[cell];
  return mark - unique.begin;
}

}  // namespace

UniqueFold::UniqueFold(const FoldKernels& kernels, int64_t places, const Room& room, Carver& carver)
    : kernels_(kernels),
      places_(places),
      most_(room.updates),
      mark_bytes_(room.mark),
      cells_(carver.take<uint32_t>(room.updates)),
      values_(carver.take<char>(room.values * kernels.value_size)),
      epoch_marks_(carver.take<char>(places * room.mark)),
      repeated_(carver.take<uint32_t>(room.updates + 1)),
      olds_(carver.take<char>(room.updates * kernels.value_size)),
      slots_(carver.take<uint32_t>(room.updates)),
      fold_(kernels, room.folded, room.folded, 1, carver) {
  batch_.cells = carver.take<uint32_t>(kTileItems);
  batch_.values = carver.take<char>(int64_t{kTileItems} * kernels.value_size);
  offsets_ = carver.take<int64_t>(kTileItems);
}

void UniqueFold::run(const PlaceRange& block, const char* values, int64_t count) {
  UniqueUpdates unique;
  unique.block = block;
  unique.cells = cells_;
  unique.values = values;
  unique.count = count;
  unique.olds = olds_;
  unique.repeated = repeated_;
  number(unique);
  const int64_t listed = kernels_.unique.apply(unique);
  if (listed > 0) fold_listed(unique, listed);
}

// Numbers grow from block to block, so that epoch marks are emptied only when there are none left:
// of 16 bits now and then, where that is no more than so many bytes an update, but half as many
// lines of the cache are met then.
int UniqueFold::mark_size(int64_t places, int64_t updates) {
  constexpr int64_t kEmptied = 16;
  const int64_t blocks = UINT16_MAX / std::max<int64_t>(updates, 1);
  return places * 2 <= kEmptied * blocks * updates ? sizeof(uint16_t) : sizeof(uint32_t);
}

void UniqueFold::number(UniqueUpdates& unique) {
  // There may be room for short ones only, which do for fewer updates too: some may be left out.
  const int size = std::min(mark_bytes_, mark_size(places_, unique.count));
  const bool short_marks = size == sizeof(uint16_t);
  const uint64_t most = short_marks ? UINT16_MAX : UINT32_MAX;
  const auto count = static_cast<uint64_t>(unique.count);
  if (next_ == 0 || short_marks != short_marks_ || next_ + count - 1 > most) {
    std::memset(epoch_marks_, 0, static_cast<size_t>(places_ * size));
    short_marks_ = short_marks;
    next_ = 1;
  }
  unique.epoch_marks = epoch_marks_;
  unique.short_marks = short_marks;
  unique.begin = static_cast<uint32_t>(next_);
  next_ += count;
}

void UniqueFold::fold_listed(const UniqueUpdates& unique, int64_t listed) {
  std::memset(slots_, 0, static_cast<size_t>(unique.count) * sizeof(uint32_t));
  bool done = false;
  fold_.fill([&](const Cells& cells, Touched& touched) {
    done = kernels_.unique.fold_repeated(unique, listed, cells, slots_, touched);
  });
  if (done) return;
  const Destination dst{unique.block.first, 1, unique.block.include_self};
  // Only where a sum is inconclusive: the updates whose places have a slot, part by part.
  fold_.finish(dst, [&](auto&& take) {
    with_width(static_cast<size_t>(kernels_.value_size), [&](auto width) {
      const auto* from = reinterpret_cast<const Word<width()>*>(unique.values);
      auto* batch = reinterpret_cast<Word<width()>*>(batch_.values);
      Updates updates;
      updates.cells = batch_.cells;
      updates.values = batch_.values;
      updates.offsets = offsets_;
      for (int64_t i = 0; i < unique.count; ++i) {
        const uint32_t slot = slots_[first_of(unique, cells_[i])];
        if (slot == 0) continue;
        batch_.cells[updates.count] = slot - 1;
        offsets_[updates.count] = cells_[i] * unique.block.step;
        batch[updates.count] = from[i];
        if (++updates.count < kTileItems) continue;
        take(updates);
        updates.count = 0;
      }
      take(updates);
    });
  });
}

}  // namespace sow::detail

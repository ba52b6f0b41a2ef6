// Which places meet several updates is found with a stamp a place: the number of the first update
// that met it.
#include "cpu/singles_fold.h"

#include <algorithm>

#include "cpu/word.h"

namespace sow::detail {

namespace {

uint32_t first_of(const Singles& singles, uint32_t cell) {
  const uint32_t stamp = singles.narrow ? reinterpret_cast<const uint16_t*>(singles.stamps)[cell]
                                        : reinterpret_cast<const uint32_t*>(singles.stamps)[cell];
  return stamp - singles.begin;
}

}  // namespace

SinglesFold::SinglesFold(const FoldKernels& kernels, int64_t places, const Room& room,
                         Carver& carver)
    : kernels_(kernels),
      places_(places),
      most_(room.updates),
      stamp_(room.stamp),
      cells_(carver.take<uint32_t>(room.updates)),
      values_(carver.take<char>(room.values * kernels.value_size)),
      stamps_(carver.take<char>(places * room.stamp)),
      again_(carver.take<uint32_t>(room.updates + 1)),
      olds_(carver.take<char>(room.updates * kernels.value_size)),
      slots_(carver.take<uint32_t>(room.updates)),
      fold_(kernels, room.folded, room.folded, 1, carver) {
  batch_.cells = carver.take<uint32_t>(kTileItems);
  batch_.values = carver.take<char>(int64_t{kTileItems} * kernels.value_size);
  offsets_ = carver.take<int64_t>(kTileItems);
}

void SinglesFold::run(const Block& block, const char* values, int64_t count) {
  Singles singles;
  singles.block = block;
  singles.cells = cells_;
  singles.values = values;
  singles.count = count;
  singles.olds = olds_;
  singles.again = again_;
  number(singles);
  const int64_t listed = kernels_.apply_singles(singles);
  if (listed > 0) fold_listed(singles, listed);
}

// Numbers grow from block to block, so that stamps are emptied only when there are none left: of 16
// bits now and then, where that is no more than so many bytes an update, but half as many lines of
// the cache are met then.
int SinglesFold::stamp_size(int64_t places, int64_t updates) {
  constexpr int64_t kEmptied = 16;
  const int64_t blocks = UINT16_MAX / std::max<int64_t>(updates, 1);
  return places * 2 <= kEmptied * blocks * updates ? sizeof(uint16_t) : sizeof(uint32_t);
}

void SinglesFold::number(Singles& singles) {
  // There may be room for narrow ones only, which do for fewer updates too: some may be left out.
  const int size = std::min(stamp_, stamp_size(places_, singles.count));
  const bool narrow = size == sizeof(uint16_t);
  const uint64_t most = narrow ? UINT16_MAX : UINT32_MAX;
  const auto count = static_cast<uint64_t>(singles.count);
  if (next_ == 0 || narrow != narrow_ || next_ + count - 1 > most) {
    std::memset(stamps_, 0, static_cast<size_t>(places_ * size));
    narrow_ = narrow;
    next_ = 1;
  }
  singles.stamps = stamps_;
  singles.narrow = narrow;
  singles.begin = static_cast<uint32_t>(next_);
  next_ += count;
}

void SinglesFold::fold_listed(const Singles& singles, int64_t listed) {
  std::memset(slots_, 0, static_cast<size_t>(singles.count) * sizeof(uint32_t));
  bool done = false;
  fold_.fill([&](const Cells& cells, Touched& touched) {
    done = kernels_.fold_again(singles, listed, cells, slots_, touched);
  });
  if (done) return;
  const Destination dst{singles.block.first, 1, singles.block.include_self};
  // Only where a sum is refused: the updates whose places have a slot, part by part.
  fold_.finish(dst, [&](auto&& take) {
    with_width(static_cast<size_t>(kernels_.value_size), [&](auto width) {
      const auto* from = reinterpret_cast<const Word<width()>*>(singles.values);
      auto* batch = reinterpret_cast<Word<width()>*>(batch_.values);
      Updates updates;
      updates.cells = batch_.cells;
      updates.values = batch_.values;
      updates.offsets = offsets_;
      for (int64_t i = 0; i < singles.count; ++i) {
        const uint32_t slot = slots_[first_of(singles, cells_[i])];
        if (slot == 0) continue;
        batch_.cells[updates.count] = slot - 1;
        offsets_[updates.count] = cells_[i] * singles.block.step;
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

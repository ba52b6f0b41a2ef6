// Which places meet several updates is found with a stamp a place: all updates write their number,
// and those that do not find it again were followed by another.
#include "cpu/singles_fold.h"

#include <algorithm>

#include "cpu/word.h"

namespace sow::detail {

SinglesFold::SinglesFold(const FoldKernels& kernels, int64_t places, int64_t updates,
                         Carver& carver)
    : kernels_(kernels),
      places_(places),
      most_(std::min(2 * places, updates)),
      cells_(carver.take<uint32_t>(most_)),
      values_(carver.take<char>(most_ * kernels.value_size)),
      stamps_(carver.take<uint32_t>(places)),
      list_(carver.take<uint32_t>(most_ + 1)),
      olds_(carver.take<char>((most_ + 1) * kernels.value_size)),
      lasts_(carver.take<uint32_t>(std::min(places, updates))),
      fold_(kernels, std::min(places, updates), std::min(places, updates), 1, carver) {
  batch_.cells = carver.take<uint32_t>(kTileItems);
  batch_.values = carver.take<char>(int64_t{kTileItems} * kernels.value_size);
  offsets_ = carver.take<int64_t>(kTileItems);
}

void SinglesFold::apply(const Block& block, const char* values, int64_t count) {
  uint32_t* const stamps = stamps_;
  const uint32_t* const cells = cells_;
  for (int64_t i = 0; i < count; ++i) stamps[cells[i]] = static_cast<uint32_t>(i);
  const int64_t earlier = kernels_.apply_singles(block, cells, values, count, stamps, list_, olds_);
  if (earlier == 0) return;
  with_width(static_cast<size_t>(kernels_.value_size),
             [&](auto width) { fold_listed<width()>(block, values, earlier); });
}

template <int Width>
void SinglesFold::fold_listed(const Block& block, const char* values, int64_t earlier) {
  // The places get their slots, and what was there before the first update.
  auto* to = reinterpret_cast<Word<Width>*>(block.first);
  const auto* olds = reinterpret_cast<const Word<Width>*>(olds_);
  slots_ = 0;
  for (int64_t i = 0; i < earlier; ++i) {
    const uint32_t cell = cells_[list_[i]], stamp = stamps_[cell];
    if ((stamp & kSlot) != 0) continue;
    to[cell * block.step] = olds[i];
    lasts_[slots_] = stamp;
    stamps_[cell] = kSlot | static_cast<uint32_t>(slots_++);
  }
  const auto* from = reinterpret_cast<const Word<Width>*>(values);
  auto* batch = reinterpret_cast<Word<Width>*>(batch_.values);
  const auto read_list = [&](const uint32_t* list, int64_t count, auto&& take) {
    for (int64_t first = 0; first < count; first += kTileItems) {
      Updates updates;
      updates.count = static_cast<int>(std::min<int64_t>(kTileItems, count - first));
      updates.cells = batch_.cells;
      updates.values = batch_.values;
      updates.offsets = offsets_;
      for (int i = 0; i < updates.count; ++i) {
        const uint32_t update = list[first + i], cell = cells_[update];
        batch_.cells[i] = stamps_[cell] & ~kSlot;
        offsets_[i] = cell * block.step;
        batch[i] = from[update];
      }
      take(updates);
    }
  };
  fold(block, [&](auto&& take) {
    read_list(list_, earlier, take);
    read_list(lasts_, slots_, take);
  });
}

}  // namespace sow::detail

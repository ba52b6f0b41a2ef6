// SPDX-License-Identifier: Apache-2.0
// Moves to few places: the updates are walked from the last one back, and once every place has met
// one, nothing before them matters but that their keys are good.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/common/byte_width.h"
#include "cpu/common/prefetch.h"
#include "cpu/fold/cell_fold.h"
#include "cpu/read/id_reader.h"

namespace sow::detail {

class LastUpdates {
 public:
  // The numbers of updates are counted from here on, in shares of up to 2^31.
  LastUpdates(int64_t places, Carver& carver)
      : places_(places), last_(carver.take<uint32_t>(places)) {}

  // Finds the last update of every place among [first, last). False: there is a bad key.
  bool find(IdReader& reader, const OuterBase& base, int64_t first, int64_t last) {
    first_ = first;
    std::memset(last_, 0, static_cast<size_t>(places_) * sizeof(uint32_t));
    int64_t unmet = places_;
    while (last > first && unmet > 0) {
      const int64_t from = std::max(first, last - kTileItems);
      const auto number = static_cast<uint32_t>(from - first) + 1;
      const bool good = reader.read_ids(base, from, last, [&](const uint32_t* ids, int count) {
        unmet -= note(ids, count, number, reader.to_prefetch());
      });
      if (!good) return false;
      last = from;
    }
    return reader.checks_out(base, first, last);
  }

  // The position of a place's last update, or -1.
  int64_t operator[](int64_t place) const {
    return last_[place] == 0 ? -1 : first_ + last_[place] - 1;
  }

 private:
  int64_t note(const uint32_t* ids, int count, uint32_t number, const char* past) {
    int64_t found = 0;
    const char* to_prefetch = past - 2 * int64_t{kTileItems} * 8;  // the tile before this one
    for (int i = count - 1; i >= 0; --i) {
      if (i % 8 == 0) prefetch(to_prefetch, i * 8);
      uint32_t& last = last_[ids[i]];
      if (__builtin_expect(last == 0, 0)) {
        last = number + static_cast<uint32_t>(i);
        ++found;
      }
    }
    return found;
  }

  int64_t places_, first_ = 0;
  uint32_t* last_;  // counted from 1; 0: none
};

}  // namespace sow::detail

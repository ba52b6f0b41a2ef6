// SPDX-License-Identifier: Apache-2.0
// Reads the updates of a Transfer in source order, batch by batch, into arrays that kernels take.
#pragma once

#include "cpu/fold/fold_kernels.h"
#include "transfer/canonical.h"

namespace sow::detail {

class UpdateReader {
 public:
  UpdateReader(const Transfer& transfer, const Canonical& canonical, const FoldKernels& kernels)
      : transfer_(transfer),
        canonical_(canonical),
        kernels_(kernels),
        filters_(transfer.bounds == Bounds::drop) {}
  UpdateReader(const UpdateReader&) = delete;
  UpdateReader& operator=(const UpdateReader&) = delete;

  // Leaves out the updates whose offset is not in [first, last).
  void keep_only(int64_t first, int64_t last) {
    lowest_ = first;
    past_ = last;
    filters_ = true;
  }

  // Calls f(Updates) for columns [column, column + width) of the items [first, last) of an outer
  // position. Dropped items are left out. `cells` is left to the caller.
  template <class F>
  void read(const OuterBase& base, int64_t first, int64_t last, int64_t column, int width, F&& f) {
    const int most =
        std::max(1, static_cast<int>(kValueBytes / (int64_t{width} * kernels_.value_size)));
    read_places(base, first, last, most,
                [&](const int64_t* offsets, const int64_t*, int count, bool complete) {
                  Updates updates;
                  updates.count = count;
                  updates.offsets = offsets;
                  updates.values = gather(count, column, width, complete);
                  f(updates);
                });
  }

  // Calls f(offsets, sources, count, complete) without reading values, for up to `most` items at
  // a time; complete: none was left out.
  template <class F>
  void read_places(const OuterBase& base, int64_t first, int64_t last, int most, F&& f) {
    for (int64_t at = first; at < last;) {
      const int count = static_cast<int>(std::min<int64_t>({last - at, kTileItems, most}));
      decode_items(transfer_, canonical_, base, at, count, offsets_, sources_);
      at += count;
      const int kept = filters_ ? leave_out(count) : count;
      if (kept > 0)
        f(static_cast<const int64_t*>(offsets_), static_cast<const int64_t*>(sources_), kept,
          kept == count);
    }
  }

 private:
  static constexpr int64_t kValueBytes = 16384;

  int leave_out(int count);
  const char* gather(int count, int64_t column, int width, bool complete);

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  bool filters_;
  int64_t lowest_ = kDropped + 1, past_ = INT64_MAX;
  int64_t offsets_[kTileItems];
  int64_t sources_[kTileItems];
  alignas(64) char values_[kValueBytes];
};

}  // namespace sow::detail

// Reads the updates of a Transfer in source order, batch by batch, into arrays that kernels take.
#pragma once

#include "cpu/fold_kernels.h"
#include "transfer/canonical.h"

namespace sow::detail {

class UpdateReader {
 public:
  UpdateReader(const Transfer& transfer, const Canonical& canonical, const FoldKernels& kernels)
      : transfer_(transfer), canonical_(canonical), kernels_(kernels), drops_(transfer.bounds == Bounds::drop) {}
  UpdateReader(const UpdateReader&) = delete;
  UpdateReader& operator=(const UpdateReader&) = delete;

  // Calls f(Updates) for columns [column, column + width) of the items [first, last) of an outer
  // position. Dropped items are left out. `cells` is left to the caller.
  template <class F>
  void read(const OuterBase& base, int64_t first, int64_t last, int64_t column, int width, F&& f) {
    const int most = std::max(1, static_cast<int>(kValueBytes / (int64_t{width} * kernels_.value_size)));
    for (int64_t at = first; at < last;) {
      const int count = static_cast<int>(std::min<int64_t>({last - at, kTileItems, most}));
      decode_items(transfer_, canonical_, base, at, count, offsets_, sources_);
      at += count;
      const int kept = drops_ ? leave_out_dropped(count) : count;
      if (kept == 0) continue;
      Updates updates;
      updates.count = kept;
      updates.offsets = offsets_;
      updates.values = gather(kept, column, width, kept == count);
      f(updates);
    }
  }

 private:
  static constexpr int64_t kValueBytes = 16384;

  int leave_out_dropped(int count);
  const char* gather(int count, int64_t column, int width, bool complete);

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  const bool drops_;
  int64_t offsets_[kTileItems];
  int64_t sources_[kTileItems];
  alignas(64) char values_[kValueBytes];
};

}  // namespace sow::detail

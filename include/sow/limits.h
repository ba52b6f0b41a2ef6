// SPDX-License-Identifier: Apache-2.0
// Bounds on what a call works on at a time, for whoever has to share memory or a cache. No result
// depends on them.
#pragma once

#include <cstdint>
#include <optional>

#include "sow/dims.h"
#include "sow/export.h"

namespace sow {

// The most bytes of scratch that one operation on the CPU may take beside its arguments and result:
// slower ways are chosen, and problems cut into parts, before more is asked for. 0: no limit.
SOW_API void limit_memory(int64_t bytes);
// That limit; 0: there is none.
SOW_API int64_t scratch_limit();

// How much of each axis of a destination is worked on at a time, the axis of a scatter too. It
// holds for operations whose destination has this rank, on every device, outside of programs; those
// of another rank are an error. Empty: whatever the planner finds best. For all threads.
SOW_API void set_tile_shape(const Dims& shape);

// The same for this thread, while it lives.
class SOW_API Tiles {
 public:
  explicit Tiles(const Dims& shape);
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  std::optional<Dims> previous_;
};
// What holds for this thread now; empty: nothing.
SOW_API Dims tile_shape();
// Whether there is one.
SOW_API bool has_tile_shape();

}  // namespace sow

// SPDX-License-Identifier: Apache-2.0
// How large a team OpenMP can give: it ends the process where it cannot start a thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace sow::detail {

// The threads that OpenMP keeps for one calling thread, as far as they met us. Before a team grows,
// threads like those it lacks are started and ended: where there is no room for their stacks, or a
// limit on processes is met, the team has to do with fewer.
class Crew {
 public:
  // Of the calling thread; null where there is no memory for one.
  static Crew* mine() noexcept;

  // The largest team of up to `wanted` threads, the caller among them, that can be had.
  int room_for(int wanted) noexcept { return wanted <= sure_ ? wanted : look_for_room(wanted); }

  // Every thread of a team but the caller, in each region.
  void join() noexcept;

 private:
  friend struct CrewHold;
  static Crew* make() noexcept;
  int look_for_room(int wanted) noexcept;
  void leave() noexcept;
  void release() noexcept;

  std::atomic<int> holders_{1};
  std::atomic<int> others_{0};  // alive, the caller not among them
  std::atomic<int> sure_{1};    // a team of this size was had, and no thread of it has ended since
  int64_t look_again_ns_ = 0;   // where there was too little room: not at every call
};

}  // namespace sow::detail

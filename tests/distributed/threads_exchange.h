// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: what tests exchange over.
#pragma once

#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sow/distributed.h"

namespace sow::test {

// Everybody leaves what it has in a slot, waits, reads, and waits again.
struct Meeting {
  explicit Meeting(int size)
      : slots(static_cast<size_t>(size)), counts(static_cast<size_t>(size)) {}
  void wait() {
    std::unique_lock lock(mutex);
    const int64_t before = turn;
    if (++arrived == static_cast<int>(slots.size())) {
      arrived = 0;
      ++turn;
      all_here.notify_all();
      return;
    }
    all_here.wait(lock, [&] { return turn != before; });
  }
  std::vector<const void*> slots;
  std::vector<const std::vector<int64_t>*> counts;
  std::mutex mutex;
  std::condition_variable all_here;
  int arrived = 0;
  int64_t turn = 0;
};

class ThreadExchange : public distributed::Exchange {
 public:
  ThreadExchange(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->slots.size()); }

 protected:
  void gather(const void* mine, int64_t bytes, void* all) override {
    meeting_->slots[rank_] = mine;
    meeting_->wait();
    for (int r = 0; r < size(); ++r)
      std::memcpy(static_cast<char*>(all) + r * bytes, meeting_->slots[r],
                  static_cast<size_t>(bytes));
    meeting_->wait();
  }
  void exchange(const Tensor& rows, const std::vector<int64_t>& send, const Tensor& into,
                const std::vector<int64_t>& receive) override {
    size_t row = size_of(rows.dtype());
    for (int d = 1; d < rows.dim(); ++d) row *= static_cast<size_t>(rows.size(d));
    meeting_->slots[rank_] = rows.data();
    meeting_->counts[rank_] = &send;
    meeting_->wait();
    char* to = static_cast<char*>(into.data());
    for (int r = 0; r < size(); ++r) {
      int64_t skipped = 0;
      for (int before = 0; before < rank_; ++before) skipped += (*meeting_->counts[r])[before];
      const size_t bytes = static_cast<size_t>(receive[r]) * row;
      if (bytes != 0)
        std::memcpy(
            to, static_cast<const char*>(meeting_->slots[r]) + static_cast<size_t>(skipped) * row,
            bytes);
      to += bytes;
    }
    meeting_->wait();
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

// Calls f(exchange) for every rank at once; what each threw, or nothing.
inline std::vector<std::exception_ptr> on_ranks(
    int size, const std::function<void(const std::shared_ptr<distributed::Exchange>&)>& f) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        f(std::make_shared<ThreadExchange>(meeting, r));
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

}  // namespace sow::test

// SPDX-License-Identifier: Apache-2.0
// Threads of a test: what one of them throws fails the test instead of ending the process.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sow::test {

class TestThreads {
 public:
  TestThreads() = default;
  TestThreads(const TestThreads&) = delete;
  TestThreads& operator=(const TestThreads&) = delete;
  ~TestThreads() { join(); }

  template <class F>
  void start(F work) {
    threads_.emplace_back([this, work = std::move(work)]() mutable {
      try {
        work();
      } catch (const std::exception& error) {
        note(error.what());
      } catch (...) {
        note("something that is no std::exception");
      }
    });
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    for (const std::string& text : thrown_) ADD_FAILURE() << "a thread threw: " << text;
    thrown_.clear();
  }

 private:
  void note(const char* text) {
    const std::lock_guard lock(mutex_);
    thrown_.emplace_back(text);
  }

  std::mutex mutex_;
  std::vector<std::string> thrown_;
  std::vector<std::thread> threads_;
};

// `work(t)` for every t below `count`, each on a thread of its own; returns when all have ended.
template <class F>
void run_in_threads(int count, const F& work) {
  TestThreads threads;
  for (int t = 0; t < count; ++t) threads.start([&work, t] { work(t); });
}

}  // namespace sow::test

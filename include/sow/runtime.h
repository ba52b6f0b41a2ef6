// SPDX-License-Identifier: Apache-2.0
// How many threads and which instructions the library may use.
#pragma once

#include <string>

#include "sow/export.h"

namespace sow {

// The number of threads an operation of the calling thread may use. It starts as OMP_NUM_THREADS
// or, without it, as the number of processors this process may run on, no more than its control
// group has the time of (a quota of 1.5 processors counts as 2). No result depends on it.
SOW_API int get_num_threads();

// Sets that number for the whole process, from 1 to 1024. Other users of OpenMP do not notice.
SOW_API void set_num_threads(int count);

// While it lives, operations of the thread that made it use at most `count` threads, from 1 to
// 1024:
//   { const sow::ThreadLimit limit(1);  sow::scatter_(x, 0, index, src); }
// Limits nest, and the smallest holds; set_num_threads() does not lift one. Other threads do not
// notice. It ends on the thread that made it.
class SOW_API ThreadLimit {
 public:
  explicit ThreadLimit(int count);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int previous_;
};

// Measures what the planner reckons with on this machine, for the current instruction set, and
// writes it to a file that is read when sow is first used from then on: `path` or, where that is
// empty, the one that SOW_TUNING names, else ~/.config/sow/tuning-<instruction set>.txt. Returns
// the path. It takes some seconds, best on an idle machine. No result depends on it.
SOW_API std::string tune(const std::string& path = "");

// The vector instructions that kernels are chosen by: "portable", "avx2" or "avx512".
SOW_API const char* instruction_set();

}  // namespace sow

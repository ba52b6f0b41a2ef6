// SPDX-License-Identifier: Apache-2.0
// Letting other Python threads run, and coming back to an interpreter that may be ending.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace sow::python {

// Runs what takes the GIL. Where the interpreter is ending, CPython (before 3.14) ends the thread
// inside of it by pthread_exit, which unwinds the stack: the first function that must not throw
// would abort the process. The unwinding stops here instead, and the thread sleeps until the
// process has ended, as it does from 3.14 on.
template <class F>
auto taking_gil(F&& take) noexcept {
  try {
    return take();
  } catch (...) {
    for (;;) pause();
  }
}

// While it lives, this thread is without the GIL.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    taking_gil([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace sow::python

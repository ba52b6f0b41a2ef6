// SPDX-License-Identifier: Apache-2.0
// Which Recorder and which Watcher this thread has.
#include "transfer/recorder.h"

namespace sow::detail {

namespace {

constinit thread_local Recorder* recorder = nullptr;
constinit thread_local Watcher* watcher = nullptr;

}  // namespace

Recorder* current_recorder() { return recorder; }

RecordWith::RecordWith(Recorder* next) : previous_(recorder) {
  recorder = next;
  set_address_source(next);
}
RecordWith::~RecordWith() {
  recorder = previous_;
  set_address_source(previous_);
}

Watcher* current_watcher() { return watcher; }

WatchWith::WatchWith(Watcher* next) : previous_(watcher) { watcher = next; }
WatchWith::~WatchWith() { watcher = previous_; }

}  // namespace sow::detail

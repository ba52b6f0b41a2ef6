// Which Recorder this thread has.
#include "transfer/recorder.h"

namespace sow::detail {

namespace {

thread_local Recorder* recorder = nullptr;

}  // namespace

Recorder* current_recorder() { return recorder; }

RecordWith::RecordWith(Recorder* next) : previous_(recorder) { recorder = next; }
RecordWith::~RecordWith() { recorder = previous_; }

}  // namespace sow::detail

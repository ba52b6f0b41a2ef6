// SPDX-License-Identifier: Apache-2.0
// Sends Maps to their device.
#include "transfer/map.h"

#include "core/device_table.h"
#include "core/fail.h"
#include "core/threads/interrupt.h"
#include "transfer/plan/plan.h"
#include "transfer/recorder.h"

namespace sow::detail {

const char* name_of(MapOp op) {
  static constexpr const char* kNames[] = {
      "add",  "sub", "mul", "div", "neg",       "conj",        "pow",        "eq",
      "ne",   "lt",  "le",  "gt",  "ge",        "same",        "where",      "share",
      "cast", "abs", "exp", "log", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor"};
  return kNames[static_cast<int>(op)];
}

void execute(const Map& map, Device device) {
  if (Recorder* recorder = current_recorder()) return recorder->record(map, device);
  look_for_interrupt();
  if (Watcher* watcher = current_watcher()) watcher->on_data_read();
  if (std::string* text = current_explanation()) {
    *text += sow::detail::text("{}: element by element to {} over {}\n", name_of(map.op),
                               map.out_dtype, map.shape);
  }
  for (const int64_t extent : map.shape) {
    if (extent == 0) return;
  }
  const DeviceTable& table = device_table(device.type);
  if (table.map == nullptr) {
    fail(ErrorKind::device, "{}: not available on {}", name_of(map.op), to_string(device));
  }
  table.map(map, device.index);
}

}  // namespace sow::detail

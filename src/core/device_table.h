// SPDX-License-Identifier: Apache-2.0
// What the library asks of a device. The CPU fills this table, and so does every other backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sow/tensor.h"

namespace sow::detail {

struct DevicePlan;  // a backend's own
struct IndexedBackward;
struct Map;
struct Transfer;

inline constexpr uint32_t kDeviceTableVersion = 1;

struct DeviceTable {
  uint32_t version;
  const char* name;
  void* (*allocate)(size_t bytes, int device);
  void (*deallocate)(void* data, size_t bytes, int device);
  // Between this device and the host, or within the device.
  void (*copy_bytes)(void* to, const void* from, size_t bytes, int device);
  // Checks the indices, plans and runs.
  void (*run)(const Transfer& transfer, int device);
  // How a Transfer is done, for whatever data; null where the library plans itself, as on the CPU.
  std::shared_ptr<const DevicePlan> (*make_plan)(const Transfer& transfer, int device) = nullptr;
  void (*run_plan)(const Transfer& transfer, const DevicePlan& plan, int device) = nullptr;
  std::string (*describe_plan)(const DevicePlan& plan) = nullptr;
  bool (*same_plan)(const DevicePlan& a, const DevicePlan& b) = nullptr;
  // How many bytes of a row-major mask are nonzero; waits for the answer. What is found on the way
  // goes into `ranks`, of mask_ranks_bytes, unless that is null.
  int64_t (*count_true)(const void* mask, int64_t count, void* ranks, int device) = nullptr;
  // Null where nothing is kept of a count.
  size_t (*mask_ranks_bytes)(int64_t count) = nullptr;
  // Writes the flat positions of those bytes, in order, into an `out` with room for all of them;
  // null where the device has no such way.
  void (*true_positions)(const void* mask, int64_t count, int64_t* out, int device) = nullptr;
  // Writes their coordinates from what a count has kept, an int64 for each dimension of `shape`.
  void (*true_coordinates)(void* ranks, const Dims& shape, int64_t* out, int device) = nullptr;
  // Runs an elementwise operation (transfer/map.h).
  void (*map)(const Map& map, int device) = nullptr;
  // Runs the gradients of an indexed scatter at once, into a destination of so many elements;
  // false: by the rules, one step after the other.
  bool (*backward)(const IndexedBackward& work, const Transfer& places, int64_t elements,
                   int device) = nullptr;
  // Writes 0, 1, 2, ... in int64; null where the host writes them itself.
  void (*count_up)(void* out, int64_t count, int device) = nullptr;
};

const DeviceTable& cpu_table();
// The table of a device, or an Error of kind device that says why there is none.
const DeviceTable& device_table(DeviceType type);

}  // namespace sow::detail

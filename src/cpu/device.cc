// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: what the device table asks of every backend.
#include <cstring>
#include <new>

#include "core/device_table.h"
#include "core/fail.h"
#include "core/memory/memory.h"
#include "cpu/mask/mask_scan.h"
#include "transfer/map.h"
#include "transfer/plan/plan_cache.h"

namespace sow::detail {

namespace {

void* allocate_on_cpu(size_t bytes, int) {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::memory, "memory: {} bytes could not be had", bytes);
  }
}

}  // namespace

const DeviceTable& cpu_table() {
  static const DeviceTable table = {
      .version = kDeviceTableVersion,
      .name = "cpu",
      .allocate = allocate_on_cpu,
      .deallocate = [](void* data, size_t bytes, int) { deallocate(data, bytes); },
      .copy_bytes = [](void* to, const void* from, size_t bytes,
                       int) { std::memcpy(to, from, bytes); },
      .run = [](const Transfer& transfer, int) { run_on_cpu(transfer); },
      .count_true = [](const void* mask, int64_t count, void*,
                       int) { return count_true(mask, count); },
      .true_positions = [](const void* mask, int64_t count, int64_t* out,
                           int) { true_positions(mask, count, out); },
      .map = [](const Map& map, int) { run_map_cpu(map); },
  };
  return table;
}

}  // namespace sow::detail

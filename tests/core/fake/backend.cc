// SPDX-License-Identifier: Apache-2.0
// A CUDA backend that is not one: it answers as FAKE_CUDA says, so that every way to fail can be
// tried.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sow/version.h"
#include "transfer/device/cuda_table.h"

namespace {

using sow::detail::CudaStatus;
using sow::detail::CudaTable;
using sow::detail::CudaText;

bool is(const char* what) {
  const char* wanted = std::getenv("FAKE_CUDA");
  return wanted != nullptr && std::strcmp(wanted, what) == 0;
}

CudaStatus device_count(int* count, CudaText* text) {
  *count = 0;
  if (!is("old driver")) return CudaStatus::ok;
  std::snprintf(text->text, sizeof(text->text), "cuda: the driver is older than the runtime");
  return CudaStatus::device_error;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const CudaTable* sow_cuda_table() {
  static CudaTable table = {};
  if (is("no table")) return nullptr;
  table.version = sow::detail::kCudaTableVersion + (is("another version") ? 1 : 0);
  table.size = sizeof(CudaTable) - (is("another size") ? 8 : 0);
  table.build = is("another build") ? "0.0.0" : SOW_VERSION;
  table.device_count = device_count;
  return &table;
}

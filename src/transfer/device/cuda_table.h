// SPDX-License-Identifier: Apache-2.0
// The border between the library and its CUDA backend: one versioned table of C functions.
//
// libsow_cuda.so exports `sow_cuda_table`. Nothing throws across: a function returns a Status, and
// a message where there is one. Both sides come from one build, so a Transfer may cross as it is;
// `version` and `build` say so before anything else is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sow::detail {

struct DevicePlan;
struct IndexOperand;
struct IndexedBackward;
struct Map;
struct Transfer;

inline constexpr uint32_t kCudaTableVersion = 5;
inline constexpr char kCudaTableSymbol[] = "sow_cuda_table";

struct CudaText {
  char text[256];
};

enum class CudaStatus : int32_t { ok, device_error, no_memory };

// Where a call runs. The stream is a cudaStream_t; null is the default stream.
struct CudaContext {
  int device;
  void* stream;
  const char* forced;  // the strategy a test asks for, or null
};

// The first call on a device that failed for a reason the contract names. The device fills it in
// the host's memory, from what the call carried along.
struct CudaFailure {
  static constexpr int kMaxRank = 24;
  enum Kind : int32_t { none, index, mask };
  int32_t kind;
  char op[64];
  // index: the operand as transfer.h describes it, and which key was bad
  int32_t rank;
  int64_t shape[kMaxRank];
  int32_t axis;
  int32_t component;
  int32_t separate;
  int64_t extent;
  int64_t position;
  int64_t key;
  // mask: how many trues, and how many values there were
  int32_t source_side;
  int64_t trues;
  int64_t limit;
};

struct CudaTable {
  uint32_t version;
  uint32_t size;      // of this struct
  const char* build;  // the version of sow it was built with

  // How many devices there are; the text says why there are none.
  CudaStatus (*device_count)(int* count, CudaText* text);
  // One line about a device: its name, architecture and memory.
  CudaStatus (*describe_device)(int device, CudaText* text);
  CudaStatus (*allocate)(const CudaContext* context, size_t bytes, void** out, CudaText* text);
  CudaStatus (*deallocate)(const CudaContext* context, void* data, CudaText* text);
  // Between host and device or within the device; done when it returns.
  CudaStatus (*copy)(const CudaContext* context, void* to, const void* from, size_t bytes,
                     CudaText* text);
  // How a Transfer is done, for whatever data: made once, run as often as wanted, from any thread
  // and on any stream. Plans hold memory of the host alone.
  CudaStatus (*make_plan)(const CudaContext* context, const Transfer* transfer,
                          const DevicePlan** out, CudaText* text);
  void (*destroy_plan)(const DevicePlan* plan);
  bool (*same_plan)(const DevicePlan* a, const DevicePlan* b);
  void (*describe_plan)(const DevicePlan* plan, CudaText* text);
  CudaStatus (*run)(const CudaContext* context, const Transfer* transfer, const DevicePlan* plan,
                    CudaText* text);
  // For calls that are done in parts. A flag is 16 bytes on the device: it is cleared, and set
  // where a key is bad.
  CudaStatus (*mark_bad_keys)(const CudaContext* context, const Transfer* transfer, void* flag,
                              CudaText* text);
  // The keys of an index (its own_shape) that address [first, last), counted from there, as int64;
  // all others become last - first, and so does every key if the flag is set. It may be null.
  CudaStatus (*copy_keys)(const CudaContext* context, const IndexOperand* index, int32_t bounds,
                          int64_t first, int64_t last, const void* flag, void* out, CudaText* text);
  // At the end: keeps the first bad key as this call's failure, if the flag is set.
  CudaStatus (*report_bad_keys)(const CudaContext* context, const Transfer* transfer, void* flag,
                                CudaText* text);
  // How many bytes are not zero; `ranks`, if not null, takes what is found on the way.
  CudaStatus (*count_true)(const CudaContext* context, const void* mask, int64_t count, void* ranks,
                           int64_t* out, CudaText* text);
  size_t (*mask_ranks_bytes)(int64_t count);
  CudaStatus (*true_coordinates)(const CudaContext* context, void* ranks, const int64_t* shape,
                                 int rank, int64_t* out, CudaText* text);
  // 0, 1, 2, ... in int64.
  CudaStatus (*count_up)(const CudaContext* context, void* out, int64_t count, CudaText* text);
  // The gradients of an indexed scatter without intermediate tensors; `done` says whether it could.
  CudaStatus (*backward)(const CudaContext* context, const IndexedBackward* work,
                         const Transfer* places, int64_t elements, bool* done, CudaText* text);
  CudaStatus (*map)(const CudaContext* context, const Map* map, CudaText* text);
  // Waits for the stream of the context, or for the whole device.
  CudaStatus (*synchronize)(const CudaContext* context, bool whole_device, CudaText* text);
  // The first failure among the calls that have finished, which is then forgotten.
  CudaStatus (*take_failure)(const CudaContext* context, CudaFailure* out, CudaText* text);
  // Captures what this thread runs on the stream it is given here into a graph, which is launched
  // on the stream of a context. A capture that is not wanted leaves no graph.
  CudaStatus (*begin_capture)(int device, void** stream, CudaText* text);
  CudaStatus (*end_capture)(int device, void* stream, bool wanted, void** graph, CudaText* text);
  CudaStatus (*launch_graph)(const CudaContext* context, void* graph, CudaText* text);
  void (*destroy_graph)(void* graph);
  // Makes the stream of the context wait for what another stream has been given so far.
  CudaStatus (*wait_stream)(const CudaContext* context, void* stream, CudaText* text);
  // The names of the strategies, each ended by a zero byte, the list by another.
  const char* (*strategy_names)();
  // Whether the forced strategy of the context supports the Transfer.
  bool (*supports)(const CudaContext* context, const Transfer* transfer);
};

inline constexpr size_t kCudaFlagBytes = 16;

using CudaTableFunction = const CudaTable* (*)();

}  // namespace sow::detail

// SPDX-License-Identifier: Apache-2.0
// Runs Transfers on their device: the one way from a Transfer to its strategy.
#include <new>
#include <vector>

#include "core/fail.h"
#include "core/memory/scratch.h"
#include "core/tensor/layout.h"
#include "core/threads/float_state.h"
#include "core/threads/interrupt.h"
#include "core/threads/parallel.h"
#include "sow/limits.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/indexed_backward.h"
#include "transfer/plan/plan_cache.h"
#include "transfer/plan/tiles.h"
#include "transfer/recorder.h"

namespace sow {

namespace detail {

namespace {

thread_local std::string* explanation = nullptr;
thread_local const Tensor* kept_as_is = nullptr;

}  // namespace

// Everything else runs, so that later steps see the values they look at.
bool is_kept_while_explaining(const Transfer& transfer) {
  if (kept_as_is == nullptr || kept_as_is->numel() == 0) return false;
  const Tensor& tensor = *kept_as_is;
  const ByteRange range = byte_range(tensor.shape(), tensor.strides(), size_of(tensor.dtype()));
  const char* data = static_cast<const char*>(tensor.data());
  return transfer.dst.data >= data + range.first && transfer.dst.data < data + range.last;
}

namespace {

// The keys of dst_index[0] that address places of the tile, counted from its first; all others are
// one past the end, and dropped.
std::vector<int64_t> keys_of(const TransferPart& tile, const IndexOperand& index, int64_t count) {
  std::vector<int64_t> keys(static_cast<size_t>(count));
  Dims at(index.own_shape.size(), 0);
  for (int64_t& key : keys) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * index.own_strides[d];
    const int64_t place = resolve_key(load_key(index, offset), index.extent, tile.part.bounds);
    key = place >= tile.first && place < tile.last ? place - tile.first : tile.last - tile.first;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < index.own_shape[d]) break;
      at[d] = 0;
    }
  }
  return keys;
}

// In parts, one after the other; the keys are checked as a whole, before anything is written.
void run_in_tiles(const Transfer& transfer, const Dims& tiles) {
  check_indices(transfer);
  if (explanation != nullptr) *explanation += describe_tiles(transfer, tiles);
  bool explained = false;
  for_each_tile_of(transfer, tiles, [&](const TransferPart& tile) {
    Transfer part = tile.by_place ? from_first_place(tile) : tile.part;
    std::vector<int64_t> keys;
    if (tile.by_place) {
      IndexOperand& index = part.dst_index[0];
      keys = keys_of(tile, index, describe_own_keys(part.shape, index));
      replace_keys(index, keys.data(), tile.last - tile.first);
    }
    const Planned& planned = planned_for(part);
    if (planned.canonical.empty) return;
    if (explanation != nullptr && !explained) {
      *explanation += describe(part, planned.canonical, planned.plan);
      explained = true;
    }
    if (explanation != nullptr && is_kept_while_explaining(transfer)) return;
    run_planned(part, planned);
  });
}

}  // namespace

void run_on_cpu(const Transfer& transfer) {
  const FloatStateGuard guard;
  const Planned& planned = planned_for(transfer);
  if (is_bounded() && !planned.canonical.empty) {
    const Dims tiles = tiles_for(transfer, planned);
    if (!tiles.empty()) return run_in_tiles(transfer, tiles);
  }
  const Canonical& canonical = planned.canonical;
  const bool runs = !canonical.empty && explanation == nullptr;
  if (!runs || !planned.plan.strategy->checks_keys) check_indices(transfer);
  if (canonical.empty) {
    if (explanation != nullptr) *explanation += text("{}: nothing to do\n", transfer.op);
    return;
  }
  if (explanation != nullptr) {
    *explanation += describe(transfer, canonical, planned.plan);
    if (is_kept_while_explaining(transfer)) return;
  }
  run_planned(transfer, planned);
}

void run_planned(const Transfer& transfer, const Planned& planned) {
  const Plan& plan = planned.plan;
  try {
    Scratch<16384> workspace(plan.workspace);
    plan.strategy->run(transfer, planned.canonical, plan, workspace.data());
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::memory, "{}: {} bytes of workspace could not be had", transfer.op,
         plan.workspace);
  }
}

std::string* current_explanation() { return explanation; }

KeepWhileExplaining::KeepWhileExplaining(const Tensor& tensor) : previous_(kept_as_is) {
  if (explanation != nullptr) kept_as_is = &tensor;
}
KeepWhileExplaining::~KeepWhileExplaining() { kept_as_is = previous_; }

const DeviceTable& device_table(DeviceType type) {
  return type == DeviceType::cpu ? cpu_table() : cuda_table();
}

void execute(const Transfer& transfer, Device device) {
  if (Recorder* recorder = current_recorder()) return recorder->record(transfer, device);
  look_for_interrupt();
  if (Watcher* watcher = current_watcher()) watcher->on_run(transfer, device);
  device_table(device.type).run(transfer, device.index);
}

void execute(const IndexedBackward& work, const Transfer& places) {
  if (Recorder* recorder = current_recorder()) return recorder->record(work, places);
  if (Watcher* watcher = current_watcher()) watcher->on_data_read();
  const Canonical canonical = canonicalize(places);
  const int threads = can_run_parallel() ? get_num_threads() : 1;
  Scratch<> memory(indexed_backward_workspace(places, canonical, threads));
  run_indexed_backward(work, places, canonical, threads, memory.data());
}

}  // namespace detail

std::string explain(const std::function<void()>& calls) {
  std::string text;
  struct Restore {
    std::string* previous;
    ~Restore() { detail::explanation = previous; }
  } restore{detail::explanation};
  detail::explanation = &text;
  calls();
  return text;
}

}  // namespace sow

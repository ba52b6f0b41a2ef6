// Runs Transfers on their device, and the CPU's filling of the device table.
#include <cstring>
#include <new>

#include "core/cuda_backend.h"
#include "core/fail.h"
#include "core/float_state.h"
#include "core/layout.h"
#include "core/memory.h"
#include "transfer/map.h"
#include "transfer/plan_cache.h"
#include "transfer/recorder.h"

namespace sow {

namespace detail {

int64_t count_true(const void* mask, int64_t count);  // src/cpu/mask_scan.h

namespace {

thread_local std::string* explanation = nullptr;
thread_local const Tensor* kept_as_is = nullptr;

// Inside explain() everything runs, so that later steps see the values they look at, except what
// would write to a tensor of the caller's.
bool is_kept(const Transfer& transfer) {
  if (kept_as_is == nullptr || kept_as_is->numel() == 0) return false;
  const Tensor& tensor = *kept_as_is;
  const ByteRange range = byte_range(tensor.shape(), tensor.strides(), size_of(tensor.dtype()));
  const char* data = static_cast<const char*>(tensor.data());
  return transfer.dst.data >= data + range.first && transfer.dst.data < data + range.last;
}

// Workspace for one run: small ones on the stack, because a pool costs more than a small call.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes) {
    if (bytes > sizeof(local_)) heap_ = static_cast<char*>(allocate(bytes));
  }
  ~Workspace() {
    if (heap_ != nullptr) deallocate(heap_, bytes_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  char* data() { return heap_ != nullptr ? heap_ : local_; }

 private:
  size_t bytes_;
  char* heap_ = nullptr;
  alignas(64) char local_[16384];
};

void* allocate_cpu(size_t bytes, int) {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::memory, "memory: {} bytes could not be had", bytes);
  }
}

void deallocate_cpu(void* data, size_t bytes, int) { deallocate(data, bytes); }

void copy_cpu(void* to, const void* from, size_t bytes, int) { std::memcpy(to, from, bytes); }

void run_cpu(const Transfer& transfer, int) {
  const FloatStateGuard guard;
  const Planned& planned = planned_for(transfer);
  const Canonical& canonical = planned.canonical;
  const bool runs = !canonical.empty && explanation == nullptr;
  if (!runs || !planned.plan.strategy->checks_keys) check_indices(transfer);
  if (canonical.empty) {
    if (explanation != nullptr) *explanation += text("{}: nothing to do\n", transfer.op);
    return;
  }
  if (explanation != nullptr) {
    *explanation += describe(transfer, canonical, planned.plan);
    if (is_kept(transfer)) return;
  }
  run_planned(transfer, planned);
}

int64_t count_true_cpu(const void* mask, int64_t count, int) { return count_true(mask, count); }

void map_cpu(const Map& map, int) { run_map_cpu(map); }

}  // namespace

void run_planned(const Transfer& transfer, const Planned& planned) {
  const Plan& plan = planned.plan;
  try {
    Workspace workspace(plan.workspace);
    plan.strategy->run(transfer, planned.canonical, plan, workspace.data());
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::memory, "{}: {} bytes of workspace could not be had", transfer.op, plan.workspace);
  }
}

std::string* current_explanation() { return explanation; }

KeepWhileExplaining::KeepWhileExplaining(const Tensor& tensor) : previous_(kept_as_is) {
  if (explanation != nullptr) kept_as_is = &tensor;
}
KeepWhileExplaining::~KeepWhileExplaining() { kept_as_is = previous_; }

const DeviceTable& cpu_table() {
  static const DeviceTable table = {
      .version = kDeviceTableVersion,
      .name = "cpu",
      .allocate = allocate_cpu,
      .deallocate = deallocate_cpu,
      .copy_bytes = copy_cpu,
      .run = run_cpu,
      .count_true = count_true_cpu,
      .map = map_cpu,
  };
  return table;
}

const DeviceTable& device_table(DeviceType type) {
  return type == DeviceType::cpu ? cpu_table() : cuda_table();
}

void execute(const Transfer& transfer, Device device) {
  if (Recorder* recorder = current_recorder()) return recorder->record(transfer, device);
  if (Watcher* watcher = current_watcher()) watcher->saw(transfer, device);
  device_table(device.type).run(transfer, device.index);
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

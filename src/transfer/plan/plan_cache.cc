// SPDX-License-Identifier: Apache-2.0
// A small table of plans for each thread, found by everything that a plan depends on: not by data.
#include "transfer/plan/plan_cache.h"

#include <algorithm>
#include <utility>

#include "core/threads/parallel.h"
#include "sow/limits.h"
#include "transfer/index/index_order.h"

namespace sow::detail {

namespace {

// The facts of a Transfer as words: two Transfers with equal words have equal plans.
class Facts {
 public:
  Facts() = default;
  Facts(const Transfer& t, int threads, Device device) {
    if (forced_strategy() != nullptr || !fits(t)) return;  // by a test
    const bool has_source = t.src.data != nullptr, has_base = t.base.data != nullptr;
    add(static_cast<int64_t>(t.dtype) | static_cast<int64_t>(t.reduce) << 8 |
        static_cast<int64_t>(t.bounds) << 16 | static_cast<int64_t>(t.mask_side) << 24 |
        int64_t{t.include_self} << 32 | int64_t{t.negate} << 33 | int64_t{has_source} << 34 |
        int64_t{has_base} << 35 | int64_t{t.clear_rest} << 36 | int64_t{t.order != nullptr} << 37 |
        static_cast<int64_t>(t.shape.size()) << 40 |
        static_cast<int64_t>(t.dst_index.size()) << 48 |
        static_cast<int64_t>(t.src_index.size()) << 56);
    add(threads | static_cast<int64_t>(device.type) << 32 | int64_t{device.index} << 40);
    add(scratch_limit());
    if (device.type != DeviceType::cpu) add_alignment(t);
    add(t.shape);
    add(t.dst.strides);
    if (has_source) add(t.src.strides);
    if (has_base) add(t.base.strides);
    if (t.mask_side != MaskSide::none) {
      add(t.mask.strides);
      add(t.rank_limit);
      add(t.rank_stride);
    }
    // Of an order that is held, what says whether a Transfer can use it.
    if (t.order != nullptr) {
      add(static_cast<int64_t>(t.order->bounds) << 2 | int64_t{t.order->kept()} << 1 |
          int64_t{t.order->device_keys != nullptr});
      add(t.order->size);
      add(t.order->count);
    }
    for (const IndexOperand& index : t.dst_index) add(index);
    for (const IndexOperand& index : t.src_index) add(index);
  }

  bool known() const { return count_ != 0; }
  friend bool operator==(const Facts& a, const Facts& b) {
    return a.count_ == b.count_ && std::equal(a.words_, a.words_ + a.count_, b.words_);
  }
  size_t hash() const {
    uint64_t mixed = 0;
    for (int i = 0; i < count_; ++i) {
      mixed = (mixed << 7 | mixed >> 57) ^ static_cast<uint64_t>(words_[i]);
    }
    return (mixed * 0x9e3779b97f4a7c15u) >> 32;
  }

 private:
  static constexpr int kMost = 48;

  static bool fits(const Transfer& t) {
    const size_t indices = t.dst_index.size() + t.src_index.size();
    return 9 + t.shape.size() * (5 + indices) + 3 * indices <= kMost;
  }
  void add(int64_t word) { words_[count_++] = word; }
  // How wide a device may access memory is part of its plans.
  void add_alignment(const Transfer& t) {
    int64_t word = 0;
    for (const Operand* operand : {&t.dst, &t.src, &t.base})
      word = word << 4 | static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand->data) & 15);
    add(word);
  }
  void add(const Dims& dims) {
    for (const int64_t value : dims) add(value);
  }
  void add(const IndexOperand& index) {
    add(static_cast<int64_t>(index.dtype));
    add(index.extent);
    add(index.scale);
    add(index.strides);
  }

  int count_ = 0;
  int64_t words_[kMost];
};

constexpr size_t kSlots = 32;

struct Cache {
  struct Slot {
    Facts facts;
    Planned planned;
  };
  Slot slots[kSlots];
  Planned unknown;  // the last one that is not kept
};

// A pointer that needs no construction is quicker to reach than an object of the thread.
constinit thread_local Cache* cache = nullptr;

struct Owner {
  ~Owner() { delete std::exchange(cache, nullptr); }
};

Cache& make_cache() {
  static thread_local Owner owner;  // what is made after its end stays
  return *(cache = new Cache);
}

void make_plan(const Transfer& transfer, Device device, Planned& out) {
  out = Planned();
  if (device.type != DeviceType::cpu) {
    out.plan.on_device = device_table(device.type).make_plan(transfer, device.index);
    return;
  }
  if (transfer.mask_side == MaskSide::none) {
    out.canonical = canonicalize(transfer);
  } else {
    const Dims& shape = transfer.shape;
    out.canonical.empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  }
  if (!out.canonical.empty) out.plan = plan_transfer(transfer, out.canonical);
}

}  // namespace

const Planned& planned_for(const Transfer& transfer, Device device) {
  Cache& mine = cache != nullptr ? *cache : make_cache();
  const bool on_cpu = device.type == DeviceType::cpu;
  const Facts facts(transfer, on_cpu && can_run_parallel() ? get_num_threads() : 1, device);
  if (!facts.known()) {
    make_plan(transfer, device, mine.unknown);
    return mine.unknown;
  }
  Cache::Slot& slot = mine.slots[facts.hash() % kSlots];
  if (!(slot.facts == facts)) {
    slot.facts = Facts();  // if planning throws, nothing is there
    make_plan(transfer, device, slot.planned);
    slot.facts = facts;
  }
  return slot.planned;
}

}  // namespace sow::detail

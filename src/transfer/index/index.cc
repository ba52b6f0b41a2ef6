// SPDX-License-Identifier: Apache-2.0
// Holding an index: its keys are copied, checked and ordered once.
#include "sow/index.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/fail.h"
#include "core/memory/scratch.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/parallel.h"
#include "transfer/canonical.h"
#include "transfer/index/index_order.h"

namespace sow {

namespace detail {

const IndexOrder* usable_order(const Transfer& t, const Canonical& c) {
  const IndexOrder* order = t.order;
  if (order == nullptr || !order->kept() || t.dst_index.size() != 1) return nullptr;
  const IndexOperand& index = t.dst_index[0];
  if (index.extent != order->size || index.scale <= 0 || !order->serves(t.bounds)) return nullptr;
  if (c.item_count != order->count || (!t.src_index.empty() && t.bounds == Bounds::drop))
    return nullptr;
  for (const Axis& axis : c.outer) {
    if (axis.index[0] != 0) return nullptr;
  }
  return is_dense_index(c.items) ? order : nullptr;
}

namespace {

constexpr int64_t kMostKeys = int64_t{1} << 32;

}  // namespace

Transfer keys_alone(const Tensor& keys, int64_t size, Bounds bounds) {
  Transfer transfer;
  transfer.op = "Index";
  transfer.shape = {keys.numel()};
  transfer.bounds = bounds;
  transfer.dst.strides = {0};
  // Only offsets are made of it; it is never read.
  transfer.src = {static_cast<char*>(keys.data()), {1}};
  transfer.dst_index.push_back({.data = static_cast<const char*>(keys.data()),
                                .dtype = keys.dtype(),
                                .strides = {1},
                                .extent = size,
                                .scale = 1,
                                .own_shape = keys.shape(),
                                .own_strides = keys.strides()});
  return transfer;
}

namespace {

void sort_keys(const Transfer& transfer, IndexOrder& order) {
  const int threads = can_run_parallel() ? get_num_threads() : 1;
  Scratch<> workspace(order_workspace(transfer, threads));
  order_keys(transfer, threads, workspace.data(), order);
}

bool is_sorted(const IndexOrder& order) {
  return std::is_sorted(order.positions.begin(), order.positions.end());
}

// The first position, in row-major order, whose key is smaller than one before it; there is one.
int64_t first_unsorted(const IndexOrder& order) {
  std::vector<uint32_t> given(static_cast<size_t>(order.count), UINT32_MAX);
  for (size_t s = 0; s + 1 < order.begins.size(); ++s) {
    const uint32_t key = order.keys[order.begins[s]];  // the others' need not be there
    for (uint32_t k = order.begins[s]; k < order.begins[s + 1]; ++k)
      given[order.positions[k]] = key;
  }
  uint32_t highest = 0;
  for (int64_t at = 0; at < order.count; ++at) {
    if (given[at] == UINT32_MAX) continue;
    if (given[at] < highest) return at;
    highest = given[at];
  }
  return -1;
}

int64_t first_repeated(const IndexOrder& order) {
  int64_t first = -1;
  for (size_t s = 0; s + 1 < order.begins.size(); ++s) {
    if (order.begins[s + 1] - order.begins[s] < 2) continue;
    const int64_t second = order.positions[order.begins[s] + 1];
    if (first < 0 || second < first) first = second;
  }
  return first;
}

void verify(const char* fact, bool declared, int64_t broken_at, const Dims& shape) {
  if (!declared || broken_at < 0) return;
  Dims at(shape.size(), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    at[d] = broken_at % shape[d];
    broken_at /= shape[d];
  }
  fail(ErrorKind::argument, "Index: the keys were declared {}, but are not: see position {}", fact,
       at);
}

// Lists the places on the device, if none has so many items that they are folded in pieces.
void list_on(Device device, IndexOrder& order) {
  const auto places = static_cast<int64_t>(order.begins.size()) - 1;
  const Tensor list = Tensor::empty({places + 1, 4}, DType::int32);
  auto* row = static_cast<uint32_t*>(list.data());
  const std::array<uint64_t, 2> counts{static_cast<uint64_t>(places), 0};  // and none in pieces
  std::memcpy(row, counts.data(), sizeof(counts));
  for (int64_t s = 0; s < places; ++s) {
    const uint32_t begin = order.begins[s], items = order.begins[s + 1] - begin;
    if (items > kHeadItems) return;
    row += 4;
    row[0] = begin;
    row[1] = items;
    row[2] = order.keys[begin];
    row[3] = 0;
  }
  order.listed_on_device = list.to(device);
  order.device_heads = static_cast<const uint32_t*>(order.listed_on_device.data());
  order.device_places = places;
}

// Copies the order to the device where its keys are.
void place_on(Device device, IndexOrder& order) {
  const auto count = static_cast<size_t>(order.count);
  const Tensor both = Tensor::empty({2, order.count}, DType::int32);
  auto* keys = static_cast<uint32_t*>(both.data());
  uint32_t* positions = keys + count;
  // Of a destination's keys only the first need be there.
  for (size_t s = 0; s + 1 < order.begins.size(); ++s) {
    std::fill(keys + order.begins[s], keys + order.begins[s + 1], order.keys[order.begins[s]]);
  }
  std::fill(keys + order.positions.size(), keys + count, static_cast<uint32_t>(order.size));
  std::copy(order.positions.begin(), order.positions.end(), positions);
  std::fill(positions + order.positions.size(), positions + count, 0u);
  order.on_device = both.to(device);
  order.device_keys = static_cast<const uint32_t*>(order.on_device.data());
  order.device_positions = order.device_keys + count;
  list_on(device, order);
}

}  // namespace

}  // namespace detail

Index Index::hold(const Tensor& keys, int64_t size, Bounds bounds, IndexFacts facts) {
  using namespace detail;
  if (keys.dtype() != DType::int32 && keys.dtype() != DType::int64) {
    fail(ErrorKind::type, "Index: the keys are {}; an index must be int32 or int64", keys.dtype());
  }
  if (size < 0)
    fail(ErrorKind::argument, "Index: the size of the axis is {}; it must not be negative", size);
  keys.data();  // refuses a symbolic tensor, which has none
  Index index(keys.clone(), bounds);
  index.keys_.impl()->storage->read_only = true;  // many threads may use it at once
  const Tensor readable = index.keys_.to({});     // keys on a device are waited for, this once
  const Transfer transfer = keys_alone(readable, size, bounds);
  check_indices(transfer);

  auto order = std::make_shared<IndexOrder>();
  order->size = size;
  order->count = keys.numel();
  order->bounds = bounds;
  order->facts = facts;
  if (keys.numel() != 0 && size != 0 && keys.numel() < kMostKeys - 1 && size < kMostKeys) {
    sort_keys(transfer, *order);
    if (bounds != Bounds::promise) {
      const bool sorted = is_sorted(*order);
      const int64_t repeated = first_repeated(*order);
      if (facts.sorted && !sorted) verify("sorted", true, first_unsorted(*order), keys.shape());
      verify("unique", facts.unique, repeated, keys.shape());
      order->facts = {sorted, repeated < 0};
    }
  }
  if (keys.device().type != DeviceType::cpu && order->kept()) place_on(keys.device(), *order);
  index.order_ = std::move(order);
  return index;
}

int64_t Index::size() const { return order_ ? order_->size : -1; }
IndexFacts Index::facts() const { return order_ ? order_->facts : IndexFacts{}; }

}  // namespace sow

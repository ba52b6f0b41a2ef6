// SPDX-License-Identifier: Apache-2.0
// Copies a problem's memory to a device and moves its pointers along.
#include "cuda/device_problem.h"

#include "core/device_table.h"

namespace sow::test {

namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  detail::device_table(DeviceType::cuda).copy_bytes(to, from, bytes, kGpu.index);
}

// What the addresses of a buffer must be multiples of: the elements that lie in it.
size_t grain_of(const detail::Transfer& t, const void* data, size_t bytes) {
  const char* first = static_cast<const char*>(data);
  const auto inside = [&](const char* at) {
    return at != nullptr && at >= first && at < first + bytes;
  };
  if (inside(t.mask.data)) return 1;
  for (const auto* side : {&t.dst_index, &t.src_index}) {
    for (const auto& index : *side) {
      if (inside(index.data)) return size_of(index.dtype);
    }
  }
  return size_of(t.dtype);
}

}  // namespace

DeviceProblem::DeviceProblem(const Problem& problem, Draw& draw) : transfer_(problem.transfer) {
  size_t used = 0;
  const size_t item = size_of(transfer_.dtype);
  const auto place = [&](const void* data, size_t bytes, size_t grain) {
    used = (used + 63) / 64 * 64 +
           (draw.chance(30) ? grain * static_cast<size_t>(draw.between(0, 3)) : 0);
    places_.push_back({static_cast<const char*>(data), bytes, used});
    used += bytes + 16;
  };
  place(problem.destination.data(), problem.destination.size(), item);
  destination_bytes_ = problem.destination.size();
  for (const auto& input : problem.inputs) {
    place(input->data(), input->size(), grain_of(problem.transfer, input->data(), input->size()));
  }
  for (const Index& held : problem.held) place(held.keys().data(), held.keys().nbytes(), 8);
  std::vector<char> staged(used);
  for (const Place& at : places_) {
    if (at.bytes != 0) std::memcpy(staged.data() + at.offset, at.host, at.bytes);
  }
  memory_ = Tensor::empty({static_cast<int64_t>(used)}, DType::uint8, kGpu);
  copy_bytes(memory_.data(), staged.data(), used);
  detail::Transfer& t = transfer_;
  if (t.order != nullptr) {
    const Index& host = problem.held[0];
    held_.push_back(Index::hold(host.keys().to(kGpu), host.size(), host.bounds()));
    t.order = held_[0].order().get();
  }
  for (detail::Operand* operand : {&t.dst, &t.src, &t.mask, &t.base}) {
    if (operand->data != nullptr) operand->data = moved(operand->data);
  }
  for (auto* side : {&t.dst_index, &t.src_index}) {
    for (auto& index : *side) index.data = moved(index.data);
  }
}

char* DeviceProblem::moved(const char* host) const {
  char* base = static_cast<char*>(memory_.data());
  for (const Place& at : places_) {
    if (host >= at.host && host < at.host + at.bytes) return base + at.offset + (host - at.host);
  }
  for (const Place& at : places_) {  // nothing is read of an empty operand
    if (host == at.host + at.bytes) return base + at.offset + at.bytes;
  }
  return base;
}

void DeviceProblem::set_destination(const Buffer& bytes) {
  copy_bytes(static_cast<char*>(memory_.data()) + places_[0].offset, bytes.data(), bytes.size());
}

Buffer DeviceProblem::destination() const {
  Buffer out(destination_bytes_);
  copy_bytes(out.data(), static_cast<const char*>(memory_.data()) + places_[0].offset, out.size());
  return out;
}

}  // namespace sow::test

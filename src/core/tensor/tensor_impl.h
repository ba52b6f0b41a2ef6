// SPDX-License-Identifier: Apache-2.0
// The shared state behind a Tensor handle.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "sow/tensor.h"

namespace sow::detail {

// A block of memory and who gives it back. Views of one block share it, and with it the version
// that counts the writes through sow.
struct Storage {
  void* base = nullptr;
  size_t bytes = 0;
  Device device;
  bool read_only = false;
  std::atomic<uint64_t> version{0};
  std::function<void()> deleter;  // foreign memory; empty for our own
  std::function<void()> written;  // who wants to know of writes, if anybody

  void count_write() {
    version.fetch_add(1, std::memory_order_relaxed);
    if (written) written();
  }

  Storage() {}  // not defaulted, which would clear every byte first
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();
};

// Owned by the modules that define them; absent for plain tensors.
struct AutogradState {
  virtual ~AutogradState() = default;
};
struct SymbolicState {
  virtual ~SymbolicState() = default;
};

struct TensorImpl {
  TensorImpl() {}  // as above

  std::shared_ptr<Storage> storage;
  char* data = nullptr;
  DType dtype = DType::float32;
  Device device;
  Dims shape;
  Dims strides;  // in elements
  int64_t numel = 0;
  bool is_view = false;  // made as a part of another tensor
  std::shared_ptr<AutogradState> autograd;
  std::shared_ptr<SymbolicState> symbolic;
};

// A view into `base`'s storage that begins `offset` elements after its first element.
Tensor make_view(const Tensor& base, int64_t offset, Dims shape, Dims strides);

// A fresh tensor whose dimensions lie in memory in the order of the strides `like`, densely.
Tensor empty_strided_like(const Dims& shape, const Dims& like, DType dtype, Device device);

}  // namespace sow::detail

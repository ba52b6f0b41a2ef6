// SPDX-License-Identifier: Apache-2.0
// A short list of extents or strides that lives without the heap up to rank 6.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "sow/export.h"

namespace sow {

class Dims {
 public:
  Dims() {}
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  Dims(const std::vector<int64_t>& values) { assign(values.data(), values.size()); }
  Dims(const int64_t* values, size_t count) { assign(values, count); }
  explicit Dims(size_t count, int64_t value) {
    resize(count);
    std::fill(begin(), end(), value);
  }
  Dims(const Dims& other) { assign(other.data(), other.size()); }
  Dims(Dims&& other) noexcept { take(other); }
  ~Dims() { release(); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.data(), other.size());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }

  size_t size() const { return size_; }
  int rank() const { return static_cast<int>(size_); }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return heap_ ? heap_ : inline_; }
  const int64_t* data() const { return heap_ ? heap_ : inline_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t back() const { return data()[size_ - 1]; }

  void resize(size_t count) {
    reserve(count);
    for (size_t i = size_; i < count; ++i) data()[i] = 0;
    size_ = static_cast<uint32_t>(count);
  }
  void push_back(int64_t value) {
    if (size_ == capacity_) reserve(2 * static_cast<size_t>(capacity_));
    data()[size_++] = value;
  }
  void insert(size_t at, int64_t value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr uint32_t kInline = 6;

  void assign(const int64_t* values, size_t count) {
    if (count > capacity_) size_ = 0;  // nothing old to keep when memory grows
    reserve(count);
    copy(values, count, data());
    size_ = static_cast<uint32_t>(count);
  }
  // One word after the other where they are few, as nearly always: a wide load of words that were
  // just written one by one has to wait for them, and a call of memmove costs more than its work.
  static void copy(const int64_t* from, size_t count, int64_t* to) {
    if (count > 0) to[0] = from[0];
    if (count > 1) to[1] = from[1];
    if (count > 2) std::memcpy(to + 2, from + 2, (count - 2) * sizeof(int64_t));
  }
  void reserve(size_t count) {
    if (count <= capacity_) return;
    int64_t* grown = new int64_t[count];
    for (size_t i = 0; i < size_; ++i) grown[i] = data()[i];
    delete[] heap_;
    heap_ = grown;
    capacity_ = static_cast<uint32_t>(count);
  }
  void release() {
    if (heap_) delete[] heap_;
  }
  void take(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    heap_ = other.heap_;
    if (!heap_) copy(other.inline_, size_, inline_);
    other.heap_ = nullptr;
    other.capacity_ = kInline;
    other.size_ = 0;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
  int64_t* heap_ = nullptr;
  int64_t inline_[kInline];  // the first size_ of them
};

// "[2, 3]", the way every message prints extents; an unknown extent is "?".
SOW_API std::string to_string(const Dims& dims);

}  // namespace sow

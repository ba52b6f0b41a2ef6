// SPDX-License-Identifier: Apache-2.0
// A vector whose first elements live inside of it: short lists cost no allocation.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace sow::detail {

template <class T, size_t Inline>
class InlineVector {
 public:
  InlineVector() = default;
  // These delegate, so that what was allocated is released where copying a value throws.
  InlineVector(std::initializer_list<T> values) : InlineVector() {
    append(values.begin(), values.end());
  }
  InlineVector(const InlineVector& other) : InlineVector() { append(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this == &other) return *this;
    clear();
    append(other.begin(), other.end());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~InlineVector() { release(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  template <class... Parts>
  T& emplace_back(Parts&&... parts) {
    if (size_ == capacity_) grow(2 * capacity_);
    T* const made = new (data_ + size_) T{std::forward<Parts>(parts)...};
    ++size_;
    return *made;
  }
  void push_back(const T& value) { emplace_back(T(value)); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void erase(T* at) {
    std::move(at + 1, end(), at);
    pop_back();
  }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void shrink(size_t count) {
    while (size_ > count) pop_back();
  }
  void clear() { shrink(0); }

 private:
  T* inside() { return std::launder(reinterpret_cast<T*>(room_)); }
  bool is_inside() const { return data_ == reinterpret_cast<const T*>(room_); }

  void append(const T* first, const T* last) {
    for (; first != last; ++first) push_back(*first);
  }
  void grow(size_t capacity) {
    T* grown = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), grown);
    const size_t count = size_;
    release();
    data_ = grown;
    size_ = count;
    capacity_ = capacity;
  }
  void release() {
    clear();
    if (!is_inside()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = inside();
    capacity_ = Inline;
  }
  void take(InlineVector& other) noexcept {
    if (other.is_inside()) {
      for (T& value : other) push_back(std::move(value));
      other.clear();
      return;
    }
    data_ = std::exchange(other.data_, other.inside());
    size_ = std::exchange(other.size_, size_t{0});
    capacity_ = std::exchange(other.capacity_, Inline);
  }

  alignas(T) std::byte room_[Inline * sizeof(T)];
  T* data_ = reinterpret_cast<T*>(room_);
  size_t size_ = 0;
  size_t capacity_ = Inline;
};

}  // namespace sow::detail

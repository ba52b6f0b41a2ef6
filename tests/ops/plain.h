// SPDX-License-Identifier: Apache-2.0
// Small arrays of int64 and the plain loops that operations are compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "sow/ops.h"

namespace sow::testing {

// Calls f(position) for every position of the shape in row-major order.
inline void for_each(const Dims& shape, const std::function<void(const Dims&)>& f) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    Dims at(shape.size(), 0);
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(at);
  }
}

// A row-major array of int64.
struct Plain {
  Dims shape;
  std::vector<int64_t> values;

  explicit Plain(const Dims& s, int64_t value = 0) : shape(s) {
    size_t count = 1;
    for (const int64_t extent : s) count *= static_cast<size_t>(extent);
    values.assign(count, value);
  }
  explicit Plain(const Tensor& tensor)
      : shape(tensor.shape()), values(tensor.to_vector<int64_t>()) {}

  size_t place(const Dims& at) const {
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + at[d];
    return static_cast<size_t>(offset);
  }
  int64_t& operator[](const Dims& at) { return values[place(at)]; }
  int64_t operator[](const Dims& at) const { return values[place(at)]; }
  // The element that stands at `at` once this is expanded to more or longer dimensions.
  int64_t expanded(const Dims& at) const {
    Dims own(shape.size(), 0);
    for (size_t d = 0; d < shape.size(); ++d) {
      own[d] = shape[d] == 1 ? 0 : at[at.size() - shape.size() + d];
    }
    return (*this)[own];
  }
  friend bool operator==(const Plain& a, const Plain& b) {
    return a.shape == b.shape && a.values == b.values;
  }
  friend std::ostream& operator<<(std::ostream& out, const Plain& plain) {
    return out << to_string(plain.shape) << " " << to_string(Dims(plain.values));
  }
};

// How a test array lies in memory.
enum class Layout { row_major, column_major, flipped, stepped };
inline constexpr Layout kLayouts[] = {Layout::row_major, Layout::column_major, Layout::flipped,
                                      Layout::stepped};

// The array as a tensor of T, laid out by strides worked out here, not by the library's views.
template <class T = int64_t>
Tensor lay_out(const Plain& plain, Layout layout = Layout::row_major) {
  const int rank = plain.shape.rank();
  Dims strides(plain.shape.size(), 0);
  int64_t step = layout == Layout::stepped ? 2 : 1;
  for (int i = 0; i < rank; ++i) {
    const int d = layout == Layout::column_major ? i : rank - 1 - i;
    strides[d] = step;
    step *= plain.shape[d] + (layout == Layout::stepped ? 1 : 0);
  }
  const auto memory = std::make_shared<std::vector<T>>(static_cast<size_t>(step) + 1, T(99));
  int64_t first = 0;
  for (int d = 0; d < rank && layout == Layout::flipped; ++d) {
    if (plain.shape[d] > 0) first += (plain.shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  for_each(plain.shape, [&](const Dims& at) {
    int64_t offset = first;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    (*memory)[static_cast<size_t>(offset)] = static_cast<T>(plain[at]);
  });
  Tensor::Foreign foreign;
  foreign.data = memory->data() + first;
  foreign.dtype = dtype_of<T>();
  foreign.shape = plain.shape;
  foreign.strides = strides;
  foreign.deleter = [memory] {};
  return Tensor::wrap(std::move(foreign));
}

inline Tensor mask_of(const Plain& plain) {
  std::vector<bool> bits(plain.values.begin(), plain.values.end());
  return Tensor::of<bool>(bits, plain.shape);
}

// What a place holds after its updates, in order.
inline int64_t fold(Reduce reduce, bool include_self, int64_t old, std::vector<int64_t> updates) {
  if (reduce == Reduce::assign) return updates.back();
  if (include_self) updates.insert(updates.begin(), old);
  int64_t out = updates[0];
  for (size_t i = 1; i < updates.size(); ++i) {
    if (reduce == Reduce::add || reduce == Reduce::mean) out += updates[i];
    if (reduce == Reduce::mul) out *= updates[i];
    if (reduce == Reduce::amax) out = std::max(out, updates[i]);
    if (reduce == Reduce::amin) out = std::min(out, updates[i]);
  }
  if (reduce != Reduce::mean) return out;
  const int64_t count = static_cast<int64_t>(updates.size());
  return out / count - (out % count < 0 ? 1 : 0);
}

// Collects the updates of a scatter and folds them into a copy of the destination.
class Updates {
 public:
  explicit Updates(const Plain& destination) : destination_(destination) {}
  void add(const Dims& at, int64_t value) { places_[destination_.place(at)].push_back(value); }
  Plain result(Reduce reduce, bool include_self = true) const {
    Plain out = destination_;
    for (const auto& [place, updates] : places_) {
      out.values[place] = fold(reduce, include_self, out.values[place], updates);
    }
    return out;
  }

 private:
  Plain destination_;
  std::map<size_t, std::vector<int64_t>> places_;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool coin() { return number(0, 1) == 1; }
  Dims shape(int rank, int64_t low = 1, int64_t high = 4) {
    Dims out(static_cast<size_t>(rank), 0);
    for (int64_t& extent : out) extent = number(low, high);
    return out;
  }
  Plain array(const Dims& shape, int64_t low = -9, int64_t high = 9) {
    Plain out(shape);
    for (int64_t& value : out.values) value = number(low, high);
    return out;
  }
  Layout layout() { return kLayouts[number(0, 3)]; }
  Reduce reduce() { return static_cast<Reduce>(number(0, 5)); }

 private:
  std::mt19937 engine_;
};

inline int64_t wrapped(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }

}  // namespace sow::testing

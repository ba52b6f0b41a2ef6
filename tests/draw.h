// SPDX-License-Identifier: Apache-2.0
// Where tests draw their choices from: a seed, or the bytes that a fuzzer made up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>

namespace sow::test {

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  // Reads the bytes as they come; when they are used up every draw is zero.
  Draw(const uint8_t* bytes, size_t count) : bytes_(bytes), left_(count), from_bytes_(true) {}

  uint64_t bits() {
    if (!from_bytes_) return engine_();
    uint64_t word = 0;
    take(&word, 8);
    return word;
  }

  // Uniform over [least, most]. From bytes it takes as few of them as the range needs, so that a
  // fuzzer's change of one byte is a change of one choice.
  int64_t between(int64_t least, int64_t most) {
    const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least) + 1;
    if (range == 1) return least;
    uint64_t word = 0;
    if (from_bytes_)
      take(&word, range <= 256 ? 1 : range <= 65536 ? 2 : 8);
    else
      word = engine_();
    return static_cast<int64_t>(static_cast<uint64_t>(least) + (range == 0 ? word : word % range));
  }

  bool chance(int percent) { return between(0, 99) < percent; }

  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  void take(void* out, size_t count) {
    const size_t taken = count < left_ ? count : left_;
    if (taken != 0) std::memcpy(out, bytes_, taken);
    bytes_ += taken;
    left_ -= taken;
  }

  std::mt19937_64 engine_;
  const uint8_t* bytes_ = nullptr;
  size_t left_ = 0;
  bool from_bytes_ = false;
};

}  // namespace sow::test

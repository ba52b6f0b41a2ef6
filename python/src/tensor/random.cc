// SPDX-License-Identifier: Apache-2.0
// The generator: a mixed counter, so that number i of a stream needs no number before it.
#include "tensor/random.h"

#include <atomic>
#include <cmath>

namespace sow::python {
namespace {

// The finalizer of splitmix64, over a counter stepped by the golden ratio.
uint64_t mixed(uint64_t stream, uint64_t counter) {
  uint64_t z = stream + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct State {
  std::atomic<uint64_t> seed{0};
  std::atomic<uint64_t> calls{0};
};
State& state() {
  static State shared;
  return shared;
}

uint64_t stream_of(std::optional<uint64_t> seed) {
  if (seed) return mixed(*seed, 0);
  return mixed(mixed(state().seed, 0), state().calls.fetch_add(1) + 1);
}

// Calls number(i) for every element; only the floating types have a density.
template <class F>
Tensor filled(const char* op, const Dims& shape, DType dtype, F number) {
  if (!is_floating(dtype)) {
    throw Error(ErrorKind::type,
                std::string(op) + ": dtype is " + name_of(dtype) + "; it must be a floating type");
  }
  Tensor out = Tensor::empty(shape, dtype);
  auto* at = static_cast<char*>(out.data());
  for (int64_t i = 0; i < out.numel(); ++i, at += size_of(dtype)) {
    Scalar(number(static_cast<uint64_t>(i))).write_as(dtype, at, op);
  }
  return out;
}

// As many bits as the type holds, so that no number rounds up to 1.
int digits(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 11;
    case DType::bfloat16:
      return 8;
    case DType::float32:
      return 24;
    default:
      return 53;
  }
}

}  // namespace

Tensor uniform(const Dims& shape, DType dtype, std::optional<uint64_t> seed) {
  const uint64_t stream = stream_of(seed);
  const int bits = digits(dtype);
  return filled("rand", shape, dtype, [=](uint64_t i) {
    return std::ldexp(static_cast<double>(mixed(stream, i) >> (64 - bits)), -bits);
  });
}

Tensor normal(const Dims& shape, DType dtype, std::optional<uint64_t> seed) {
  const uint64_t stream = stream_of(seed);
  return filled("randn", shape, dtype, [=](uint64_t i) {
    const double first =
        std::ldexp(static_cast<double>((mixed(stream, 2 * i) >> 11) + 1), -53);  // (0, 1]
    const double second = std::ldexp(static_cast<double>(mixed(stream, 2 * i + 1) >> 11), -53);
    constexpr double kTwoPi = 6.283185307179586;
    return std::sqrt(-2 * std::log(first)) * std::cos(kTwoPi * second);
  });
}

void set_seed(uint64_t seed) {
  state().seed = seed;
  state().calls = 0;
}

}  // namespace sow::python

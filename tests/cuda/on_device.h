// SPDX-License-Identifier: Apache-2.0
// The table of operations (tests/program/cases.h) in other types and on the device.
#pragma once

#include <complex>

#include "cuda/device_problem.h"
#include "program/cases.h"

namespace sow::test {

inline constexpr DType kCaseTypes[] = {
    DType::bool_,     DType::uint8,      DType::int8,     DType::int16,   DType::int32,
    DType::int64,     DType::float16,    DType::bfloat16, DType::float32, DType::float64,
    DType::complex64, DType::complex128, DType::uint16,   DType::uint32,  DType::uint64};

inline TensorList on_gpu(const TensorList& host) {
  TensorList out;
  for (const Tensor& tensor : host) out.push_back(tensor.to(kGpu));
  return out;
}

inline TensorList on_cpu(const TensorList& tensors) {
  TensorList out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.defined() ? tensor.to({}) : tensor);
  return out;
}

// A float32 tensor in another type; what has another type already (keys, masks) stays.
inline Tensor in_type(const Tensor& x, DType dtype) {
  if (x.dtype() != DType::float32 || dtype == DType::float32) return x;
  const std::vector<float> numbers = x.to_vector<float>();
  if (is_complex(dtype)) {
    std::vector<std::complex<double>> pairs;
    for (size_t i = 0; i < numbers.size(); ++i)
      pairs.push_back({numbers[i], numbers[(i * 7 + 3) % numbers.size()] / 2});
    return to(Tensor::of(pairs, x.shape()), dtype);
  }
  if (is_floating(dtype)) return to(x, dtype);
  std::vector<int64_t> whole;
  for (const float number : numbers) whole.push_back(static_cast<int64_t>(number * 20));
  return to(Tensor::of(whole, x.shape()), dtype);
}

inline TensorList in_type(const TensorList& inputs, DType dtype) {
  TensorList out;
  for (const Tensor& input : inputs) out.push_back(in_type(input, dtype));
  return out;
}

}  // namespace sow::test

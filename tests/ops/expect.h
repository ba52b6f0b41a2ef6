// SPDX-License-Identifier: Apache-2.0
// How the tests of the contract say what they expect: values with their shape, and errors with
// their whole message and a destination that nobody touched.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "sow/sow.h"

namespace sow::test {

template <class T>
void expect_tensor(const Tensor& tensor, const Dims& shape, const std::vector<T>& values) {
  EXPECT_EQ(tensor.dtype(), dtype_of<T>());
  EXPECT_EQ(tensor.shape().to_vector(), shape.to_vector());
  EXPECT_EQ(tensor.to_vector<T>(), values) << tensor.to_string();
}

inline std::vector<char> bytes_of(const Tensor& tensor) {
  const Tensor dense = tensor.clone();
  std::vector<char> bytes(dense.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.data(), bytes.size());
  return bytes;
}

inline void expect_same_bytes(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape().to_vector(), b.shape().to_vector());
  EXPECT_TRUE(bytes_of(a) == bytes_of(b)) << a << "\nis not\n" << b;
}

template <class F>
void expect_error(ErrorKind kind, const std::string& message, F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message);
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << message;
  }
}

// The error leaves `destination` as it was, byte for byte.
template <class F>
void expect_error_untouched(ErrorKind kind, const std::string& message, const Tensor& destination,
                            F&& f) {
  const std::vector<char> before = bytes_of(destination);
  expect_error(kind, message, f);
  EXPECT_TRUE(bytes_of(destination) == before) << "after: " << message;
}

class ThreadCount {
 public:
  explicit ThreadCount(int count) : previous_(get_num_threads()) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(previous_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int previous_;
};

}  // namespace sow::test

// SPDX-License-Identifier: Apache-2.0
// A random Transfer with its memory copied to a device, to be run there and compared.
#pragma once

#include <gtest/gtest.h>

#include "sow/cuda.h"
#include "transfer/random_transfer.h"

namespace sow::test {

inline constexpr Device kGpu{DeviceType::cuda, 0};

// Tests that need a device; without one they are counted as not run.
class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::available()) GTEST_SKIP() << cuda::status();
  }
};

class DeviceProblem {
 public:
  // Every buffer is copied; `draw` decides how each is aligned.
  DeviceProblem(const Problem& problem, Draw& draw);

  const detail::Transfer& transfer() const { return transfer_; }
  void set_destination(const Buffer& bytes);
  Buffer destination() const;

 private:
  struct Place {
    const char* host;
    size_t bytes;
    size_t offset;
  };
  char* moved(const char* host) const;

  Tensor memory_;
  std::vector<Index> held_;  // as the problem's, on the device
  std::vector<Place> places_;
  size_t destination_bytes_;
  detail::Transfer transfer_;
};

}  // namespace sow::test

// SPDX-License-Identifier: Apache-2.0
// Where new tensors get an address instead of memory: how a program is planned.
#pragma once

#include <cstddef>

namespace sow::detail {

class AddressSource {
 public:
  virtual char* reserve(size_t bytes) = 0;

 protected:
  ~AddressSource() = default;
};

// The one of this thread, or null: tensors have memory.
AddressSource* current_address_source();
// Returns the previous one.
AddressSource* set_address_source(AddressSource* source);

}  // namespace sow::detail

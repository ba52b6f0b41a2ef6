// SPDX-License-Identifier: Apache-2.0
// The structs of DLPack as they lie in memory: the unversioned form and version 1.
#pragma once

#include <cstdint>

namespace sow::detail::dlpack {

enum DeviceCode : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct Device {
  int32_t type;  // DeviceCode
  int32_t index;
};

struct DataType {
  uint8_t code;  // TypeCode
  uint8_t bits;
  uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed* self);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};
inline constexpr Version kVersion = {1, 0};

inline constexpr uint64_t kReadOnly = 1;  // a flag

struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  Array array;
};

static_assert(sizeof(Array) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80);

}  // namespace sow::detail::dlpack

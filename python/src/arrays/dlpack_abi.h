// SPDX-License-Identifier: Apache-2.0
// The C structures of DLPack 1.x, as far as they are exchanged here.
#pragma once

#include <cstdint>

namespace sow::python {

inline constexpr uint32_t kDlpackMajor = 1;
inline constexpr uint32_t kDlpackMinor = 1;

enum DlDeviceType : int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13 };
struct DlDevice {
  int32_t type;
  int32_t id;
};

enum DlTypeCode : uint8_t {
  kDlInt = 0,
  kDlUint = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlComplex = 5,
  kDlBool = 6
};
struct DlType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

// What a capsule named "dltensor" holds.
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

struct DlVersion {
  uint32_t major;
  uint32_t minor;
};

inline constexpr uint64_t kDlReadOnly = 1;
inline constexpr uint64_t kDlCopied = 2;

// What a capsule named "dltensor_versioned" holds.
struct DlVersioned {
  DlVersion version;
  void* context;
  void (*deleter)(DlVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

// The table behind `type(x).__dlpack_c_exchange_api__`, a capsule named "dlpack_exchange_api".
struct DlExchange {
  DlVersion version;
  DlExchange* previous;
  int (*allocate)(DlTensor*, DlVersioned**, void*, void (*)(void*, const char*, const char*));
  int (*managed_from_object)(void* object, DlVersioned** out);
  int (*object_from_managed)(DlVersioned* tensor, void** out);
  int (*borrow_from_object)(void* object, DlTensor* out);  // may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace sow::python

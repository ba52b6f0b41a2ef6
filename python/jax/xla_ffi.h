// SPDX-License-Identifier: Apache-2.0
// The part of XLA's foreign function interface that a handler without state touches, declared by
// ourselves: these structures and these two entries of the table have not moved since jax 0.4.31,
// while XLA's own headers tie a library to the versions they came with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sow::xla {

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
inline constexpr int32_t kMetadata = 1;

struct ApiVersion {
  size_t struct_size;
  Extension* extensions;
  int32_t major;
  int32_t minor;
};
// XLA takes handlers of every version from the first to its own.
inline constexpr int32_t kMajor = 0, kMinor = 1;

struct Metadata {
  size_t struct_size;
  ApiVersion version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

// Element types, by XLA's numbers.
enum class Type : int32_t {
  boolean = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
  uint16 = 7,
  uint32 = 8,
  uint64 = 9,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  complex64 = 15,
  bfloat16 = 16,
  complex128 = 18,
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  Type dtype;
  void* data;
  int64_t rank;
  const int64_t* dims;
};

// Operands, and results likewise: all of them buffers, dense and row-major.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  void** items;

  const Buffer& operator[](size_t i) const { return *static_cast<const Buffer*>(items[i]); }
};

struct ByteSpan {
  const char* data;
  size_t size;
};

inline constexpr int32_t kStringAttribute = 4;
struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  ByteSpan** names;
  void** items;
};

struct Error;    // XLA's
struct Context;  // XLA's

struct ErrorCreate {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int32_t code;
};

struct StreamGet {
  size_t struct_size;
  Extension* extensions;
  Context* context;
  void* stream;
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const void* internal;
  Error* (*error_create)(ErrorCreate*);
  void* error_message;
  void* error_destroy;
  void* handler_register;
  Error* (*stream_get)(StreamGet*);
};

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

}  // namespace sow::xla

// SPDX-License-Identifier: Apache-2.0
// DLPack both ways: arrays of other libraries as tensors, tensors as arrays of other libraries,
// without a copy. Works next to any version of <dlpack/dlpack.h>, and without it.
#pragma once

#include "sow/tensor.h"

struct DLManagedTensor;           // before version 1.0
struct DLManagedTensorVersioned;  // 1.x

namespace sow {

// A view of the array. Takes it over: its deleter runs once, on whichever thread lets go of the
// last view. If this throws (a type or device that sow has not), the caller still owns it.
SOW_API Tensor from_dlpack(DLManagedTensor* managed);
SOW_API Tensor from_dlpack(DLManagedTensorVersioned* managed);

// The tensor as an array that keeps its memory alive; whoever takes it calls its deleter, on any
// thread. The form without a version cannot say "read-only" and refuses such a tensor.
SOW_API DLManagedTensor* to_dlpack(const Tensor& tensor);
SOW_API DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);

// Calls `written` after every write through sow into the tensor's memory, on the thread that wrote:
// for libraries that count the writes into their arrays. It must not throw.
SOW_API void on_write(const Tensor& tensor, std::function<void()> written);

// Whether sow allocated the memory; false for a view of anybody else's.
SOW_API bool owns_memory(const Tensor& tensor);

}  // namespace sow

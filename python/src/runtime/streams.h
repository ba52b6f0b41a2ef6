// SPDX-License-Identifier: Apache-2.0
// Which CUDA stream a call from Python runs on: one the user chose, or the one that the library of
// its arrays works on.
#pragma once

#include <optional>

#include "arrays/arrays.h"
#include "sow/cuda.h"

namespace sow::python {

// The stream that the library of a CUDA array gives its work to; nothing if it does not say.
std::optional<void*> library_stream(nb::handle object, const TypeInfo& info, int device);

// Whether this thread is inside of sow.cuda.stream(...).
bool stream_is_chosen();

// While it lives, calls run on the stream that a call was given as its `stream`, if it was.
class GivenStream {
 public:
  GivenStream(nb::handle stream, const Tensor& x, const char* op)
      : given_(stream.is_valid() && !stream.is_none()) {
    if (given_) choose(stream, x, op);
  }
  ~GivenStream() {
    if (given_) forget();
  }
  GivenStream(const GivenStream&) = delete;
  GivenStream& operator=(const GivenStream&) = delete;

 private:
  static void choose(nb::handle stream, const Tensor& x, const char* op);
  static void forget();
  bool given_;
};

// While it lives, calls on a GPU run on the stream of the library that owns `object`.
class OwnersStream {
 public:
  OwnersStream(const Tensor& x, nb::handle object, const TypeInfo& info) {
    if (x.device().type != DeviceType::cpu) follow(object, info, x.device().index);
  }

  // The same for several, of which `object` is the first.
  OwnersStream(const TensorList& all, nb::handle object, const TypeInfo& info) {
    if (all.empty() || !all[0].defined() || all[0].device().type == DeviceType::cpu) return;
    follow(object, info, all[0].device().index);
  }

 private:
  void follow(nb::handle object, const TypeInfo& info, int device);
  std::optional<cuda::StreamGuard> guard_;
};

// For DLPack: the number of this thread's stream, and what a consumer's number means.
int64_t stream_number(int device);
void let_consumer_wait(nb::handle stream, int device);

}  // namespace sow::python

// SPDX-License-Identifier: Apache-2.0
// What indices by group say once their data is read: how many groups there are, and which keys are
// negative.
#include <limits>

#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/groups/grouping.h"
#include "ops/groups/host.h"
#include "ops/shapes.h"
#include "sow/groups.h"
#include "sow/math.h"
#include "transfer/recorder.h"

namespace sow {
namespace detail {

Tensor host_keys(const Tensor& keys) {
  if (Watcher* watcher = current_watcher()) watcher->on_data_read();
  return to(keys.to(Device{}), DType::int64).contiguous();
}

int64_t last_pointer(const char* op, const Tensor& pointers) {
  if (!pointers.defined()) fail(ErrorKind::argument, "{}: a tensor is undefined", op);
  if (pointers.impl()->symbolic != nullptr) {
    fail(ErrorKind::argument, "{}: in a program size must be given: pointers have no data yet", op);
  }
  const bool fits = is_integer(pointers.dtype()) && pointers.dim() == 1 && pointers.numel() > 0;
  if (!fits) return 0;  // the call itself says what is wrong
  const Tensor host = host_keys(pointers);
  return host.data<const int64_t>()[host.numel() - 1];
}

int64_t size_of_groups(const char* op, const Index& index) {
  if (index.held()) return index.size();
  const Tensor keys = index_keys(index.keys());
  if (!keys.defined()) fail(ErrorKind::argument, "{}: a tensor is undefined", op);
  expect_index_dtype(op, keys.dtype());
  if (keys.impl()->symbolic != nullptr) {
    fail(ErrorKind::argument, "{}: in a program size must be given: the index has no data yet", op);
  }
  constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();
  const Tensor host = host_keys(keys);
  const int64_t* data = host.data<const int64_t>();
  int64_t size = 0;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (data[i] < 0 && index.bounds() == Bounds::error) {
      fail(ErrorKind::index, "{}: index {} is negative, which needs size to be given", op, data[i]);
    }
    if (data[i] != kNowhere && data[i] >= size) size = data[i] + 1;
  }
  return size;
}

namespace {

void expect_no_negative(const Tensor& keys, const char* op) {
  const Tensor host = host_keys(keys);
  const int64_t* data = host.data<const int64_t>();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (data[i] >= 0) continue;
    Dims at(host.shape().size(), 0);
    int64_t rest = i;
    for (int d = host.dim() - 1; d >= 0; --d) {
      at[d] = rest % host.shape()[d];
      rest /= host.shape()[d];
    }
    fail(ErrorKind::index,
         "{}: index {} at position {} is negative, and negative indices do not "
         "wrap here",
         op, data[i], at);
  }
}

}  // namespace
}  // namespace detail

Tensor unwrapped(const Tensor& keys, Bounds bounds, const char* op) {
  using Limits = std::numeric_limits<int64_t>;
  if (!keys.defined() || !is_integer(keys.dtype()) || bounds == Bounds::promise) return keys;
  if (is_unsigned(keys.dtype())) return detail::index_keys(keys);
  const bool real = keys.impl()->symbolic == nullptr && keys.device() == Device{};
  if (bounds == Bounds::error && real) {
    detail::expect_no_negative(keys, op);
    return keys;
  }
  const Tensor wide = to(keys, DType::int64);
  const int64_t instead = bounds == Bounds::clip   ? 0
                          : bounds == Bounds::drop ? Limits::max()
                                                   : Limits::min();
  return where(lt(wide, 0), instead, wide);
}

}  // namespace sow

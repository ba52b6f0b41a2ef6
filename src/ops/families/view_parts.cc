// SPDX-License-Identifier: Apache-2.0
// Which part of a tensor diagonal, select and slice mean: bounds, wrapping and strides.
#include "ops/families/views.h"
#include "ops/shapes.h"

namespace sow::detail {
namespace {

// On shapes alone strides count for nothing.
Dims strides_or_zeros(const Dims& shape, const Dims& strides) {
  return strides.size() == shape.size() ? strides : Dims(shape.size(), 0);
}

void expect_axes(const Call& call, const char* name, const Dims& shape, size_t least) {
  if (shape.size() < least) {
    fail(ErrorKind::shape, "{}: {} {} has {} dimension{}; it needs at least {}", op_name(call),
         name, shape, shape.size(), shape.size() == 1 ? "" : "s", least);
  }
}

// How long the diagonal is, and the extents it starts after; -1 if nobody knows.
int64_t diagonal_length(int64_t rows, int64_t columns, int64_t offset) {
  if (!known(rows) || !known(columns)) return -1;
  // Compared before they are subtracted: an offset may be anything.
  if (offset >= 0) return offset >= columns ? 0 : std::min(rows, columns - offset);
  return offset <= -rows ? 0 : std::min(rows + offset, columns);
}

// Python's rule for one end of a slice.
int64_t clamped(int64_t position, int64_t extent) {
  if (position < 0) position += extent;
  return std::clamp<int64_t>(position, 0, extent);
}

}  // namespace

Part diagonal_part(const Call& call, const char* name, const Dims& shape, const Dims& strides) {
  const char* op = op_name(call);
  const Attrs& attrs = call.attrs;
  expect_axes(call, name, shape, 2);
  const int64_t axis1 = wrap_axis(op, attrs.axis, shape.rank());
  const int64_t axis2 = wrap_axis(op, attrs.axis2, shape.rank());
  if (axis1 == axis2) {
    fail(ErrorKind::argument, "{}: axis1 {} and axis2 {} are the same axis; they must differ", op,
         attrs.axis, attrs.axis2);
  }
  Part part{0, shape, strides_or_zeros(shape, strides)};
  const int64_t length = diagonal_length(shape[axis1], shape[axis2], attrs.offset);
  const int64_t step1 = part.strides[axis1];
  const int64_t step2 = part.strides[axis2];
  if (length > 0) part.offset = attrs.offset >= 0 ? attrs.offset * step2 : -attrs.offset * step1;
  for (Dims* dims : {&part.shape, &part.strides}) {
    dims->erase(std::max(axis1, axis2));
    dims->erase(std::min(axis1, axis2));
  }
  part.shape.push_back(length);
  part.strides.push_back(step1 + step2);
  return part;
}

Part select_part(const Call& call, const char* name, const Dims& shape, const Dims& strides) {
  const char* op = op_name(call);
  expect_axes(call, name, shape, 1);
  const int64_t axis = wrap_axis(op, call.attrs.axis, shape.rank());
  const int64_t extent = shape[axis];
  const int64_t given = call.attrs.start;
  if (known(extent) && (given < -extent || given >= extent)) {
    const std::string valid =
        extent == 0 ? std::string("none") : text("{} to {}", -extent, extent - 1);
    fail(ErrorKind::index, "{}: index {} is out of range for axis {} of size {} (valid: {})", op,
         given, axis, extent, valid);
  }
  Part part{0, shape, strides_or_zeros(shape, strides)};
  part.offset = (given < 0 ? given + extent : given) * part.strides[axis];
  part.shape.erase(axis);
  part.strides.erase(axis);
  return part;
}

Part slice_part(const Call& call, const char* name, const Dims& shape, const Dims& strides) {
  const char* op = op_name(call);
  expect_axes(call, name, shape, 1);
  const int64_t axis = wrap_axis(op, call.attrs.axis, shape.rank());
  const int64_t step = call.attrs.step;
  if (step <= 0) {
    fail(ErrorKind::argument, "{}: step is {}; it must be positive", op, step);
  }
  Part part{0, shape, strides_or_zeros(shape, strides)};
  if (!known(shape[axis])) return part;
  const int64_t start = clamped(call.attrs.start, shape[axis]);
  const int64_t stop = clamped(call.attrs.stop, shape[axis]);
  const int64_t length = start < stop ? (stop - start - 1) / step + 1 : 0;
  if (length > 0) part.offset = start * part.strides[axis];
  if (length > 1) part.strides[axis] *= step;
  part.shape[axis] = length;
  return part;
}

}  // namespace sow::detail

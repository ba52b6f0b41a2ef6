// SPDX-License-Identifier: Apache-2.0
// x[...] and x[...] = v: views for ints and slices, our own gathers and scatters for arrays.
#include <algorithm>
#include <vector>

#include "arrays/elements.h"
#include "calls/bind.h"
#include "sow/ops.h"

namespace sow::python {
namespace {

constexpr const char* kOp = "indexing";

// One part of a key, read once.
struct Key {
  enum class Kind : uint8_t { ellipsis, new_axis, integer, slice, array };
  Kind kind = Kind::array;
  int64_t at = 0;
  Py_ssize_t start = 0, stop = 0, step = 1;
  Tensor array;  // int32, int64 or bool

  bool is_mask() const { return kind == Kind::array && array.dtype() == DType::bool_; }
  int64_t axes() const {  // of the tensor that it takes
    if (kind == Kind::integer || kind == Kind::slice) return 1;
    return kind != Kind::array ? 0 : is_mask() ? array.dim() : 1;
  }
};

[[noreturn]] void refuse(nb::handle object) {
  raise(PyExc_TypeError, "indexing: an index is " + describe(object) +
                             "; it must be an int, a slice, ..., None, or an array of integers "
                             "or bool");
}

// Numbers and lists have no device of their own: they follow the tensor.
Key array_key(nb::handle object, const Tensor& tensor) {
  Key key;
  key.array = to_tensor(object, {kOp, "an index"}, Access::read, DType::int64);
  const Kind kind = info_of(object).kind;
  if (kind == Kind::sequence) key.array = on_device(key.array, tensor.device());
  key.array = signed_keys(key.array);
  const DType dtype = key.array.dtype();
  if (is_integer(dtype) && size_of(dtype) < 4) key.array = sow::to(key.array, DType::int64);
  if (dtype != DType::bool_ && !is_integer(dtype)) {
    throw Error(ErrorKind::type, std::string("indexing: an index is of ") + name_of(dtype) +
                                     "; it must be of an integer type or bool");
  }
  return key;
}

Key read_key(nb::handle object, const Tensor& tensor) {
  Key key;
  if (object.is(nb::ellipsis())) {
    key.kind = Key::Kind::ellipsis;
  } else if (object.is_none()) {
    key.kind = Key::Kind::new_axis;
  } else if (PySlice_Check(object.ptr())) {
    key.kind = Key::Kind::slice;
    if (PySlice_Unpack(object.ptr(), &key.start, &key.stop, &key.step) < 0)
      throw nb::python_error();
  } else if (const std::optional<Scalar> number = number_of(object)) {
    // True and False are masks without dimensions, as in NumPy; no other number but an int will do.
    if (number->kind() == Scalar::Kind::boolean) {
      key.array = on_device(Tensor::scalar(*number, DType::bool_), tensor.device());
    } else if (number->kind() == Scalar::Kind::integer) {
      key.kind = Key::Kind::integer;
      key.at = parse_integer(object, kOp, "an index");
    } else {
      refuse(object);
    }
  } else if (info_of(object).kind == Kind::other) {
    if (!PyIndex_Check(object.ptr())) refuse(object);
    key.kind = Key::Kind::integer;
    key.at = parse_integer(object, kOp, "an index");
  } else {
    return array_key(object, tensor);
  }
  return key;
}

std::vector<Key> read_keys(nb::handle object, const Tensor& tensor) {
  std::vector<Key> keys;
  if (!PyTuple_Check(object.ptr())) {
    keys.push_back(read_key(object, tensor));
    return keys;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.ptr()); ++i) {
    keys.push_back(read_key(PyTuple_GET_ITEM(object.ptr(), i), tensor));
  }
  return keys;
}

// The basic part of a key is applied; what is left are the arrays, each at an axis of the view.
struct Picked {
  Tensor view;
  std::vector<Index> arrays;
  std::vector<int64_t> axes;  // of the view, which the arrays address; a mask addresses several
  bool together = true;       // nothing stands between the arrays
  int rank = 0;               // of the arrays, broadcast together

  // NumPy's rule: the dimensions of neighbouring arrays stay where the arrays were, else they come
  // first.
  int64_t before() const { return together ? axes.front() : 0; }
};

class Picker {
 public:
  explicit Picker(const Tensor& tensor) { picked_.view = tensor; }

  Picked pick(const std::vector<Key>& keys) {
    int64_t used = 0, dots = 0;
    for (const Key& key : keys) {
      used += key.axes();
      if (key.kind == Key::Kind::ellipsis) ++dots;
      if (key.kind == Key::Kind::array) by_arrays_ = true;
    }
    if (dots > 1) raise(PyExc_IndexError, "indexing: more than one ellipsis");
    const int64_t rest = picked_.view.dim() - used;
    if (rest < 0) {
      raise(PyExc_IndexError, "indexing: " + std::to_string(used) +
                                  " indices for a tensor of shape " +
                                  to_string(picked_.view.shape()));
    }
    for (const Key& key : keys) {
      const bool array = by_arrays_ && (key.kind == Key::Kind::array ||  //
                                        key.kind == Key::Kind::integer);
      if (array && left_arrays_) picked_.together = false;
      if (!array && !picked_.arrays.empty()) left_arrays_ = true;
      if (key.kind == Key::Kind::ellipsis) {
        axis_ += rest;
      } else {
        apply(key);
      }
    }
    return std::move(picked_);
  }

 private:
  void apply(const Key& key) {
    Tensor& view = picked_.view;
    switch (key.kind) {
      case Key::Kind::new_axis:
        view = view.unsqueeze(axis_++);
        break;
      case Key::Kind::integer:
        expect_inside(key.at);
        // Beside arrays an int is one of them: it takes part in the rule about neighbours.
        if (by_arrays_) {
          add_array(on_device(Tensor::scalar(key.at, DType::int64), view.device()), 1);
        } else {
          view = view.select(axis_, key.at);
        }
        break;
      case Key::Kind::slice:
        view = sliced(key);
        ++axis_;
        break;
      default:
        key.is_mask() ? add_mask(key.array) : add_array(key.array, 1);
    }
  }

  void expect_inside(int64_t at) const {
    const int64_t size = picked_.view.shape()[static_cast<size_t>(axis_)];
    if (size < 0 || (at >= -size && at < size)) return;  // unknown: the program will see
    const std::string valid =
        size == 0 ? "none" : std::to_string(-size) + " to " + std::to_string(size - 1);
    raise(PyExc_IndexError, "indexing: index " + std::to_string(at) + " is out of range for axis " +
                                std::to_string(axis_) + " of size " + std::to_string(size) +
                                " (valid: " + valid + ")");
  }

  // Python's rules are those of slice(), which need no extent. Backwards it is a slice of the
  // flipped axis, where position i is -1 - i.
  Tensor sliced(const Key& key) const {
    const Tensor& view = picked_.view;
    if (key.step > 0) {
      if (key.start == 0 && key.stop == PY_SSIZE_T_MAX && key.step == 1) return view;
      return view.slice(axis_, key.start, key.stop, key.step);
    }
    const int64_t start = key.start == PY_SSIZE_T_MAX ? 0 : -1 - key.start;
    const int64_t stop = key.stop == PY_SSIZE_T_MIN ? kEnd : -1 - key.stop;
    return view.flip(axis_).slice(axis_, start, stop, -key.step);
  }

  void add_array(const Tensor& array, int64_t axes) {
    picked_.rank = std::max(picked_.rank, array.dtype() == DType::bool_ ? 1 : array.dim());
    picked_.arrays.emplace_back(array);
    for (int64_t i = 0; i < axes; ++i) picked_.axes.push_back(axis_++);
  }

  void add_mask(const Tensor& mask) {
    if (mask.dim() == 0) {  // on a new axis of one element
      picked_.view = picked_.view.unsqueeze(axis_);
      return add_array(mask.unsqueeze(0), 1);
    }
    const Dims& shape = picked_.view.shape();
    for (int i = 0; i < mask.dim(); ++i) {
      const int64_t own = mask.shape()[static_cast<size_t>(i)];
      const int64_t there = shape[static_cast<size_t>(axis_ + i)];
      if (own != there && own >= 0 && there >= 0) {
        raise(PyExc_IndexError, "indexing: a mask of shape " + to_string(mask.shape()) +
                                    " does not fit a tensor of shape " + to_string(shape));
      }
    }
    add_array(mask, mask.dim());
  }

  Picked picked_;
  int64_t axis_ = 0;
  bool by_arrays_ = false;
  bool left_arrays_ = false;  // something else came after an array
};

// A permutation that changes nothing is no view: in-place forms go to the tensor itself.
Tensor permuted(const Tensor& tensor, const Dims& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return tensor.permute(order);
  }
  return tensor;
}

// The view with the indexed axes in front, in order.
Tensor indexed_first(const Picked& picked) {
  Dims order;
  for (const int64_t axis : picked.axes) order.push_back(axis);
  for (int64_t axis = 0; axis < picked.view.dim(); ++axis) {
    if (std::find(picked.axes.begin(), picked.axes.end(), axis) == picked.axes.end())
      order.push_back(axis);
  }
  return permuted(picked.view, order);
}

// The order of the result's axes, given one of this rank that begins with those of the arrays.
Dims result_order(const Picked& picked, int64_t rank) {
  Dims order;
  for (int64_t i = 0; i < picked.before(); ++i) order.push_back(picked.rank + i);
  for (int64_t i = 0; i < picked.rank; ++i) order.push_back(i);
  for (int64_t i = picked.rank + picked.before(); i < rank; ++i) order.push_back(i);
  return order;
}

Tensor get(const Tensor& tensor, nb::handle key) {
  const Picked picked = Picker(tensor).pick(read_keys(key, tensor));
  if (picked.arrays.empty()) return picked.view;
  const Tensor found = index_get(indexed_first(picked), picked.arrays);
  return permuted(found, result_order(picked, found.dim()));
}

// As NumPy: extents of 1 that the place has no axis for count for nothing.
Tensor without_leading_ones(Tensor value, int64_t rank) {
  while (value.dim() > rank && value.shape()[0] == 1) value = value.select(0, 0);
  return value;
}

void put_at(const Picked& picked, const Source& value) {
  const Tensor target = indexed_first(picked);
  if (!value.is_tensor()) {
    index_put_(target, picked.arrays, value);
    return;
  }
  const int64_t rank = picked.rank + target.dim() - static_cast<int64_t>(picked.axes.size());
  Tensor source = without_leading_ones(value.tensor(), rank);
  const Dims order = result_order(picked, rank);
  Dims back(order.size(), 0);
  bool moved = false;
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    moved = moved || order[i] != static_cast<int64_t>(i);
  }
  if (moved && source.dim() <= rank) {
    while (source.dim() < rank) source = source.unsqueeze(0);
    source = source.permute(back);
  }
  index_put_(target, picked.arrays, source);
}

// An array of a key broadcast with what a mask of no dimensions stands for: one zero, or none.
Tensor broadcast_with_mask(Tensor array, const Tensor& mask) {
  for (int64_t d = 0; d < array.dim(); ++d) {
    if (mask.size(d) == 1 || array.size(d) == 0) continue;
    if (array.size(d) != 1) {
      raise(PyExc_IndexError, "indexing: a mask of no dimensions that is false stands for shape " +
                                  to_string(mask.shape()) +
                                  ", which does not broadcast with that of another index, " +
                                  to_string(array.shape()));
    }
    array = array.slice(d, 0, 0);
  }
  return array;
}

// What autograd has recorded is not written through a view: every key becomes an array, each over
// the dimensions of the result that are its own.
std::vector<Index> as_arrays(const Tensor& tensor, const std::vector<Key>& keys) {
  struct One {
    Tensor array;
    int64_t first, last;  // the result's dimensions that it goes over; none: those of the arrays
    bool axis = true;     // of the tensor, which it addresses
  };
  std::vector<One> all;
  bool arrays = false, left = false, together = true;
  int64_t axis = 0, used = 0, dims = 0, block = -1, rank = 0;
  for (const Key& key : keys) {
    used += key.axes();
    arrays = arrays || key.kind == Key::Kind::array;
  }
  const auto full_axis = [&](int64_t start, int64_t stop, int64_t step) {
    const Tensor line = Tensor::arange(tensor.size(axis), DType::int64, tensor.device());
    const Tensor places =
        step > 0 ? line.slice(0, start, stop, step) : line.flip(0).slice(0, start, stop, -step);
    all.push_back({places, dims, dims + 1});
    ++axis, ++dims;
  };
  const auto add = [&](const Tensor& array) {
    if (block < 0) block = dims;
    if (left) together = false;
    rank = std::max<int64_t>(rank, array.dim());
    all.push_back({array, -1, -1});
  };
  for (const Key& key : keys) {
    const bool array = arrays && (key.kind == Key::Kind::array || key.kind == Key::Kind::integer);
    if (!array && block >= 0) left = true;
    if (key.kind == Key::Kind::new_axis) {
      ++dims;
    } else if (key.kind == Key::Kind::ellipsis) {
      for (int64_t i = tensor.dim() - used; i > 0; --i) full_axis(0, kEnd, 1);
    } else if (key.kind == Key::Kind::slice) {
      key.step > 0 ? full_axis(key.start, key.stop, key.step)
                   : full_axis(key.start == PY_SSIZE_T_MAX ? 0 : -1 - key.start,
                               key.stop == PY_SSIZE_T_MIN ? kEnd : -1 - key.stop, key.step);
    } else if (key.kind == Key::Kind::integer) {
      const Tensor at = on_device(Tensor::scalar(key.at, DType::int64), tensor.device());
      arrays ? add(at) : all.push_back({at, 0, 0});
      ++axis;
    } else if (key.is_mask() && key.array.dim() == 0) {  // of no axis: one zero, or none
      add(nonzero(key.array.unsqueeze(0)).select(1, 0));
      all.back().axis = false;
    } else if (key.is_mask()) {
      const Tensor places = nonzero(key.array);
      for (int d = 0; d < key.array.dim(); ++d, ++axis) add(places.select(1, d));
    } else {
      add(key.array);
      ++axis;
    }
  }
  while (axis < tensor.dim()) full_axis(0, kEnd, 1);
  if (axis == 0) {  // a tensor without dimensions is one of [1] for index_put
    all.push_back({on_device(Tensor::scalar(int64_t{0}, DType::int64), tensor.device()), 0, 0});
  }
  const int64_t at = together && block >= 0 ? block : 0;
  TensorList out, masks;
  for (const One& one : all) {
    Dims shape(static_cast<size_t>(dims + rank), 1);
    const bool of_arrays = one.first < 0;
    const int64_t extra = !of_arrays && one.first >= at ? rank : 0;
    for (int64_t d = 0; d < one.array.dim(); ++d) {
      const int64_t to = of_arrays ? at + rank - one.array.dim() + d : one.first + extra;
      shape[static_cast<size_t>(to)] = one.array.shape()[static_cast<size_t>(d)];
    }
    (one.axis ? out : masks).push_back(one.array.reshape(shape));
  }
  for (const Tensor& mask : masks) out.front() = broadcast_with_mask(out.front(), mask);
  return {out.begin(), out.end()};
}

bool is_recorded_set(const Tensor& tensor, const Source& value, const std::vector<Key>& keys) {
  if (is_symbolic(tensor) || !grad_enabled()) return false;
  for (const Key& key : keys) {
    if (key.kind == Key::Kind::array && is_symbolic(key.array)) return false;
  }
  return tensor.requires_grad() || (value.is_tensor() && value.tensor().requires_grad());
}

void set(const Tensor& tensor, nb::handle key, nb::handle object) {
  const std::vector<Key> keys = read_keys(key, tensor);
  const std::optional<Scalar> number = number_of(object);
  Source value(0);
  if (number) {
    value = Source(*number);
  } else {
    const Tensor array = to_tensor(object, {kOp, "the value"}, Access::read, tensor.dtype());
    const bool list = info_of(object).kind == Kind::sequence;
    value = Source(list ? on_device(array, tensor.device()) : array);
  }
  const Picked picked = Picker(tensor).pick(keys);
  if (is_recorded_set(tensor, value, keys)) {
    const std::vector<Index> arrays = as_arrays(tensor, keys);
    if (value.is_tensor()) {
      int64_t rank = 0;
      for (const Index& array : arrays) rank = std::max<int64_t>(rank, array.keys().dim());
      value = Source(without_leading_ones(value.tensor(), rank));
    }
    index_put_(tensor, arrays, value);
  } else if (!picked.arrays.empty()) {
    put_at(picked, value);
  } else if (number) {
    picked.view.fill_(*number);
  } else {
    picked.view.copy_(without_leading_ones(value.tensor(), picked.view.dim()));
  }
}

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor) {
  tensor
      .def("__getitem__", get, nb::arg("key").none(),
           nb::sig("def __getitem__(self, key: typing.Any, /) -> Tensor"))
      .def(
          "__setitem__", set, nb::arg("key").none(), nb::arg("value").none(),
          nb::sig("def __setitem__(self, key: typing.Any, value: sow._types.ArrayLike, /) -> None"))
      .def(
          "__iter__",
          [](const Tensor& self) {
            if (self.dim() == 0) raise(PyExc_TypeError, "a 0-d tensor cannot be iterated over");
            const int64_t count = known_extent(self, 0, "iter");
            nb::list rows;
            for (int64_t i = 0; i < count; ++i) rows.append(self.select(0, i));
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"));
}

}  // namespace sow::python

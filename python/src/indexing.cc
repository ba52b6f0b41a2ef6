// x[...] and x[...] = v: views for ints and slices, our own gathers and scatters for arrays.
#include <algorithm>
#include <vector>

#include "bind.h"
#include "elements.h"
#include "sow/ops.h"

namespace sow::python {
namespace {

constexpr const char* kOp = "indexing";

bool is_integer_object(nb::handle key) {
  return !PyBool_Check(key.ptr()) && PyIndex_Check(key.ptr()) && !nb::isinstance<Tensor>(key) &&
         info_of(key).kind == Kind::number;
}

std::vector<nb::object> keys_of(nb::handle key) {
  std::vector<nb::object> keys;
  if (!PyTuple_Check(key.ptr())) {
    keys.push_back(nb::borrow(key));
    return keys;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key.ptr()); ++i) {
    keys.push_back(nb::borrow(PyTuple_GET_ITEM(key.ptr(), i)));
  }
  return keys;
}

// The basic part of a key is applied; what is left are the arrays, each at an axis of the view.
struct Picked {
  Tensor view;
  std::vector<Tensor> arrays;
  std::vector<int64_t> axes;

  bool adjacent() const {
    return axes.empty() || axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  }
};

class Picker {
 public:
  explicit Picker(const Tensor& tensor) { picked_.view = tensor; }

  Picked pick(const std::vector<nb::object>& keys) {
    int64_t used = 0, dots = 0;
    for (const nb::object& key : keys) {
      if (key.is(nb::ellipsis()))
        ++dots;
      else if (!key.is_none())
        used += consumed(key);
    }
    if (dots > 1) raise(PyExc_IndexError, "indexing: more than one ellipsis");
    if (used > picked_.view.dim()) {
      raise(PyExc_IndexError, "indexing: " + std::to_string(used) +
                                  " indices for a tensor of shape " +
                                  to_string(picked_.view.shape()));
    }
    const int64_t rest = picked_.view.dim() - used;
    for (const nb::object& key : keys) {
      if (key.is(nb::ellipsis()))
        axis_ += rest;
      else
        apply(key);
    }
    return std::move(picked_);
  }

 private:
  // How many axes a key takes: a mask takes as many as it has.
  int64_t consumed(const nb::object& key) {
    if (PySlice_Check(key.ptr()) || is_integer_object(key)) return 1;
    by_arrays_ = true;
    const Tensor array = to_tensor(key, {kOp, "an index"}, Access::read, DType::int64);
    return array.dtype() == DType::bool_ ? array.dim() : 1;
  }

  void apply(const nb::object& key) {
    Tensor& view = picked_.view;
    if (key.is_none()) {
      Dims shape = view.shape();
      shape.insert(static_cast<size_t>(axis_), 1);
      view = view.reshape(shape);
      ++axis_;
    } else if (is_integer_object(key)) {
      // Beside arrays an int is one of them: it takes part in NumPy's rule about adjacent arrays.
      const int64_t at = position(key);
      if (by_arrays_)
        add_array(Tensor::scalar(at, DType::int64));
      else
        view = view.select(axis_, at);
    } else if (PySlice_Check(key.ptr())) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(key.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
      PySlice_AdjustIndices(view.size(axis_), &start, &stop, step);
      view = sliced(start, stop, step);
      ++axis_;
    } else {
      add_array(to_tensor(key, {kOp, "an index"}, Access::read, DType::int64));
    }
  }

  int64_t position(const nb::object& key) const {
    const int64_t size = picked_.view.size(axis_);
    const int64_t at = parse_integer(key, kOp, "an index");
    if (at < -size || at >= size) {
      const std::string valid =
          size == 0 ? "none" : std::to_string(-size) + " to " + std::to_string(size - 1);
      raise(PyExc_IndexError, "indexing: index " + std::to_string(at) +
                                  " is out of range for axis " + std::to_string(axis_) +
                                  " of size " + std::to_string(size) + " (valid: " + valid + ")");
    }
    return at;
  }

  // Adjusted bounds of a negative step end before the first element, which slice() would wrap
  // around.
  Tensor sliced(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step) const {
    const Tensor& view = picked_.view;
    if (step > 0) return view.slice(axis_, start, std::max(start, stop), step);
    const Py_ssize_t size = view.size(axis_);
    if (start <= stop) return view.slice(axis_, 0, 0);
    return view.flip(axis_).slice(axis_, size - 1 - start, size - 1 - stop, -step);
  }

  void add_array(const Tensor& array) {
    if (array.dtype() != DType::bool_) {
      if (array.dtype() != DType::int64 && array.dtype() != DType::int32) {
        throw Error(ErrorKind::type, std::string("indexing: an index is of ") +
                                         name_of(array.dtype()) +
                                         "; it must be int32, int64 or bool");
      }
      picked_.arrays.push_back(array.dtype() == DType::int64 ? array
                                                             : converted(array, DType::int64, kOp));
      picked_.axes.push_back(axis_++);
      return;
    }
    const Tensor& view = picked_.view;
    for (int i = 0; i < array.dim(); ++i) {
      if (array.size(i) != view.size(axis_ + i)) {
        raise(PyExc_IndexError, "indexing: a mask of shape " + to_string(array.shape()) +
                                    " does not fit a tensor of shape " + to_string(view.shape()));
      }
    }
    const Tensor places = nonzero(array);
    for (int i = 0; i < array.dim(); ++i) {
      picked_.arrays.push_back(places.select(1, i));
      picked_.axes.push_back(axis_++);
    }
    if (array.dim() == 0)
      raise(PyExc_IndexError, "indexing: a mask must have at least one dimension");
  }

  Picked picked_;
  int64_t axis_ = 0;
  bool by_arrays_ = false;
};

// The view with the indexed axes in front, in order.
Tensor indexed_first(const Picked& picked) {
  Dims order;
  for (const int64_t axis : picked.axes) order.push_back(axis);
  for (int64_t axis = 0; axis < picked.view.dim(); ++axis) {
    if (std::find(picked.axes.begin(), picked.axes.end(), axis) == picked.axes.end())
      order.push_back(axis);
  }
  return picked.view.permute(order);
}

Dims common_shape(const std::vector<Tensor>& arrays) {
  Dims shape;
  for (const Tensor& array : arrays) {
    const Dims& other = array.shape();
    Dims joined(std::max(shape.size(), other.size()), 1);
    for (size_t i = 0; i < joined.size(); ++i) {
      const int64_t a = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
      const int64_t b = i < other.size() ? other[other.size() - 1 - i] : 1;
      if (a != b && a != 1 && b != 1) {
        raise(PyExc_IndexError, "indexing: indices of shapes " + to_string(shape) + " and " +
                                    to_string(other) + " do not broadcast together");
      }
      joined[joined.size() - 1 - i] = a == 1 ? b : a;
    }
    shape = joined;
  }
  return shape;
}

// NumPy's rule: the dimensions of adjacent arrays stay where the arrays were, else they come first.
// The order of the result's axes, given one that begins with the `count` indexed ones.
Dims result_order(const Picked& picked, int count, int rank) {
  const int64_t before = picked.adjacent() ? picked.axes.front() : 0;
  Dims order;
  for (int64_t i = 0; i < before; ++i) order.push_back(count + i);
  for (int64_t i = 0; i < count; ++i) order.push_back(i);
  for (int64_t i = count + before; i < rank; ++i) order.push_back(i);
  return order;
}

Tensor stacked(const std::vector<Tensor>& arrays, const Dims& shape) {
  Dims all = shape;
  all.push_back(static_cast<int64_t>(arrays.size()));
  Tensor out = Tensor::empty(all, DType::int64);
  for (size_t i = 0; i < arrays.size(); ++i) {
    out.select(-1, static_cast<int64_t>(i)).copy_(arrays[i].broadcast_to(shape));
  }
  return out;
}

Tensor get(const Tensor& tensor, nb::handle key) {
  const Picked picked = Picker(tensor).pick(keys_of(key));
  if (picked.arrays.empty()) return picked.view;
  const Dims shape = common_shape(picked.arrays);
  const Tensor found = gather_nd(indexed_first(picked), stacked(picked.arrays, shape));
  return found.permute(result_order(picked, shape.rank(), found.dim()));
}

void put_at(const Picked& picked, nb::handle value) {
  const Tensor target = indexed_first(picked);
  std::vector<Index> indices;
  for (const Tensor& array : picked.arrays) indices.emplace_back(array);
  if (const std::optional<Scalar> number = number_of(value)) {
    index_put_(target, indices, *number);
    return;
  }
  const Tensor source = to_tensor(value, {kOp, "the value"}, Access::read, target.dtype());
  const Dims shape = common_shape(picked.arrays);
  Dims whole = shape;
  for (int i = static_cast<int>(picked.axes.size()); i < target.dim(); ++i)
    whole.push_back(target.size(i));
  const Dims order = result_order(picked, shape.rank(), whole.rank());
  Dims seen, back(whole.size(), 0);
  for (size_t i = 0; i < whole.size(); ++i) {
    seen.push_back(whole[static_cast<size_t>(order[i])]);
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  index_put_(target, indices, source.broadcast_to(seen).permute(back));
}

void set(const Tensor& tensor, nb::handle key, nb::handle value) {
  // x[mask] = number, the most frequent form, needs no list of places.
  const std::optional<Scalar> number = number_of(value);
  if (number && !PyTuple_Check(key.ptr()) && nb::isinstance<Tensor>(key)) {
    const Tensor& mask = *nb::inst_ptr<Tensor>(key);
    if (mask.dtype() == DType::bool_ && mask.shape() == tensor.shape()) {
      masked_fill_(tensor, mask, *number);
      return;
    }
  }
  const Picked picked = Picker(tensor).pick(keys_of(key));
  if (!picked.arrays.empty()) {
    put_at(picked, value);
  } else if (number) {
    picked.view.fill_(*number);
  } else {
    picked.view.copy_(to_tensor(value, {kOp, "the value"}, Access::read, tensor.dtype()));
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
            nb::list rows;
            for (int64_t i = 0; i < self.size(0); ++i) rows.append(self.select(0, i));
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"));
}

}  // namespace sow::python

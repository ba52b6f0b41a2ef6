// SPDX-License-Identifier: Apache-2.0
// sow.Tensor: what it shows of itself, and its ways to other libraries.
#include "arrays/dtype.h"
#include "arrays/elements.h"
#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

nb::tuple tuple_of(const Dims& dims) {
  nb::object tuple = nb::steal(PyTuple_New(dims.rank()));
  for (int i = 0; i < dims.rank(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), i, PyLong_FromLongLong(dims[static_cast<size_t>(i)]));
  }
  return nb::cast<nb::tuple>(tuple);
}

nb::object only_element(const Tensor& tensor, const char* op) {
  expect_real(tensor, op);
  if (tensor.numel() != 1) {
    raise(PyExc_ValueError, std::string(op) + ": a tensor of shape " + to_string(tensor.shape()) +
                                " has no single element");
  }
  return object_at(on_host(tensor).data(), tensor.dtype());
}

// The printed elements with commas between them. A complex number may hold a space, so only its end
// counts.
std::string with_commas(const std::string& printed, bool complex) {
  std::string text;
  char last = '[';
  for (size_t i = 0; i < printed.size(); ++i) {
    const char c = printed[i];
    const bool ends = complex ? last == 'j' || last == '.' : last != ' ' && last != '[';
    // Before a bracket a space only pads what comes before it.
    const size_t next = c == ' ' ? printed.find_first_not_of(' ', i) : std::string::npos;
    const bool pads = c == ' ' && (next == std::string::npos || printed[next] == ']');
    if (!pads && (c == '\n' ? last == ']' : c == ' ' && last != '\n' && ends)) text += ',';
    text += c;
    if (c == '\n') text.append(7, ' ');
    last = c;
  }
  return text;
}

std::string repr(const Tensor& tensor) {
  const std::string type = std::string(", dtype=") + name_of(tensor.dtype()) + ")";
  if (is_symbolic(tensor)) return "Tensor(symbolic, shape=" + to_string(tensor.shape()) + type;
  std::string shape;  // of nothing: brackets do not show it
  if (tensor.numel() == 0 && tensor.dim() != 1) {
    shape = ", shape=" + std::string(nb::str(tuple_of(tensor.shape())).c_str());
  }
  return "Tensor(" + with_commas(tensor.to_string(), is_complex(tensor.dtype())) + shape + type;
}

// NumPy's protocol: copy is None where one may be made, and False where none may.
nb::object as_array(const Tensor& tensor, nb::handle dtype, nb::handle copy) {
  expect_real(tensor, "__array__");
  nb::object array = to_numpy(tensor);
  const bool must = !copy.is_none() && nb::cast<bool>(copy);
  if (dtype.is_none()) return must ? nb::object(array.attr("copy")()) : array;
  nb::object other = array.attr("astype")(dtype, nb::arg("copy") = must);
  if (!copy.is_none() && !must && !other.is(array)) {
    raise(PyExc_ValueError, std::string("__array__: a tensor of ") + name_of(tensor.dtype()) +
                                " is no array of another type without a copy");
  }
  return other;
}

nb::object dlpack(const Tensor& tensor, nb::handle stream, nb::handle max_version,
                  nb::handle dl_device, nb::handle copy) {
  expect_real(tensor, "__dlpack__");
  if (tensor.device().type != DeviceType::cpu) let_consumer_wait(stream, tensor.device().index);
  if (!dl_device.is_none()) {
    const int64_t wanted = parse_pair(dl_device, "__dlpack__", "dl_device").first;
    if (tensor.device().type == DeviceType::cpu && wanted != kDlCpu) {
      raise(PyExc_BufferError, "a tensor on cpu cannot be shared with another device");
    }
  }
  bool versioned = false;
  if (!max_version.is_none()) {
    versioned = parse_pair(max_version, "__dlpack__", "max_version").first >= kDlpackMajor;
  }
  const bool duplicate = !copy.is_none() && nb::cast<bool>(copy);
  return to_capsule(duplicate ? tensor.clone() : tensor, versioned);
}

nb::tuple dlpack_device(const Tensor& tensor) {
  const bool cpu = tensor.device().type == DeviceType::cpu;
  return nb::make_tuple(static_cast<int>(cpu ? kDlCpu : kDlCuda), tensor.device().index);
}

// For pickle: the values through a NumPy array, which knows no bfloat16 by itself.
nb::tuple reduced(const Tensor& tensor) {
  expect_real(tensor, "pickle");
  nb::object restore = nb::module_::import_("sow._pickle").attr("restore");
  nb::object values =
      tensor.dtype() == DType::bfloat16 ? to_list(tensor) : to_numpy(on_host(tensor));
  return nb::make_tuple(restore, nb::make_tuple(values, nb::str(name_of(tensor.dtype()))));
}

void expect_layout(const Tensor& tensor, const char* op) {
  if (!is_symbolic(tensor)) return;
  raise(PyExc_ValueError, std::string(op) +
                              ": the tensor is symbolic, and how it lies in memory is known only "
                              "where its program runs");
}

Tensor fully_transposed(const Tensor& tensor) {
  Dims order;
  for (int i = tensor.dim(); i-- > 0;) order.push_back(i);
  return tensor.permute(order);
}

void bind_looks(nb::class_<Tensor>& tensor) {
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& self) { return tuple_of(self.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The extents.")
      .def_prop_ro(
          "strides",
          [](const Tensor& self) {
            expect_layout(self, "strides");
            return tuple_of(self.strides());
          },
          nb::sig("def strides(self) -> tuple[int, ...]"),
          "The steps from one element to the next, in elements.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return dtype_object(self.dtype()); },
          nb::sig("def dtype(self) -> DType"), "The type of the elements.")
      .def_prop_ro(
          "device", [](const Tensor& self) { return nb::str(to_string(self.device()).c_str()); },
          "Where the memory is: \"cpu\" or \"cuda:0\".")
      .def_prop_ro("ndim", &Tensor::dim, "The number of dimensions.")
      .def_prop_ro(
          "size", [](const Tensor& self) { return known_size(self, "size"); },
          "The number of elements.")
      .def_prop_ro(
          "nbytes",
          [](const Tensor& self) {
            known_size(self, "nbytes");
            return self.nbytes();
          },
          "The bytes of all elements.")
      .def_prop_ro("read_only", &Tensor::read_only, "Whether the memory must not be written.")
      .def_prop_ro("T", fully_transposed, "A view with all axes reversed.")
      .def(
          "is_contiguous",
          [](const Tensor& self) {
            expect_layout(self, "is_contiguous");
            return self.is_contiguous();
          },
          "Whether the elements lie in row-major order without gaps.\n\n"
          ">>> sow.zeros([2, 3]).T.is_contiguous()\nFalse")
      .def("__repr__", [](const Tensor& self) { return nb::str(repr(self).c_str()); })
      .def("__str__", [](const Tensor& self) { return nb::str(self.to_string().c_str()); })
      .def("__len__",
           [](const Tensor& self) {
             if (self.dim() == 0) raise(PyExc_TypeError, "len: a 0-d tensor has no length");
             return known_extent(self, 0, "len");
           })
      .def("__bool__", [](const Tensor& self) { return nb::bool_(only_element(self, "bool")); })
      .def("__int__", [](const Tensor& self) { return nb::int_(only_element(self, "int")); })
      .def("__float__", [](const Tensor& self) { return nb::float_(only_element(self, "float")); })
      .def(
          "__complex__",
          [](const Tensor& self) {
            return nb::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyComplex_Type),
                                                 only_element(self, "complex").ptr()));
          },
          nb::sig("def __complex__(self) -> complex"));
}

void bind_copies(nb::class_<Tensor>& tensor) {
  tensor
      .def(
          "numpy",
          [](const Tensor& self) {
            expect_real(self, "numpy");
            return to_numpy(self);
          },
          nb::sig("def numpy(self) -> sow._types.NumpyArray"),
          "The same memory as a NumPy array.\n\n"
          ">>> sow.tensor([1.0, 2.0]).numpy()\narray([1., 2.], dtype=float32)")
      .def("tolist", to_list, nb::sig("def tolist(self) -> typing.Any"),
           "The elements as nested lists.\n\n"
           ">>> sow.tensor([[1, 2], [3, 4]]).tolist()\n[[1, 2], [3, 4]]")
      .def(
          "item", [](const Tensor& self) { return only_element(self, "item"); },
          nb::sig("def item(self) -> typing.Any"),
          "The only element, as a Python number.\n\n"
          ">>> sow.tensor([7]).item()\n7")
      .def("clone", &Tensor::clone,
           "A row-major copy.\n\n>>> sow.arange(3).clone()\nTensor([0, 1, 2], dtype=int64)")
      .def(
          "to",
          [](const Tensor& self, nb::handle device) {
            return on_device(self, parse_device(device, "to"));
          },
          "device"_a, nb::sig("def to(self, device: str) -> Tensor"),
          "The same elements on a device; itself if they are there.\n\n"
          ">>> sow.arange(2).to(\"cpu\").device\n'cpu'")
      .def("contiguous", &Tensor::contiguous,
           "Itself if it is row-major, else a copy that is.\n\n"
           ">>> sow.arange(3).contiguous()\nTensor([0, 1, 2], dtype=int64)")
      .def(
          "astype",
          [](const Tensor& self, nb::handle dtype) {
            return converted(self, parse_dtype(dtype, "astype"), "astype");
          },
          "dtype"_a, nb::sig("def astype(self, dtype: sow._types.DTypeLike) -> Tensor"),
          "A copy in another type; an element that it cannot hold is an error.\n\n"
          ">>> sow.arange(3).astype(\"float32\")\nTensor([0., 1., 2.], dtype=float32)")
      .def(
          "permute",
          [](const Tensor& self, ShapeArg order) {
            return self.permute(parse_shape(order.object, "permute"));
          },
          "order"_a,
          "A view with the axes in another order.\n\n>>> sow.zeros([2, 3]).permute([1, "
          "0]).shape\n(3, 2)")
      .def("flip", &Tensor::flip, "axis"_a,
           "A view with an axis reversed.\n\n>>> sow.arange(3).flip(0)\n"
           "Tensor([2, 1, 0], dtype=int64)")
      .def(
          "copy_",
          [](nb::handle self, ArrayArg source) {
            const Tensor& to = instance<Tensor>(self);
            to.copy_(to_tensor(source.object, {"copy_", "source"}, Access::read, to.dtype()));
            return OwnKind{nb::borrow(self)};
          },
          "source"_a,
          "Copies source, broadcast, into this tensor and returns it.\n\n"
          ">>> sow.zeros([3]).copy_([1.0, 2.0, 3.0])\nTensor([1., 2., 3.], dtype=float32)")
      .def(
          "fill_",
          [](nb::handle self, nb::handle value) {
            const std::optional<Scalar> number = number_of(value);
            if (!number)
              raise(PyExc_TypeError, "fill_: value is " + describe(value) + ", which is no number");
            instance<Tensor>(self).fill_(*number);
            return OwnKind{nb::borrow(self)};
          },
          "value"_a, nb::sig("def fill_(self, value: complex) -> Tensor"),
          "Fills this tensor with one number and returns it.\n\n"
          ">>> sow.zeros([2]).fill_(3)\nTensor([3., 3.], dtype=float32)");
}

}  // namespace

nb::class_<Tensor> bind_tensor(nb::module_& module) {
  PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)},
                         {Py_bf_releasebuffer, reinterpret_cast<void*>(release_export)},
                         {0, nullptr}};
  nb::class_<Tensor> tensor(module, "Tensor", nb::type_slots(slots),
                            "A strided view of memory, shared without a copy with every library "
                            "that speaks DLPack.\n\nMade by sow.tensor, sow.asarray, sow.zeros.");
  bind_looks(tensor);
  bind_copies(tensor);
  tensor
      .def("__array__", as_array, "dtype"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "sow._types.NumpyArray"))
      .def("__dlpack__", dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig(
               "def __dlpack__(self, *, stream: typing.Any = None, max_version: tuple[int, int] | "
               "None = None, "
               "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"))
      .def("__copy__", &Tensor::clone)
      .def(
          "__deepcopy__", [](const Tensor& self, nb::handle) { return self.clone(); },
          nb::sig("def __deepcopy__(self, memo: typing.Any) -> Tensor"))
      .def("__reduce__", reduced, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__dlpack_device__", dlpack_device,
           nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
  tensor.attr("__dlpack_c_exchange_api__") = exchange_table();
  return tensor;
}

}  // namespace sow::python

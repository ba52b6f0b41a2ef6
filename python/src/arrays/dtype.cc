// SPDX-License-Identifier: Apache-2.0
// sow.DType: equal to whatever other libraries call the same type.
#include "arrays/dtype.h"

#include <array>
#include <string_view>

#include "calls/bind.h"

namespace sow::python {
namespace {

std::array<PyObject*, kDTypeCount>& objects() {
  static std::array<PyObject*, kDTypeCount> all{};
  return all;
}

// NumPy's codes of kind and size, in this machine's byte order: "f4", "<i8", "?".
std::optional<DType> dtype_of_code(std::string_view code) {
  static constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"?", DType::bool_},    {"b1", DType::bool_},     {"u1", DType::uint8},
      {"i1", DType::int8},    {"i2", DType::int16},     {"i4", DType::int32},
      {"i8", DType::int64},   {"f2", DType::float16},   {"f4", DType::float32},
      {"f8", DType::float64}, {"c8", DType::complex64}, {"c16", DType::complex128},
      {"u2", DType::uint16},  {"u4", DType::uint32},    {"u8", DType::uint64}};
  if (!code.empty() && (code[0] == '<' || code[0] == '=' || code[0] == '|')) code.remove_prefix(1);
  for (const auto& [known, dtype] : kCodes) {
    if (code == known) return dtype;
  }
  return {};
}

std::optional<DType> dtype_named(std::string_view name) {
  name = name.substr(name.find_last_of('.') + 1);  // "torch.float32"
  if (name == "bool_") name = "bool";
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == name_of(dtype)) return dtype;
  }
  return dtype_of_code(name);
}

std::optional<DType> dtype_of_text(nb::handle text) {
  if (!text.ptr() || !PyUnicode_Check(text.ptr())) return {};
  const char* name = PyUnicode_AsUTF8(text.ptr());
  if (!name) PyErr_Clear();
  return name ? dtype_named(name) : std::nullopt;
}

}  // namespace

std::optional<DType> dtype_of(nb::handle object) {
  if (nb::isinstance<ElementType>(object)) return instance<ElementType>(object).value;
  if (PyUnicode_Check(object.ptr())) return dtype_of_text(object);
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::bool_;
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::int64;
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::float32;
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::complex64;
  if (PyType_Check(object.ptr())) return dtype_of_text(attribute_of(object, "__name__"));
  if (std::optional<DType> named = dtype_of_text(attribute_of(object, "name"))) return named;
  nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text) forget_error();
  return dtype_of_text(text);
}

DType parse_dtype(nb::handle object, const char* op, DType fallback) {
  if (object.is_none()) return fallback;
  if (std::optional<DType> dtype = dtype_of(object)) return *dtype;
  raise(PyExc_TypeError,
        std::string(op) +
            ": dtype names none of sow's types (bool, uint8 to uint64, int8 to int64, float16, "
            "bfloat16, float32, float64, complex64, complex128)");
}

nb::object dtype_object(DType dtype) { return nb::borrow(objects()[static_cast<size_t>(dtype)]); }

void bind_dtypes(nb::module_& module) {
  nb::class_<ElementType>(module, "DType", "The type of a tensor's elements.")
      .def_prop_ro("name", [](const ElementType& self) { return nb::str(name_of(self.value)); })
      .def_prop_ro("itemsize", [](const ElementType& self) { return size_of(self.value); })
      .def("__repr__",
           [](const ElementType& self) {
             return nb::str((std::string("sow.") + name_of(self.value)).c_str());
           })
      .def("__str__", [](const ElementType& self) { return nb::str(name_of(self.value)); })
      .def(
          "__reduce__",
          [](const ElementType& self) {
            return nb::str(self.value == DType::bool_ ? "bool_" : name_of(self.value));
          },
          nb::sig("def __reduce__(self) -> str"))
      .def("__hash__", [](const ElementType& self) { return static_cast<int64_t>(self.value); })
      .def(
          "__eq__",
          [](const ElementType& self, nb::handle other) {
            const std::optional<DType> dtype = dtype_of(other);
            return dtype && *dtype == self.value;
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    nb::object object = nb::cast(ElementType{dtype});
    module.attr(dtype == DType::bool_ ? "bool_" : name_of(dtype)) = object;
    objects()[static_cast<size_t>(i)] = object.release().ptr();
  }
}

}  // namespace sow::python

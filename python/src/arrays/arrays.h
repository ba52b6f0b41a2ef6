// SPDX-License-Identifier: Apache-2.0
// What an argument is, and how it becomes a Tensor without a copy and a result becomes its kind.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "arrays/dlpack_abi.h"
#include "calls/gil.h"
#include "sow/sow.h"

namespace sow::python {

namespace nb = nanobind;

// The libraries whose arrays are told apart; `dlpack` and `buffer` are anybody's.
enum class Kind : uint8_t {
  tensor,
  numpy,
  torch,
  jax,
  cupy,
  paddle,
  dlpack,
  buffer,
  sequence,
  number,
  other
};

// What a Python type is. `exchange` is its C table, where it has one.
struct TypeInfo {
  Kind kind = Kind::other;
  const DlExchange* exchange = nullptr;
  bool exact = false;   // the library's own class, not one derived from it
  bool traced = false;  // stands for arrays that only its library can read
};
TypeInfo info_of(nb::handle object);

// The name an error gives to an object: "a jax.Array", "a list".
std::string describe(nb::handle object);

// For messages: which operation, which of its arguments.
struct Site {
  const char* op;
  const char* argument;
};

enum class Access : uint8_t { read, write };

// The array behind any object, viewed where that is possible and copied where it is only read.
// `hint` is the type of a Python number, and of an empty list. Where `carried` is given, elements
// of types that sow does not have (uint16 to uint64, float8, dates) come as integers of their size,
// and it gets the name of their type.
Tensor to_tensor(nb::handle object, Site site, Access access, std::optional<DType> hint = {},
                 std::string* carried = nullptr);
// A list or a number whose elements take this type, if it holds them.
Tensor list_as(nb::handle object, Site site, DType dtype);

// A result as the kind of `like` (whose type is `info`); Tensors for what is no array itself.
nb::object from_tensor(const Tensor& tensor, nb::handle like, const TypeInfo& info);

// Tells the library that owns `object` that its memory was written.
void mark_written(nb::handle object, const TypeInfo& info);

// The same from any thread and without exceptions.
void note_written(nb::handle object, const TypeInfo& info) noexcept;

// Lets go of a Python object from any thread, and not at all once the interpreter has ended.
void release_object(PyObject* object) noexcept;
// From the interpreter's end on, release_object does nothing.
void watch_interpreter_end();

// -- one file a way in or out
// ------------------------------------------------------------------------
std::optional<Scalar> number_of(nb::handle object);  // a Python or NumPy number, else nothing
DType natural_type(const Scalar& number);            // what a list of such numbers becomes
bool is_numpy_scalar(PyTypeObject* type);
Tensor from_sequence(nb::handle object, Site site, std::optional<DType> hint);
Tensor from_buffer(nb::handle object, Site site, Access access);
// The buffer protocol of sow.Tensor, for memory of the CPU in types that it has a format for.
int export_buffer(PyObject* object, Py_buffer* view, int flags);
void release_export(PyObject* object, Py_buffer* view);
Tensor from_numpy(nb::handle object, Site site, Access access, std::string* carried = nullptr);
bool is_ndarray(PyObject* type);  // numpy.ndarray itself
Tensor from_dlpack(nb::handle object, const TypeInfo& info, Site site, Access access,
                   std::string* carried = nullptr);
Tensor from_jax(nb::handle object, const TypeInfo& info, Site site);
nb::object to_jax(const Tensor& tensor);
nb::object to_numpy(const Tensor& tensor, nb::handle like = {});
nb::object to_capsule(const Tensor& tensor, bool versioned);
DlVersioned* to_versioned(const Tensor& tensor);  // the caller owns it
std::optional<DType> type_of(DlType type);        // none for one that sow has not
DlType dl_type(DType dtype);
nb::object exchange_table();  // of sow.Tensor, in a capsule

// A view of memory that `owner` keeps alive; takes a new reference to it.
Tensor wrap_owned(void* data, DType dtype, Dims shape, const Dims& strides, Device device,
                  bool read_only, PyObject* owner);

// Raises a Python exception of this class with this message.
[[noreturn]] void raise(PyObject* type, const std::string& message);

// Goes on without what Python was asked for and did not give. Only errors are forgotten: an
// interrupt, or an exit, that came while it was asked is raised.
void forget_error();
// The attribute, or null where it cannot be had.
nb::object attribute_of(nb::handle object, const char* name);
inline bool has_attribute(nb::handle object, const char* name) {
  return attribute_of(object, name).is_valid();
}

// What an object of one of sow's own classes holds. One that was made by __new__ alone, or by a
// subclass that forgot super().__init__(), holds nothing yet.
[[noreturn]] void raise_uninitialised(nb::handle object);
template <class T>
T& instance(nb::handle object) {
  if (!nb::inst_ready(object)) raise_uninitialised(object);
  return *nb::inst_ptr<T>(object);
}

// Whether elements of this type may lie here.
inline bool is_aligned(const void* data, DType dtype) {
  const size_t alignment = size_of(dtype) / (is_complex(dtype) ? 2 : 1);
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace sow::python

// SPDX-License-Identifier: Apache-2.0
// DLPack in and out: capsules for everybody, the C table where a library has one.
#include <algorithm>
#include <cstring>
#include <memory>

#include "calls/dispatch.h"
#include "calls/shortcut.h"
#include "runtime/streams.h"

namespace sow::python {

std::optional<DType> type_of(DlType type) {
  if (type.lanes != 1) return {};
  switch (type.code) {
    case kDlBool:
      return type.bits == 8 ? std::optional(DType::bool_) : std::nullopt;
    case kDlUint:
      if (type.bits == 8) return DType::uint8;
      if (type.bits == 16) return DType::uint16;
      if (type.bits == 32) return DType::uint32;
      if (type.bits == 64) return DType::uint64;
      return {};
    case kDlBfloat:
      return type.bits == 16 ? std::optional(DType::bfloat16) : std::nullopt;
    case kDlInt:
      if (type.bits == 8) return DType::int8;
      if (type.bits == 16) return DType::int16;
      if (type.bits == 32) return DType::int32;
      if (type.bits == 64) return DType::int64;
      return {};
    case kDlFloat:
      if (type.bits == 16) return DType::float16;
      if (type.bits == 32) return DType::float32;
      if (type.bits == 64) return DType::float64;
      return {};
    case kDlComplex:
      if (type.bits == 64) return DType::complex64;
      if (type.bits == 128) return DType::complex128;
      return {};
    default:
      return {};
  }
}

DlType dl_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * size_of(dtype));
  if (dtype == DType::bool_) return {kDlBool, 8, 1};
  if (is_unsigned(dtype)) return {kDlUint, bits, 1};
  if (dtype == DType::bfloat16) return {kDlBfloat, 16, 1};
  if (is_integer(dtype)) return {kDlInt, bits, 1};
  return {is_complex(dtype) ? kDlComplex : kDlFloat, bits, 1};
}

namespace {

// What moves elements of a type that sow does not have, and that type's name.
struct Carrier {
  DType dtype;
  std::string name;
};
std::optional<Carrier> carrier_of(DlType type) {
  static constexpr const char* kEightBits[] = {
      "float8_e3m4",     "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
      "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",    "float8_e8m0fnu"};
  constexpr int kFirst = 7;
  if (type.lanes != 1) return {};
  const int at = type.code - kFirst;
  if (type.bits != 8 || at < 0 || at >= static_cast<int>(std::size(kEightBits))) return {};
  return Carrier{DType::int8, kEightBits[at]};
}

[[noreturn]] void refuse(PyObject* type, Site site, nb::handle object, const std::string& rule) {
  raise(type, std::string(site.op) + ": " + site.argument + " is " + describe(object) + rule);
}

constexpr int kMostDimensions = 64;  // as in NumPy and PyTorch

DType checked_type(DlType type, Site site, nb::handle object, std::string* carried) {
  if (const std::optional<DType> dtype = type_of(type)) return *dtype;
  if (const std::optional<Carrier> carrier = carrier_of(type)) {
    if (carried == nullptr) {
      refuse(
          PyExc_TypeError, site, object,
          " of " + carrier->name + ", which is none of sow's types, and this does not only move");
    }
    *carried = carrier->name;
    return carrier->dtype;
  }
  refuse(PyExc_TypeError, site, object,
         " whose elements (DLPack code " + std::to_string(type.code) + ", " +
             std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) +
             " lanes) are none of sow's types");
}

Device checked_device(DlDevice device, Site site, nb::handle object) {
  if (device.type == kDlCpu || device.type == kDlCudaHost) return {};
  if (device.type != kDlCuda && device.type != kDlCudaManaged)
    refuse(PyExc_RuntimeError, site, object, " on a device that sow does not know");
  if (device.id < 0) refuse(PyExc_RuntimeError, site, object, " on a device below 0");
  return {DeviceType::cuda, device.id};
}

// Elements one by one, for what is not aligned.
void gather_bytes(const char* from, const DlTensor& source, const Dims& strides, int axis,
                  size_t size, char*& to) {
  if (axis == source.ndim) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  for (int64_t i = 0; i < source.shape[axis]; ++i) {
    gather_bytes(from + i * strides[axis] * static_cast<int64_t>(size), source, strides, axis + 1,
                 size, to);
  }
}

// A view of what a DlTensor describes, kept alive by `owner`; a copy of what is not aligned. Of
// the description everything is checked but whether the memory is there.
Tensor view(const DlTensor& source, bool read_only, nb::handle owner, Site site, nb::handle object,
            Access access, std::string* carried) {
  const DType dtype = checked_type(source.dtype, site, object, carried);
  const Device device = checked_device(source.device, site, object);
  if (source.ndim < 0 || source.ndim > kMostDimensions) {
    refuse(PyExc_ValueError, site, object,
           " of " + std::to_string(source.ndim) + " dimensions; DLPack arrays may have 0 to " +
               std::to_string(kMostDimensions));
  }
  if (source.ndim > 0 && source.shape == nullptr)
    refuse(PyExc_ValueError, site, object, " without a shape");
  const auto rank = static_cast<size_t>(source.ndim);
  Dims shape(source.shape, rank);
  const auto start = reinterpret_cast<uintptr_t>(source.data);
  if (start + source.byte_offset < start)
    refuse(PyExc_ValueError, site, object, " whose byte_offset leads out of memory");
  // Nothing lies at an offset from nowhere; an array without elements may be there.
  char* data = source.data ? static_cast<char*>(source.data) + source.byte_offset : nullptr;
  Dims strides;
  if (source.strides) {
    strides = Dims(source.strides, rank);
  } else {
    strides.resize(rank);
    int64_t step = 1;
    for (size_t i = rank; i-- > 0;) {
      strides[i] = step;
      // What overflows here is refused for its size.
      if (__builtin_mul_overflow(step, std::max<int64_t>(shape[i], 1), &step)) step = 1;
    }
  }
  const bool aligned = is_aligned(data, dtype);
  if (!aligned && (access == Access::write || device.type != DeviceType::cpu))
    refuse(PyExc_ValueError, site, object, " whose elements are not aligned in memory");
  try {
    // Of bytes, which may lie anywhere: what else is wrong with the layout is found here.
    if (!aligned) {
      Tensor copy = Tensor::empty(shape, dtype);
      char* to = static_cast<char*>(copy.data());
      wrap_owned(data, dtype, shape, strides, device, read_only, owner.ptr());
      if (copy.numel() != 0) gather_bytes(data, source, strides, 0, size_of(dtype), to);
      return copy;
    }
    return wrap_owned(data, dtype, std::move(shape), strides, device, read_only, owner.ptr());
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(site.op) + ": " + site.argument + " is " +
                                  describe(object) + ": " + error.what());
  }
}

void release_versioned(PyObject* capsule) {
  auto* managed = static_cast<DlVersioned*>(PyCapsule_GetPointer(capsule, nullptr));
  if (managed->deleter) managed->deleter(managed);
}

void release_managed(PyObject* capsule) {
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, nullptr));
  if (managed->deleter) managed->deleter(managed);
}

// The stream on which the memory must be ready: where the call will run. None for memory of the
// host.
nb::object wanted_stream(nb::handle object, const TypeInfo& info) {
  nb::object device = nb::steal(PyObject_CallMethod(object.ptr(), "__dlpack_device__", nullptr));
  int type = 0, at = 0;
  if (!device || !PyTuple_Check(device.ptr()) ||
      !PyArg_ParseTuple(device.ptr(), "ii", &type, &at)) {
    forget_error();
    return nb::none();
  }
  if (type != kDlCuda) return nb::none();
  const std::optional<void*> own =
      stream_is_chosen() ? std::nullopt : library_stream(object, info, at);
  if (!own) return nb::int_(stream_number(at));
  return nb::int_(*own == nullptr ? 1 : reinterpret_cast<int64_t>(*own));
}

// Asks for a capsule; libraries older than DLPack 1.0 do not know the argument. What a foreign
// method raises becomes the cause of our own error.
nb::object request_capsule(nb::handle object, const TypeInfo& info, Site site) {
  nb::object call = attribute_of(object, "__dlpack__");
  if (!call.is_valid()) refuse(PyExc_TypeError, site, object, ", whose memory it does not show");
  try {
    nb::object version = nb::make_tuple(kDlpackMajor, kDlpackMinor);
    nb::object stream = wanted_stream(object, info);
    try {
      if (!stream.is_none())
        return call(nb::arg("max_version") = version, nb::arg("stream") = stream);
      return call(nb::arg("max_version") = version);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
    return stream.is_none() ? call() : call(nb::arg("stream") = stream);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt
    nb::raise_from(error, PyExc_TypeError, "%s: %s is %s, whose memory it does not show: %s",
                   site.op, site.argument, describe(object).c_str(),
                   nb::str(error.value()).c_str());
  }
}

Tensor from_capsule(nb::handle object, const TypeInfo& info, Site site, Access access,
                    std::string* carried) {
  nb::object capsule = request_capsule(object, info, site);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed =
        static_cast<DlVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != kDlpackMajor) {
      refuse(PyExc_TypeError, site, object, " of a DLPack version that sow does not know");
    }
    nb::object owner = nb::steal(PyCapsule_New(managed, nullptr, release_versioned));
    if (!owner) throw nb::python_error();
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    const bool read_only = (managed->flags & kDlReadOnly) != 0 || info.kind == Kind::jax;
    if (access == Access::write) {
      if (read_only) refuse(PyExc_ValueError, site, object, " that is read-only");
      if (managed->flags & kDlCopied)
        refuse(PyExc_ValueError, site, object, " that lends only a copy of its memory");
    }
    return view(managed->tensor, read_only, owner, site, object, access, carried);
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    refuse(PyExc_TypeError, site, object, ", whose __dlpack__ gave no DLPack capsule");
  }
  // Such a capsule cannot say "read-only": only libraries whose arrays are known to be writable are
  // written to.
  const bool read_only = info.kind == Kind::jax || info.kind == Kind::dlpack;
  if (access == Access::write && read_only) {
    refuse(PyExc_ValueError, site, object,
           " whose DLPack capsule, older than version 1.0, does not say that it may be written; "
           "use the out-of-place form");
  }
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  nb::object owner = nb::steal(PyCapsule_New(managed, nullptr, release_managed));
  if (!owner) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return view(managed->tensor, read_only, owner, site, object, access, carried);
}

// What a class says of a name, where it says it itself: asking the class's own descriptor spares
// the look through all classes that it is derived from. Looked up once; null where there is none.
struct Answer {
  PyObject* name;
  PyTypeObject* type = nullptr;
  PyObject* descriptor = nullptr;

  PyObject* of(nb::handle object, const TypeInfo& info) {
    if (!info.exact) return nullptr;
    if (type == nullptr) {
      type = Py_TYPE(object.ptr());  // known, and so kept
      descriptor = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name);
      forget_error();
    }
    return type == Py_TYPE(object.ptr()) ? descriptor : nullptr;
  }
};

bool attribute_is(nb::handle object, const TypeInfo& info, Answer& answer, PyObject* value) {
  PyObject* own = answer.of(object, info);
  const descrgetfunc get = own ? Py_TYPE(own)->tp_descr_get : nullptr;
  nb::object found =
      nb::steal(get ? get(own, object.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())))
                    : PyObject_GetAttr(object.ptr(), answer.name));
  if (!found) forget_error();
  return found.ptr() == value;
}

bool method_is_true(nb::handle object, const TypeInfo& info, Answer& answer) {
  PyObject* self = object.ptr();
  PyObject* own = answer.of(object, info);
  nb::object found = nb::steal(own ? PyObject_Vectorcall(own, &self, 1, nullptr)
                                   : PyObject_CallMethodNoArgs(self, answer.name));
  if (!found) forget_error();
  return found.ptr() == Py_True;
}

bool may_differentiate(DlType type) {
  return type.code == kDlFloat || type.code == kDlBfloat || type.code == kDlComplex;
}

// A function of torch that takes nothing and tells one thing of this thread; null if there is none.
nb::handle torch_function(const char* module, const char* name) {
  return nb::object(nb::getattr(nb::module_::import_(module), name, nb::object())).release();
}

nb::object ask(nb::handle function) {
  nb::object answer =
      function.is_valid() ? nb::steal(PyObject_CallNoArgs(function.ptr())) : nb::object();
  if (!answer) forget_error();
  return answer;
}

// Inside of a forward_ad.dual_level() a tensor may carry a tangent.
bool is_forward_mode() {
  static nb::handle names =
      nb::object(nb::module_::import_("torch.autograd.forward_ad").attr("__dict__")).release();
  static PyObject* level = PyUnicode_InternFromString("_current_level");
  PyObject* now = PyDict_GetItem(names.ptr(), level);
  if (now == nullptr || !PyLong_Check(now) || PyLong_AsLong(now) < 0) return false;
  static nb::handle enabled = torch_function("torch._C", "_is_fwd_grad_enabled");
  return ask(enabled).ptr() != Py_False;
}

// A mode (fake tensors, make_fx, a counter of operations) wants to see every operation of torch.
bool is_watched() {
  static nb::handle depth = torch_function("torch._C", "_len_torch_dispatch_stack");
  nb::object answer = ask(depth);
  return answer.is_valid() && PyLong_Check(answer.ptr()) && PyLong_AsLong(answer.ptr()) > 0;
}

bool requires_gradient(nb::handle object, const TypeInfo& info) {
  static Answer requires_grad{PyUnicode_InternFromString("requires_grad")};
  static Answer stop_gradient{PyUnicode_InternFromString("stop_gradient")};
  return info.kind == Kind::paddle ? attribute_is(object, info, stop_gradient, Py_False)
                                   : attribute_is(object, info, requires_grad, Py_True);
}

bool wants_gradient(nb::handle object, const TypeInfo& info) {
  if (requires_gradient(object, info)) return is_recording(info.kind);
  return info.kind == Kind::torch && is_forward_mode();
}

// Gradients are not looked at by the C tables, and lost by DLPack.
void check_gradient(nb::handle object, const TypeInfo& info, Site site) {
  if (wants_gradient(object, info)) {
    refuse(PyExc_RuntimeError, site, object,
           " that requires a gradient, which sow would not see; pass detach() of it");
  }
}

// torch may negate or conjugate a tensor by setting a bit that DLPack does not carry.
bool is_lazy(nb::handle object, const TypeInfo& info, DlType type) {
  static Answer is_neg{PyUnicode_InternFromString("is_neg")};
  static Answer is_conj{PyUnicode_InternFromString("is_conj")};
  return method_is_true(object, info, is_neg) ||
         (type.code == kDlComplex && method_is_true(object, info, is_conj));
}

struct Shared {  // what a DLPack consumer holds
  Tensor tensor;
  Dims shape, strides;
};

DlTensor describe_tensor(Shared& shared) {
  const Tensor& tensor = shared.tensor;
  const bool cpu = tensor.device().type == DeviceType::cpu;
  const DlDevice device{cpu ? kDlCpu : kDlCuda, tensor.device().index};
  return {tensor.data(),         device, tensor.dim(), dl_type(tensor.dtype()), shared.shape.data(),
          shared.strides.data(), 0};
}

template <class Managed>
Managed* share(const Tensor& tensor) {
  auto shared = std::unique_ptr<Shared>(new Shared{tensor, tensor.shape(), tensor.strides()});
  auto* managed = new Managed{};
  managed->tensor = describe_tensor(*shared);
  managed->context = shared.release();
  managed->deleter = [](Managed* self) {
    delete static_cast<Shared*>(self->context);
    delete self;
  };
  return managed;
}

template <class Managed>
void drop_unused(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // the consumer renamed it and owns it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

}  // namespace

Tensor from_dlpack(nb::handle object, const TypeInfo& info, Site site, Access access,
                   std::string* carried) {
  DlTensor borrowed{nullptr, {kDlCpu, 0}, 0, {kDlComplex, 0, 1}, nullptr, nullptr, 0};
  if (info.exchange && info.exchange->borrow_from_object(object.ptr(), &borrowed) != 0) {
    nb::python_error error;
    if (!error.matches(PyExc_Exception)) throw nb::python_error(error);
    nb::raise_from(error, PyExc_TypeError, "%s: %s is %s, whose memory it does not show: %s",
                   site.op, site.argument, describe(object).c_str(),
                   nb::str(error.value()).c_str());
  }
  if ((info.kind == Kind::torch || info.kind == Kind::paddle) &&
      may_differentiate(borrowed.dtype)) {
    check_gradient(object, info, site);
    // Capsules of such arrays are refused even under no_grad.
    if (!info.exchange && requires_gradient(object, info)) {
      nb::object detached = object.attr("detach")();
      return from_dlpack(detached, info, site, access, carried);
    }
    if (info.kind == Kind::torch && is_lazy(object, info, borrowed.dtype)) {
      if (access == Access::write) {
        refuse(PyExc_ValueError, site, object, " that is negated or conjugated only when read");
      }
      nb::object resolved = object.attr("resolve_conj")().attr("resolve_neg")();
      return from_dlpack(resolved, info, site, access, carried);
    }
  }
  return info.exchange ? view(borrowed, false, object, site, object, access, carried)
                       : from_capsule(object, info, site, access, carried);
}

bool is_recorded(nb::handle object, const TypeInfo& info) {
  if (info.traced) return true;
  if (info.kind != Kind::torch && info.kind != Kind::paddle) return false;
  if (wants_gradient(object, info)) return true;
  if (info.kind != Kind::torch) return false;
  if (is_watched()) return true;
  // What torch.func makes of a tensor has no memory of its own.
  DlTensor seen{};
  if (info.exchange == nullptr || info.exchange->borrow_from_object(object.ptr(), &seen) == 0) {
    return false;
  }
  forget_error();
  return true;
}

void add_dlpack(nb::handle object, const TypeInfo& info, Fingerprint& print) {
  DlTensor seen{};
  if (info.exchange->borrow_from_object(object.ptr(), &seen) != 0) {
    forget_error();
    return print.spoil();
  }
  const bool cuda = seen.device.type == kDlCuda;
  if ((seen.device.type != kDlCpu && !cuda) || seen.strides == nullptr || seen.ndim < 0 ||
      seen.ndim > 32) {
    return print.spoil();
  }
  if (!type_of(seen.dtype)) return print.spoil();
  const int device = cuda ? seen.device.id : Fingerprint::kCpu;
  print.add_layout(int64_t{1} << 61 | int64_t{device + 1} << 48 | int64_t{seen.dtype.lanes} << 32 |
                       int64_t{seen.dtype.bits} << 24 | int64_t{seen.dtype.code} << 16 | seen.ndim,
                   seen.ndim, seen.shape, seen.strides,
                   static_cast<char*>(seen.data) + seen.byte_offset, device);
  if (!print.good()) return;
  if (print.arrays() == 1 && info.kind == Kind::torch && is_watched()) return print.spoil();
  if (!may_differentiate(seen.dtype)) return;
  if (wants_gradient(object, info)) return print.spoil_recorded();
  if (info.kind == Kind::torch && is_lazy(object, info, seen.dtype)) print.spoil();
}

DlVersioned* to_versioned(const Tensor& tensor) {
  auto* managed = share<DlVersioned>(tensor);
  managed->version = {kDlpackMajor, kDlpackMinor};
  managed->flags = tensor.read_only() ? kDlReadOnly : 0;
  return managed;
}

nb::object to_capsule(const Tensor& tensor, bool versioned) {
  PyObject* capsule;
  if (versioned) {
    DlVersioned* managed = to_versioned(tensor);
    capsule = PyCapsule_New(managed, "dltensor_versioned", [](PyObject* self) {
      drop_unused<DlVersioned>(self, "dltensor_versioned");
    });
    if (!capsule) managed->deleter(managed);
  } else {
    if (tensor.read_only()) {
      raise(PyExc_BufferError,
            "a read-only tensor cannot be shared with a library older than DLPack 1.0");
    }
    auto* managed = share<DlManaged>(tensor);
    capsule = PyCapsule_New(managed, "dltensor",
                            [](PyObject* self) { drop_unused<DlManaged>(self, "dltensor"); });
    if (!capsule) managed->deleter(managed);
  }
  if (!capsule) throw nb::python_error();
  return nb::steal(capsule);
}

}  // namespace sow::python

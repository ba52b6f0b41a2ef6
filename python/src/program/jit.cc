// SPDX-License-Identifier: Apache-2.0
// Traced functions (sow.jit): a call whose arguments differ in structure, types, extents or values
// that are no arrays records a program, later ones run it.
#include <algorithm>
#include <memory>
#include <mutex>

#include "program/jit_key.h"
#include "program/program.h"

namespace sow::python {
namespace {

using namespace nb::literals;

// A trace keeps some 8 KB and its plans; recording one takes about a millisecond at most.
constexpr size_t kMaxTraces = 256;

struct Trace {
  std::string bits;  // of the call that was recorded, with the objects that it names
  std::vector<nb::object> objects;
  std::unique_ptr<CompiledProgram> program;
  std::unique_ptr<Program> source;
  nb::object result;  // what the function returned, with symbolic tensors where arrays belong
  size_t results = 0;
};

using TracePtr = std::shared_ptr<Trace>;

// The traces of a function, the one used last first. No Python code runs while the lock is held:
// comparing, recording and letting go of objects all may call back, or let another thread in.
class Traces {
 public:
  // `seen`: how many were ever kept until now.
  TracePtr find(const CallKey& key, uint64_t& seen) {
    std::vector<TracePtr> alike;
    {
      const std::lock_guard lock(mutex_);
      seen = kept_;
      for (size_t i = 0; i < traces_.size(); ++i) {
        if (traces_[i]->bits != key.bits) continue;
        if (key.objects.empty()) return to_front(i);
        alike.push_back(traces_[i]);
      }
    }
    for (const TracePtr& trace : alike) {
      if (!same_objects(trace->objects, key.objects)) continue;
      const std::lock_guard lock(mutex_);
      const auto at = std::find(traces_.begin(), traces_.end(), trace);
      if (at != traces_.end()) to_front(static_cast<size_t>(at - traces_.begin()));
      return trace;
    }
    return nullptr;
  }

  // Unless others were kept since `seen`, which may be the same.
  bool keep(const TracePtr& trace, uint64_t seen) {
    TracePtr dropped;  // after the lock
    const std::lock_guard lock(mutex_);
    if (kept_ != seen) return false;
    ++kept_;
    if (traces_.size() == kMaxTraces) {
      dropped = std::move(traces_.back());
      traces_.pop_back();
    }
    traces_.insert(traces_.begin(), trace);
    return true;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return traces_.size();
  }

 private:
  TracePtr to_front(size_t i) {
    const auto at = traces_.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(traces_.begin(), at, at + 1);
    return traces_.front();
  }

  mutable std::mutex mutex_;
  std::vector<TracePtr> traces_;
  uint64_t kept_ = 0;
};

// Symbolic inputs in the places of the arrays of a call.
class Inputs {
 public:
  Inputs(Program& program, const CallKey& key, bool dynamic)
      : program_(program), key_(key), dynamic_(dynamic) {}

  // An argument with every array in it replaced; `name` is for the inputs that these become.
  nb::object replace(nb::handle argument, const std::string& name) {
    size_t inner = 0;
    const bool whole = form_of(argument) == Form::array;
    return rebuild(argument, [&](nb::handle object, Form form) -> nb::object {
      if (form == Form::set && PySet_Check(object.ptr())) return nb::steal(PySet_New(object.ptr()));
      if (form != Form::array) return nb::borrow(object);
      return input(whole ? name : name + "[" + std::to_string(inner++) + "]");
    });
  }

  void expect_all_used() const {
    if (next_ != key_.feeds.size()) changed();
  }

 private:
  nb::object input(std::string name) {
    if (next_ == key_.feeds.size()) changed();
    const Tensor& tensor = key_.feeds[next_++];
    std::vector<Extent> shape;
    for (const int64_t extent : tensor.shape()) shape.emplace_back(dynamic_ ? -1 : extent);
    const std::vector<std::string> names = program_.input_names();
    const auto taken = [&] { return std::find(names.begin(), names.end(), name) != names.end(); };
    while (name.empty() || taken()) name += "'";
    return nb::cast(program_.input(name, tensor.dtype(), shape, tensor.device()));
  }

  [[noreturn]] static void changed() {
    raise(PyExc_RuntimeError, "jit: an argument was changed while the function was recorded");
  }

  Program& program_;
  const CallKey& key_;
  bool dynamic_;
  size_t next_ = 0;
};

class Jit {
 public:
  Jit(nb::object function, bool dynamic) : function_(std::move(function)), dynamic_(dynamic) {}

  nb::object call(nb::args args, nb::kwargs kwargs) {
    const CallKey key(args, kwargs, dynamic_);
    if (key.inside_another) return function_(*args, **kwargs);
    const TracePtr trace = find(key, args, kwargs);
    TensorList results(trace->results);
    const nb::handle like = key.like.is_valid() ? nb::handle(key.like) : nb::handle(Py_None);
    const TypeInfo info = info_of(like);
    {
      const OwnersStream stream(key.feeds, like, info);
      run_program(*trace->program, key.feeds, results);
    }
    size_t next = 0;
    return rebuild(trace->result, [&](nb::handle object, Form form) {
      return form == Form::array ? from_tensor(results[next++], like, info) : nb::borrow(object);
    });
  }

  std::string explain(nb::args args, nb::kwargs kwargs) {
    const CallKey key(args, kwargs, dynamic_);
    std::vector<Dims> shapes;
    for (const Tensor& feed : key.feeds) shapes.push_back(feed.shape());
    return find(key, args, kwargs)->program->explain(shapes);
  }

  Program program(nb::args args, nb::kwargs kwargs) {
    return *find(CallKey(args, kwargs, dynamic_), args, kwargs)->source;
  }

  size_t traces() const { return traces_.size(); }

 private:
  TracePtr find(const CallKey& key, const nb::args& args, const nb::kwargs& kwargs) {
    uint64_t seen = 0;
    if (TracePtr trace = traces_.find(key, seen)) return trace;
    const TracePtr trace = record(key, args, kwargs);
    // Another thread, or the function itself, may have recorded the same meanwhile.
    while (!traces_.keep(trace, seen)) {
      if (TracePtr other = traces_.find(key, seen)) return other;
    }
    return trace;
  }

  static std::string name_of(nb::handle keyword) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(keyword.ptr(), &size);
    if (text == nullptr) PyErr_Clear();
    return text == nullptr ? "argument" : std::string(text, static_cast<size_t>(size));
  }

  TracePtr record(const CallKey& key, const nb::args& args, const nb::kwargs& kwargs) const {
    auto trace = std::make_shared<Trace>();
    Program program;
    Inputs inputs(program, key, dynamic_);
    nb::list positional;
    nb::dict named;
    for (size_t i = 0; i < args.size(); ++i) {
      positional.append(
          inputs.replace(PyTuple_GET_ITEM(args.ptr(), i), "argument " + std::to_string(i)));
    }
    if (kwargs.size() != 0) {
      for (auto [name, object] : kwargs) named[name] = inputs.replace(object, name_of(name));
    }
    inputs.expect_all_used();
    const nb::object tuple = nb::steal(PyList_AsTuple(positional.ptr()));
    const nb::object result = nb::steal(PyObject_Call(function_.ptr(), tuple.ptr(), named.ptr()));
    if (!result) throw nb::python_error();
    trace->result = rebuild(result, [&](nb::handle object, Form form) {
      return add_result(program, object, form, trace->results);
    });
    if (trace->results == 0) {
      raise(PyExc_ValueError, "jit: the function returned no array, so there is nothing to run");
    }
    trace->program = std::make_unique<CompiledProgram>(program);
    trace->source = std::make_unique<Program>(program);
    trace->bits = key.bits;
    trace->objects = key.objects;
    return trace;
  }

  nb::object add_result(Program& program, nb::handle object, Form form, size_t& count) const {
    const bool number = PyLong_Check(object.ptr()) || PyFloat_Check(object.ptr());
    if (form == Form::plain && !(dynamic_ && number)) return nb::borrow(object);
    if (form == Form::plain || form == Form::numpy_scalar) {
      if (dynamic_) {
        raise(PyExc_TypeError,
              "jit: a result is " + describe(object) +
                  "; with dynamic=True it must be an array, because a number may "
                  "come of extents that are unknown while the function is recorded");
      }
      return nb::borrow(object);
    }
    if (form != Form::array) {
      raise(PyExc_TypeError, "jit: a result is " + describe(object) +
                                 "; results are arrays, None, numbers and strings, and tuples, "
                                 "lists, dicts and dataclasses of these");
    }
    std::string name = "result ";
    name += std::to_string(count++);
    const Tensor tensor = to_tensor(object, {"jit", "a result"}, Access::read);
    program.output(name, tensor);
    return nb::cast(tensor);
  }

  nb::object function_;
  bool dynamic_;
  Traces traces_;
};

}  // namespace

void bind_jit(nb::module_& module) {
  nb::class_<Jit>(module, "_Jit", nb::dynamic_attr())
      .def(nb::init<nb::object, bool>(), "function"_a, "dynamic"_a = false)
      .def("__call__", &Jit::call, "args"_a, "kwargs"_a,
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def(
          "explain",
          [](Jit& self, nb::args args, nb::kwargs kwargs) {
            return nb::str(self.explain(args, kwargs).c_str());
          },
          "args"_a, "kwargs"_a,
          nb::sig("def explain(self, *args: typing.Any, **kwargs: typing.Any) -> str"),
          "Every step that a call with these arguments makes, with its plan and its bytes.")
      .def("program", &Jit::program, "args"_a, "kwargs"_a,
           nb::sig("def program(self, *args: typing.Any, **kwargs: typing.Any) -> Program"),
           "The program that a call with these arguments runs.")
      .def_prop_ro("traces", &Jit::traces, "How many recorded programs are kept.");
}

}  // namespace sow::python

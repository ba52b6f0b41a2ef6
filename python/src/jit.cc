// Traced functions (sow.jit): a call with new types, ranks or extents records a program, later ones
// run it.
#include <memory>

#include "program.h"

namespace sow::python {
namespace {

using namespace nb::literals;

bool is_array(Kind kind) {
  switch (kind) {
    case Kind::tensor:
    case Kind::numpy:
    case Kind::torch:
    case Kind::jax:
    case Kind::cupy:
    case Kind::paddle:
    case Kind::dlpack:
      return true;
    default:
      return false;
  }
}

// One argument as a trace knows it: an array by type and shape, anything else by its value.
struct Argument {
  bool array = false;
  DType dtype = DType::float32;
  Device device;
  Dims shape;
  nb::object value;
};

// What a function returned: one tensor, or a tuple, list or dict of them.
struct Structure {
  enum class Kind : uint8_t { one, tuple, list, dict };
  Kind kind = Kind::one;
  std::vector<nb::object> keys;
};

struct Trace {
  std::vector<Argument> arguments;
  std::vector<nb::object> names;  // of keyword arguments, which come last
  std::unique_ptr<CompiledProgram> program;
  std::unique_ptr<Program> source;
  Structure structure;
  size_t results = 0;
};

bool equal(nb::handle a, nb::handle b) {
  if (a.ptr() == b.ptr()) return true;
  if (Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;
  const int same = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (same < 0) throw nb::python_error();
  return same == 1;
}

class Jit {
 public:
  Jit(nb::object function, bool dynamic) : function_(std::move(function)), dynamic_(dynamic) {}

  nb::object call(nb::args args, nb::kwargs kwargs) {
    Seen seen = look_at(args, kwargs);
    if (seen.inside_another) return function_(*args, **kwargs);
    const std::shared_ptr<Trace> trace = find(seen);
    TensorList results(trace->results);
    const nb::handle like = seen.like.is_valid() ? nb::handle(seen.like) : nb::handle(Py_None);
    const OwnersStream stream(seen.feeds, like, info_of(like));
    run_program(*trace->program, seen.feeds, results);
    return pack(trace->structure, results, seen.like);
  }

  std::string explain(nb::args args, nb::kwargs kwargs) {
    const Seen seen = look_at(args, kwargs);
    const std::shared_ptr<Trace> trace = find(seen);
    std::vector<Dims> shapes;
    for (const Tensor& feed : seen.feeds) shapes.push_back(feed.shape());
    return trace->program->explain(shapes);
  }

  Program program(nb::args args, nb::kwargs kwargs) { return *find(look_at(args, kwargs))->source; }
  size_t traces() const { return traces_.size(); }

 private:
  // The arguments of one call.
  struct Seen {
    TensorList feeds;
    std::vector<nb::object> objects;  // all, positional ones first
    std::vector<bool> is_feed;
    std::vector<nb::object> names;
    nb::object like;
    bool inside_another = false;  // symbolic, or recorded by autograd
  };

  Seen look_at(const nb::args& args, const nb::kwargs& kwargs) const {
    Seen seen;
    seen.objects.reserve(args.size() + kwargs.size());
    seen.feeds.reserve(args.size() + kwargs.size());
    const auto add = [&](nb::handle object) {
      const bool feed = is_array(info_of(object).kind);
      seen.objects.push_back(nb::borrow(object));
      seen.is_feed.push_back(feed);
      if (!feed) return;
      if (!seen.like.is_valid()) seen.like = nb::borrow(object);
      seen.feeds.push_back(to_tensor(object, {"jit", "an argument"}, Access::read));
      const Tensor& tensor = seen.feeds.back();
      seen.inside_another = seen.inside_another || is_symbolic(tensor) || tensor.requires_grad();
    };
    for (nb::handle object : args) add(object);
    if (kwargs.size() != 0) {
      for (auto [name, object] : kwargs) {
        seen.names.push_back(nb::borrow(name));
        add(object);
      }
    }
    return seen;
  }

  bool matches(const Trace& trace, const Seen& seen) const {
    if (trace.arguments.size() != seen.objects.size()) return false;
    if (trace.names.size() != seen.names.size()) return false;
    size_t feed = 0;
    for (size_t i = 0; i < trace.arguments.size(); ++i) {
      const Argument& argument = trace.arguments[i];
      if (argument.array != seen.is_feed[i]) return false;
      if (!argument.array) {
        if (!equal(argument.value, seen.objects[i])) return false;
        continue;
      }
      const Tensor& tensor = seen.feeds[feed++];
      if (tensor.dtype() != argument.dtype || !(tensor.device() == argument.device)) return false;
      const bool fits = dynamic_ ? tensor.shape().size() == argument.shape.size()
                                 : tensor.shape() == argument.shape;
      if (!fits) return false;
    }
    for (size_t i = 0; i < trace.names.size(); ++i) {
      if (!equal(trace.names[i], seen.names[i])) return false;
    }
    return true;
  }

  std::shared_ptr<Trace> find(const Seen& seen) {
    for (std::shared_ptr<Trace>& trace : traces_) {
      if (!matches(*trace, seen)) continue;
      if (trace != traces_.front()) std::swap(trace, traces_.front());
      return traces_.front();
    }
    std::shared_ptr<Trace> trace = record(seen);
    traces_.insert(traces_.begin(), trace);
    return trace;
  }

  std::shared_ptr<Trace> record(const Seen& seen) const {
    auto trace = std::make_shared<Trace>();
    Program program;
    const size_t positional = seen.objects.size() - seen.names.size();
    nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(positional)));
    nb::dict kwargs;
    size_t feed = 0;
    for (size_t i = 0; i < seen.objects.size(); ++i) {
      Argument argument;
      nb::object object = seen.objects[i];
      argument.array = seen.is_feed[i];
      const bool named_one = i >= positional;
      if (argument.array) {
        const Tensor& tensor = seen.feeds[feed++];
        argument.dtype = tensor.dtype();
        argument.device = tensor.device();
        argument.shape = tensor.shape();
        std::vector<Extent> shape;
        for (const int64_t extent : tensor.shape()) shape.emplace_back(dynamic_ ? -1 : extent);
        const std::string name = named_one ? nb::cast<nb::str>(seen.names[i - positional]).c_str()
                                           : "argument " + std::to_string(i);
        object = nb::cast(program.input(name, tensor.dtype(), shape, tensor.device()));
      } else {
        argument.value = object;
      }
      trace->arguments.push_back(std::move(argument));
      if (named_one) {
        kwargs[seen.names[i - positional]] = object;
      } else {
        PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i), object.release().ptr());
      }
    }
    trace->names = seen.names;
    nb::object result = nb::steal(PyObject_Call(function_.ptr(), args.ptr(), kwargs.ptr()));
    if (!result) throw nb::python_error();
    trace->structure = add_outputs(program, result, trace->results);
    trace->program = std::make_unique<CompiledProgram>(program);
    trace->source = std::make_unique<Program>(program);
    return trace;
  }

  static Structure add_outputs(Program& program, nb::handle result, size_t& count) {
    Structure structure;
    const auto add = [&](nb::handle object) {
      std::string name = "result ";
      name += std::to_string(count++);
      program.output(name, to_tensor(object, {"jit", "a result"}, Access::read));
    };
    if (PyTuple_Check(result.ptr()) || PyList_Check(result.ptr())) {
      structure.kind = PyTuple_Check(result.ptr()) ? Structure::Kind::tuple : Structure::Kind::list;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result.ptr()); ++i) {
        add(PySequence_Fast_GET_ITEM(result.ptr(), i));
      }
    } else if (PyDict_Check(result.ptr())) {
      structure.kind = Structure::Kind::dict;
      for (auto [key, value] : nb::borrow<nb::dict>(result)) {
        structure.keys.push_back(nb::borrow(key));
        add(value);
      }
    } else {
      add(result);
    }
    return structure;
  }

  static nb::object pack(const Structure& structure, const TensorList& results, nb::handle like) {
    const nb::object none = nb::none();
    const nb::handle kind = like.is_valid() ? like : nb::handle(none);
    const TypeInfo info = info_of(kind);
    if (structure.kind == Structure::Kind::one) return from_tensor(results[0], kind, info);
    if (structure.kind == Structure::Kind::dict) {
      nb::dict out;
      for (size_t i = 0; i < results.size(); ++i) {
        out[structure.keys[i]] = from_tensor(results[i], kind, info);
      }
      return out;
    }
    nb::list out;
    for (const Tensor& result : results) out.append(from_tensor(result, kind, info));
    if (structure.kind == Structure::Kind::list) return out;
    return nb::steal(PyList_AsTuple(out.ptr()));
  }

  nb::object function_;
  bool dynamic_;
  std::vector<std::shared_ptr<Trace>> traces_;  // guarded by the GIL
};

}  // namespace

void bind_jit(nb::module_& module) {
  nb::class_<Jit>(module, "_Jit", nb::dynamic_attr())
      .def(nb::init<nb::object, bool>(), "function"_a, "dynamic"_a = false)
      .def("__call__", &Jit::call, "args"_a, "kwargs"_a,
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def("explain", [](Jit& self, nb::args args, nb::kwargs kwargs) {
             return nb::str(self.explain(args, kwargs).c_str());
           },
           "args"_a, "kwargs"_a,
           nb::sig("def explain(self, *args: typing.Any, **kwargs: typing.Any) -> str"),
           "Every step that a call with these arguments makes, with its plan and its bytes.")
      .def("program", &Jit::program, "args"_a, "kwargs"_a,
           nb::sig("def program(self, *args: typing.Any, **kwargs: typing.Any) -> Program"),
           "The program that a call with these arguments runs.")
      .def_prop_ro("traces", &Jit::traces, "How many programs were recorded.");
}

}  // namespace sow::python

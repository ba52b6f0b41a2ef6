// SPDX-License-Identifier: Apache-2.0
// sow.Program and sow.CompiledProgram: build a graph by name, run it with arrays of any library.
#include "program/program.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arrays/dtype.h"

namespace sow::python {

void run_program(const CompiledProgram& program, const TensorList& feeds, TensorList& results) {
  int64_t work = 0;
  for (const Tensor& feed : feeds) work += feed.defined() ? feed.numel() : 0;
  if (work < kReleaseFrom) {
    program.run(feeds.data(), feeds.size(), results.data(), results.size());
    return;
  }
  const Unlocked unlocked;
  program.run(feeds.data(), feeds.size(), results.data(), results.size());
}

TensorList read_tensors(nb::handle object, const char* op, const char* argument) {
  TensorList tensors;
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) {
    tensors.push_back(to_tensor(object, {op, argument}, Access::read));
    return tensors;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
    tensors.push_back(
        to_tensor(PySequence_Fast_GET_ITEM(object.ptr(), i), {op, argument}, Access::read));
  }
  return tensors;
}

namespace {

using namespace nb::literals;

// A str in UTF-8, which lone surrogates have no form in.
std::string text_of(nb::handle object, const char* op) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    raise(PyExc_ValueError, std::string(op) + ": a name holds surrogates, which are no text");
  }
  return {text, static_cast<size_t>(size)};
}

// The bytes of a str, bytes or os.PathLike; save and load refuse what no file system takes.
std::string path_of(nb::handle object) {
  nb::object path = nb::steal(PyOS_FSPath(object.ptr()));
  if (path.is_valid() && PyUnicode_Check(path.ptr())) {
    path = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
  }
  if (!path.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(path.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(path.ptr()))};
}

// None and -1 are unknown, a name is unknown and shared.
std::vector<Extent> parse_extents(nb::handle object) {
  if (!PySequence_Check(object.ptr()) || PyUnicode_Check(object.ptr())) {
    raise(PyExc_TypeError, "input: shape is " + describe(object) +
                               "; it must be a sequence of ints, names and None");
  }
  std::vector<Extent> shape;
  const Py_ssize_t size = PySequence_Size(object.ptr());
  if (size < 0) throw nb::python_error();
  for (Py_ssize_t i = 0; i < size; ++i) {
    nb::object item = nb::steal(PySequence_GetItem(object.ptr(), i));
    if (!item) throw nb::python_error();
    if (item.is_none()) {
      shape.emplace_back(-1);
    } else if (PyUnicode_Check(item.ptr())) {
      shape.emplace_back(text_of(item, "input"));
    } else {
      shape.emplace_back(parse_integer(item, "input", "shape"));
    }
  }
  return shape;
}

// A compiled program, and the names of what goes in and comes out.
struct Compiled {
  CompiledProgram program;
  std::vector<std::string> inputs, outputs;
  std::vector<bool> donated;

  Compiled(const Program& source, const CompileOptions& options)
      : program(source, options),
        inputs(source.input_names()),
        outputs(source.output_names()),
        donated(inputs.size(), false) {
    for (const std::string& name : options.donate) donated[place_of(inputs, "input", name)] = true;
  }

  static size_t place_of(const std::vector<std::string>& names, const char* what,
                         const std::string& name) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return i;
    }
    raise(PyExc_ValueError, std::string("run: there is no ") + what + " \"" + name + "\"");
  }

  Tensor feed(size_t i, nb::handle object) const {
    const Access access = donated[i] ? Access::write : Access::read;
    return to_tensor(object, {"run", inputs[i].c_str()}, access);
  }
};

nb::tuple call_compiled(const Compiled& self, nb::args arrays) {
  if (arrays.size() != self.inputs.size()) {
    raise(PyExc_ValueError, "run: " + std::to_string(arrays.size()) + " feeds for " +
                                std::to_string(self.inputs.size()) +
                                " inputs; there must be one for each");
  }
  TensorList feeds(arrays.size()), results(self.outputs.size());
  for (size_t i = 0; i < feeds.size(); ++i) feeds[i] = self.feed(i, arrays[i]);
  nb::object like = feeds.empty() ? nb::none() : nb::object(arrays[0]);
  const TypeInfo info = info_of(like);
  const OwnersStream stream(feeds, like, info);
  run_program(self.program, feeds, results);
  nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i) {
    PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i),
                     from_tensor(results[i], like, info).release().ptr());
  }
  return nb::borrow<nb::tuple>(out);
}

// The name that a key of a dict of feeds or outputs is.
std::string name_in(nb::handle key, const char* what) {
  if (!PyUnicode_Check(key.ptr())) {
    raise(PyExc_TypeError, std::string("run: a key of ") + what + " is " + describe(key) +
                               "; keys are the names of inputs and outputs");
  }
  return text_of(key, "run");
}

nb::dict run_compiled(const Compiled& self, nb::dict feeds, nb::handle outputs) {
  TensorList inputs(self.inputs.size()), results(self.outputs.size());
  nb::object like = nb::none();
  for (auto [key, value] : feeds) {
    const size_t at = Compiled::place_of(self.inputs, "input", name_in(key, "feeds"));
    inputs[at] = self.feed(at, value);
    if (at == 0) like = nb::borrow(value);
  }
  std::vector<nb::object> given(results.size());
  if (!outputs.is_none()) {
    if (!PyDict_Check(outputs.ptr())) {
      raise(PyExc_TypeError, "run: outputs is " + describe(outputs) +
                                 "; it must be a dict of names and arrays, or None");
    }
    for (auto [key, value] : nb::borrow<nb::dict>(outputs)) {
      const size_t at = Compiled::place_of(self.outputs, "output", name_in(key, "outputs"));
      results[at] = to_tensor(value, {"run", self.outputs[at].c_str()}, Access::write);
      given[at] = nb::borrow(value);
    }
  }
  const TypeInfo info = info_of(like);
  const OwnersStream stream(inputs, like, info);
  run_program(self.program, inputs, results);
  nb::dict out;
  for (size_t i = 0; i < results.size(); ++i) {
    const nb::str name(self.outputs[i].c_str());
    if (given[i].is_valid()) {
      mark_written(given[i], info_of(given[i]));
      out[name] = given[i];
    } else {
      out[name] = from_tensor(results[i], like, info);
    }
  }
  return out;
}

std::vector<Dims> parse_shapes(nb::args shapes) {
  std::vector<Dims> out;
  for (nb::handle shape : shapes) out.push_back(parse_shape(shape, "explain"));
  return out;
}

nb::dict stats_of(const Compiled& self, nb::args shapes) {
  const ProgramStats stats = self.program.stats(parse_shapes(shapes));
  nb::dict out;
  out["steps"] = stats.steps;
  out["copies"] = stats.copies;
  out["fused"] = stats.fused;
  out["bytes_moved"] = stats.bytes_moved;
  out["arena_bytes"] = stats.arena_bytes;
  return out;
}

void bind_building(nb::class_<Program>& program) {
  program.def(nb::init<>())
      .def(
          "input",
          [](Program& self, const std::string& name, nb::handle shape, nb::handle dtype,
             nb::handle device) {
            return self.input(name, parse_dtype(dtype, "input"), parse_extents(shape),
                              parse_device(device, "input"));
          },
          "name"_a, "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
          nb::sig("def input(self, name: str, shape: collections.abc.Sequence[int | str | None], "
                  "dtype: "
                  "sow._types.DTypeLike | None = None, device: str | None = None) -> Tensor"),
          "Declares an input. An extent is a number, a name (inputs that share one must agree when "
          "the\nprogram runs) or None.")
      .def(
          "constant",
          [](Program& self, nb::handle value) {
            return self.constant(to_tensor(value, {"constant", "value"}, Access::read));
          },
          "value"_a, nb::sig("def constant(self, value: sow._types.ArrayLike) -> Tensor"),
          "A copy of an array as a tensor of the program.")
      .def(
          "output",
          [](Program& self, const std::string& name, nb::handle tensor) {
            self.output(name, to_tensor(tensor, {"output", "tensor"}, Access::read));
          },
          "name"_a, "tensor"_a, nb::sig("def output(self, name: str, tensor: Tensor) -> None"),
          "Names a tensor of the program as one of its results.")
      .def(
          "gradients",
          [](Program& self, nb::handle outputs, nb::handle inputs, nb::handle grad_outputs) {
            const TensorList weights =
                grad_outputs.is_none() ? TensorList{}
                                       : read_tensors(grad_outputs, "gradients", "grad_outputs");
            return self.gradients(read_tensors(outputs, "gradients", "outputs"),
                                  read_tensors(inputs, "gradients", "inputs"), weights);
          },
          "outputs"_a, "inputs"_a, "grad_outputs"_a = nb::none(),
          nb::sig("def gradients(self, outputs: Tensor | collections.abc.Sequence[Tensor], inputs: "
                  "Tensor | collections.abc.Sequence[Tensor], grad_outputs: Tensor | "
                  "collections.abc.Sequence[Tensor] | None = None) -> list[Tensor]"),
          "The gradients of outputs with respect to inputs, as tensors of the program.")
      .def(
          "compile",
          [](const Program& self, std::vector<std::string> donate, bool optimize) {
            return Compiled(self, {std::move(donate), optimize});
          },
          "donate"_a = std::vector<std::string>(), "optimize"_a = true,
          nb::sig("def compile(self, donate: collections.abc.Sequence[str] = (), optimize: bool = "
                  "True) "
                  "-> CompiledProgram"),
          "The program as it is now, ready to run. donate: inputs whose memory a run may "
          "overwrite.");
}

void bind_text(nb::class_<Program>& program) {
  program.def_prop_ro("inputs", &Program::input_names, "The names of the inputs.")
      .def_prop_ro("outputs", &Program::output_names, "The names of the outputs.")
      .def("to_dot", &Program::to_dot, "The graph as text for Graphviz.")
      .def("__str__", &Program::to_string)
      .def("__repr__", &Program::to_string)
      .def(
          "save", [](const Program& self, nb::handle path) { self.save(path_of(path)); }, "path"_a,
          nb::sig("def save(self, path: str | bytes | os.PathLike[str]) -> None"),
          "Writes the program to a file, which is replaced when all of it was written.")
      .def_static(
          "load", [](nb::handle path) { return Program::load(path_of(path)); }, "path"_a,
          nb::sig("def load(path: str | bytes | os.PathLike[str]) -> Program"),
          "Reads a program from a file; what is damaged or newer is refused.")
      .def(
          "serialize",
          [](const Program& self) {
            const std::string bytes = self.serialize();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes that save writes.")
      .def_static(
          "deserialize",
          [](nb::bytes data) {
            return Program::deserialize({static_cast<const char*>(data.data()), data.size()});
          },
          "data"_a, "The program that these bytes hold.")
      .def(
          "__reduce__",
          [](const Program& self) {
            const std::string bytes = self.serialize();
            return nb::make_tuple(nb::module_::import_("sow._pickle").attr("restore_program"),
                                  nb::make_tuple(nb::bytes(bytes.data(), bytes.size())));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<Program> program(
      module, "Program",
      "A graph that the functions of sow build when they are given its tensors: planned once for "
      "each "
      "set of\nshapes, run many times.\n\n"
      ">>> program = sow.Program()\n"
      ">>> x = program.input(\"x\", [\"n\", 2])\n"
      ">>> index = program.input(\"index\", [\"n\"], \"int64\")\n"
      ">>> program.output(\"y\", sow.index_add(sow.zeros([3, 2]), 0, index, x))\n"
      ">>> program.compile().run({\"x\": np.ones((4, 2), \"f4\"), \"index\": np.array([0, 2, 2, "
      "0])})\n"
      "{'y': array([[2., 2.],\n       [0., 0.],\n       [2., 2.]], dtype=float32)}");
  bind_building(program);
  bind_text(program);
  nb::class_<Compiled>(module, "CompiledProgram",
                       "A program ready to run, by many threads at once; made by Program.compile.")
      .def("__call__", call_compiled, "arrays"_a,
           nb::sig("def __call__(self, *arrays: sow._types.ArrayLike) -> tuple[typing.Any, ...]"),
           "Runs with the inputs in their order; the results are of the first one's kind.")
      .def("run", run_compiled, "feeds"_a, "outputs"_a = nb::none(),
           nb::sig("def run(self, feeds: dict[str, sow._types.ArrayLike], outputs: dict[str, "
                   "typing.Any] | None = None) -> dict[str, typing.Any]"),
           "Runs with inputs by name; results that outputs names are written into these arrays.")
      .def(
          "explain",
          [](const Compiled& self, nb::args shapes) {
            return self.program.explain(parse_shapes(shapes));
          },
          "shapes"_a, nb::sig("def explain(self, *shapes: sow._types.Shape) -> str"),
          "Every step with its plan and its bytes, for inputs of these shapes.")
      .def("stats", stats_of, "shapes"_a,
           nb::sig("def stats(self, *shapes: sow._types.Shape) -> dict[str, int]"),
           "Steps, copies, bytes moved and memory, for inputs of these shapes.");
  module.def("_is_symbolic", [](const Tensor& tensor) { return is_symbolic(tensor); });
}

}  // namespace sow::python

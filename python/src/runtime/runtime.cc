// SPDX-License-Identifier: Apache-2.0
// Threads, explanations, and what the library knows about the machine.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "calls/bind.h"
#include "sow/interrupt.h"
#include "sow/limits.h"
#include "sow/memory.h"
#include "sow/ops.h"
#include "sow/runtime.h"
#include "sow/version.h"

namespace sow::python {
namespace {

using namespace nb::literals;

// The operation of a name.
nb::object operation_named(nb::handle name) {
  nb::object module = nb::module_::import_("sow");
  nb::object function = nb::getattr(module, nb::borrow<nb::str>(name), nb::none());
  nb::object methods = module.attr("Tensor");
  const bool known =
      PyCallable_Check(function.ptr()) && (nb::hasattr(methods, nb::borrow<nb::str>(name)) ||
                                           nb::cast<std::string>(name) == "scatter_nd");
  if (!known) {
    raise(PyExc_ValueError,
          "explain: '" + nb::cast<std::string>(name) + "' is no operation of sow");
  }
  return function;
}

std::string explain_call(nb::handle op, nb::args args, nb::kwargs kwargs) {
  const bool named = PyUnicode_Check(op.ptr());
  if (!named && !PyCallable_Check(op.ptr()))
    raise(PyExc_TypeError,
          "explain: op is " + describe(op) + "; it must be a function or the name of an operation");
  nb::object function = named ? operation_named(op) : nb::borrow(op);
  std::string text = explain([&] { function(*args, **kwargs); });
  if (text.empty()) return "no operation of sow was run";
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

// Between the parts of a call that runs without the GIL: handlers of signals run on the main
// thread, and what one raises gives the call up. Waiting for the GIL takes time, so it is not done
// often.
void look_for_signals() {
  using Clock = std::chrono::steady_clock;
  static const std::thread::id main = std::this_thread::get_id();  // of the import
  static thread_local Clock::time_point next;
  if (std::this_thread::get_id() != main) return;
  const Clock::time_point now = Clock::now();
  if (now < next || PyGILState_Check() != 0) return;
  next = now + std::chrono::milliseconds(20);
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Of this thread: `with sow.tiles(shape)` opens and closes them in turn.
std::vector<std::unique_ptr<Tiles>>& open_tiles() {
  static thread_local std::vector<std::unique_ptr<Tiles>> open;
  return open;
}

nb::list to_list(const Dims& dims) {
  nb::list out;
  for (const int64_t extent : dims) out.append(extent);
  return out;
}

nb::dict stats_as_dict() {
  const MemoryStats stats = memory_stats();
  nb::dict out;
  out["bytes_in_use"] = stats.bytes_in_use;
  out["peak_bytes_in_use"] = stats.peak_bytes_in_use;
  out["bytes_kept"] = stats.bytes_kept;
  out["keep_limit"] = stats.keep_limit;
  out["allocations"] = stats.allocations;
  out["system_allocations"] = stats.system_allocations;
  return out;
}

int parse_threads(nb::handle count, const char* op) {
  const int64_t wanted = parse_integer(count, op, "count");
  return static_cast<int>(std::clamp<int64_t>(wanted, -1, INT32_MAX));
}

}  // namespace

void bind_runtime(nb::module_& module) {
  look_for_signals();
  set_interrupt_look(look_for_signals);
  module.def("_version", [] { return nb::str(version()); });
  module.def("_instruction_set", [] { return nb::str(instruction_set()); });
  module.def(
      "_tune",
      [](const std::string& path) {
        const nb::gil_scoped_release unlocked;
        return tune(path);
      },
      "path"_a);  // behind the command `sow tune`
  module.def("get_num_threads", get_num_threads,
             "How many threads an operation may use.\n\n>>> sow.get_num_threads() >= 1\nTrue");
  module.def(
      "set_num_threads",
      [](nb::handle count) { set_num_threads(parse_threads(count, "set_num_threads")); }, "count"_a,
      nb::sig("def set_num_threads(count: int) -> None"),
      "Sets how many threads an operation may use. No result depends on it, and no other library "
      "notices.\n\n"
      ">>> sow.set_num_threads(sow.get_num_threads())");
  nb::class_<ThreadLimit>(module, "_ThreadLimit")  // behind sow.thread_limit
      .def(
          "__init__",
          [](ThreadLimit* limit, nb::handle count) {
            new (limit) ThreadLimit(parse_threads(count, "thread_limit"));
          },
          "count"_a, nb::sig("def __init__(self, count: int) -> None"));
  module.def("memory_stats", stats_as_dict, nb::sig("def memory_stats() -> dict[str, int]"),
             "How much main memory sow holds, in bytes: in use by its tensors, held indices, "
             "programs and calls that run; the most that was; kept of what was freed, for the next "
             "call, and how much may be (SOW_POOL_LIMIT). And how many allocations were made, and "
             "how many of them what was kept could not serve.\n\n"
             ">>> sorted(sow.memory_stats())  # doctest: +NORMALIZE_WHITESPACE\n"
             "['allocations', 'bytes_in_use', 'bytes_kept', 'keep_limit', 'peak_bytes_in_use', "
             "'system_allocations']");
  module.def("release_memory", release_memory, nb::call_guard<nb::gil_scoped_release>(),
             "Gives the memory that is kept for the next call back to the system. By itself that "
             "happens where memory is short: when an allocation fails, or comes near the limit of "
             "the process.\n\n"
             ">>> sow.release_memory()\n"
             ">>> sow.memory_stats()[\"bytes_kept\"]\n"
             "0");
  module.def(
      "limit_memory",
      [](nb::handle bytes) {
        limit_memory(bytes.is_none() ? 0 : parse_integer(bytes, "limit_memory", "bytes"));
      },
      "bytes"_a.none(), nb::sig("def limit_memory(bytes: int | None) -> None"),
      "The most scratch that one operation on the CPU may take beside its arguments and result, in "
      "bytes; None or 0: no limit. Slower ways are chosen, and problems cut into parts, before "
      "more "
      "is asked for. No result depends on it.\n\n"
      ">>> sow.limit_memory(1 << 20)\n"
      ">>> sow.limit_memory(None)");
  module.def(
      "set_tile_shape",
      [](nb::args shape) {
        const bool listed = shape.size() == 1 && !PyLong_Check(shape[0].ptr());
        set_tile_shape(
            listed && shape[0].is_none()
                ? Dims{}
                : parse_shape(listed ? nb::object(shape[0]) : nb::object(shape), "set_tile_shape"));
      },
      nb::sig("def set_tile_shape(*shape: typing.Any) -> None"),
      "How much of each axis of a destination is worked on at a time, the axis of a scatter too; "
      "None: whatever the planner finds best. It holds for operations whose destination has this "
      "rank, on CPUs and on GPUs; others are an error. No result depends on it.\n\n"
      ">>> sow.set_tile_shape(4, 16, 32)\n"
      ">>> sow.set_tile_shape(None)");
  module.def(
      "_tile_shape", [] { return nb::tuple(to_list(tile_shape())); },
      nb::sig("def _tile_shape() -> tuple[int, ...]"));
  module.def("_enter_tiles", [](nb::handle shape) {
    open_tiles().push_back(std::make_unique<Tiles>(parse_shape(shape, "tiles")));
  });
  module.def("_leave_tiles", [] { open_tiles().pop_back(); });
  module.def("explain", explain_call, "op"_a, "args"_a, "kwargs"_a,
             nb::sig("def explain(op: str | typing.Callable[..., typing.Any], *args: typing.Any, "
                     "**kwargs: typing.Any) -> str"),
             "How an operation would be done, step by step, in words, on whichever device its "
             "arrays are. `op` is a function or the name of an operation; an operation in place "
             "writes nothing.\n\n"
             ">>> print(sow.explain(sow.scatter_add, np.zeros(3), 0, [1, 1], np.ones(2)))  # "
             "doctest: +ELLIPSIS\n"
             "scatter_add...");
}

}  // namespace sow::python

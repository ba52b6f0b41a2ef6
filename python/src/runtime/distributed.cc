// SPDX-License-Identifier: Apache-2.0
// What sow.distributed is made of: an exchange that a Python engine does, and calls over it.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "calls/bind.h"
#include "sow/distributed.h"

namespace sow::python {
namespace {

using namespace nb::literals;
using distributed::Exchange;
using distributed::ShardedIndex;

// The engine is an object with rank, size, gather(bytes) -> bytes of all ranks, and
// exchange(rows, send, into, receive) on Tensors of bytes, [rows, bytes of a row].
class EngineExchange : public Exchange {
 public:
  explicit EngineExchange(nb::object engine)
      : engine_(std::move(engine)),
        rank_(nb::cast<int>(engine_.attr("rank"))),
        size_(nb::cast<int>(engine_.attr("size"))) {}
  ~EngineExchange() override { release_object(engine_.release().ptr()); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

 protected:
  void gather(const void* mine, int64_t bytes, void* all) override {
    const nb::gil_scoped_acquire gil;
    const nb::bytes given(mine, static_cast<size_t>(bytes));
    const auto got = nb::cast<nb::bytes>(engine_.attr("gather")(given));
    const size_t expected = static_cast<size_t>(bytes * size_);
    if (got.size() != expected)
      raise(PyExc_RuntimeError, "distributed: the engine gathered " + std::to_string(got.size()) +
                                    " bytes instead of " + std::to_string(expected));
    std::memcpy(all, got.c_str(), expected);
  }

  void exchange(const Tensor& rows, const std::vector<int64_t>& send, const Tensor& into,
                const std::vector<int64_t>& receive) override {
    const nb::gil_scoped_acquire gil;
    engine_.attr("exchange")(as_bytes(rows), send, as_bytes(into), receive);
  }

 private:
  // The same memory; the tensor is kept by the view.
  static Tensor as_bytes(const Tensor& tensor) {
    int64_t row = static_cast<int64_t>(size_of(tensor.dtype()));
    for (int d = 1; d < tensor.dim(); ++d) row *= tensor.size(d);
    Tensor::Foreign foreign;
    foreign.data = tensor.data();
    foreign.dtype = DType::uint8;
    foreign.shape = {tensor.size(0), row};
    foreign.device = tensor.device();
    foreign.deleter = [tensor] {};
    return Tensor::wrap(std::move(foreign));
  }

  nb::object engine_;
  int rank_, size_;
};

using Handle = std::shared_ptr<Exchange>;

ErrorKind kind_of(nb::handle exception) {
  const auto is = [&](PyObject* type) {
    return PyErr_GivenExceptionMatches(exception.ptr(), type);
  };
  if (is(PyExc_IndexError)) return ErrorKind::index;
  if (is(PyExc_TypeError)) return ErrorKind::type;
  if (is(PyExc_MemoryError)) return ErrorKind::memory;
  return is(PyExc_ValueError) ? ErrorKind::argument : ErrorKind::device;
}

}  // namespace

void bind_distributed(nb::module_& module) {
  nb::class_<Exchange>(module, "_Exchange", "Ranks that make the same calls.")
      .def_prop_ro("rank", &Exchange::rank, "Of this process.")
      .def_prop_ro("size", &Exchange::size, "How many there are.")
      .def_prop_ro("bytes_sent", &Exchange::bytes_sent, "By this rank to others.")
      .def(
          "gather",
          [](Exchange& self, nb::bytes mine) {
            std::string all(mine.size() * static_cast<size_t>(self.size()), '\0');
            const std::string copy(mine.c_str(), mine.size());
            {
              const Unlocked unlocked;
              self.all_gather(copy.data(), static_cast<int64_t>(copy.size()), all.data());
            }
            return nb::bytes(all.data(), all.size());
          },
          "mine"_a, "The bytes of every rank, one after the other.")
      .def(
          "agree",
          [](Exchange& self, const char* op, const char* about, int64_t number) {
            const Unlocked unlocked;
            return distributed::agree(self, op, about, number);
          },
          "op"_a, "about"_a, "number"_a = 0,
          "Goes on where all ranks are about to do the same; the number of each.")
      .def(
          "fail",
          [](Exchange& self, const char* op, nb::handle exception) {
            const Error error(kind_of(exception), nb::cast<std::string>(nb::str(exception)));
            const Unlocked unlocked;
            distributed::agree(self, op, "", 0, &error);
          },
          "op"_a, "exception"_a, "Raises it on every rank; the others are in some call of theirs.");
  module.def(
      "_exchange_by",
      [](nb::object engine) -> Handle {
        return std::make_shared<EngineExchange>(std::move(engine));
      },
      "engine"_a);
  nb::class_<ShardedIndex>(module, "_ShardedIndex", "Keys that are with their owners.")
      .def(
          "__init__",
          [](ShardedIndex* self, const Handle& exchange, const Tensor& keys, int64_t rows,
             nb::handle bounds) {
            const Bounds policy = parse_bounds(bounds, "Index");
            const Unlocked unlocked;
            new (self) ShardedIndex(exchange, keys, rows, policy);
          },
          "exchange"_a, "keys"_a, "rows"_a, "bounds"_a = "error")
      .def_static(
          "of_coordinates",
          [](const Handle& exchange, const Tensor& indices, const Tensor& x, nb::handle bounds) {
            const Bounds policy = parse_bounds(bounds, "Index");
            const Unlocked unlocked;
            return ShardedIndex::of_coordinates(exchange, Index(indices, policy), x);
          },
          "exchange"_a, "indices"_a, "x"_a, "bounds"_a = "error")
      .def_prop_ro("size", &ShardedIndex::size, "Rows of all parts together.")
      .def("__len__", &ShardedIndex::count)
      .def("local_keys", &ShardedIndex::local_keys, nb::call_guard<nb::gil_scoped_release>(),
           "The keys of the updates that come here, counted from this rank's first row.")
      .def("send", &ShardedIndex::send, "source"_a, nb::call_guard<nb::gil_scoped_release>(),
           "The updates that come here.")
      .def("send_back", &ShardedIndex::send_back, "rows"_a,
           nb::call_guard<nb::gil_scoped_release>(),
           "Rows for updates that came here, back to where those came from.")
      .def(
          "index_reduce_",
          [](const ShardedIndex& self, const Tensor& x, const Tensor& source, nb::handle reduce,
             bool include_self) {
            const Reduce parsed = parse_reduce(reduce, "index_reduce_");
            const Unlocked unlocked;
            if (parsed == Reduce::add && include_self)
              distributed::index_add_(x, self, source);
            else if (parsed == Reduce::assign)
              distributed::index_copy_(x, self, source);
            else
              distributed::index_reduce_(x, self, source, parsed, include_self);
          },
          "x"_a, "source"_a, "reduce"_a, "include_self"_a, "Into this rank's part.")
      .def(
          "index_select",
          [](const ShardedIndex& self, const Tensor& x) {
            const Unlocked unlocked;
            return distributed::index_select(x, self);
          },
          "x"_a, "From all parts.");
  // What is wrong with these must be known before ranks wait for each other.
  module.def(
      "_expect_names",
      [](const char* op, nb::handle reduce, nb::handle bounds) {
        parse_reduce(reduce, op);
        parse_bounds(bounds, op);
      },
      "op"_a, "reduce"_a, "bounds"_a);
  module.def(
      "_sharded_reduce_",
      [](const Handle& exchange, const Tensor& x, const Tensor& keys, const Tensor& source,
         nb::handle reduce, bool include_self, nb::handle bounds) {
        const Reduce parsed = parse_reduce(reduce, "index_reduce_");
        const Index index(keys, parse_bounds(bounds, "index_reduce_"));
        const Unlocked unlocked;
        if (parsed == Reduce::add && include_self)
          distributed::index_add_(exchange, x, index, source);
        else if (parsed == Reduce::assign)
          distributed::index_copy_(exchange, x, index, source);
        else
          distributed::index_reduce_(exchange, x, index, source, parsed, include_self);
      },
      "exchange"_a, "x"_a, "keys"_a, "source"_a, "reduce"_a, "include_self"_a, "bounds"_a);
  module.def(
      "_sharded_select",
      [](const Handle& exchange, const Tensor& x, const Tensor& keys, nb::handle bounds) {
        const Index index(keys, parse_bounds(bounds, "index_select"));
        const Unlocked unlocked;
        return distributed::index_select(exchange, x, index);
      },
      "exchange"_a, "x"_a, "keys"_a, "bounds"_a);
  module.def(
      "_merge_updates",
      [](const Tensor& keys, const Tensor& source, nb::handle reduce) {
        const Reduce parsed = parse_reduce(reduce, "merge_updates");
        distributed::Updates merged;
        {
          const Unlocked unlocked;
          merged = distributed::merge_updates(keys, source, parsed);
        }
        nb::object counts = merged.counts.defined() ? nb::cast(merged.counts) : nb::none();
        return nb::make_tuple(merged.keys, merged.rows, counts);
      },
      "keys"_a, "source"_a, "reduce"_a,
      nb::sig("def _merge_updates(keys: Tensor, source: Tensor, reduce: str) -> tuple[Tensor, "
              "Tensor, Tensor | None]"));
  module.def(
      "_index_mean_",
      [](const Tensor& x, const Tensor& keys, const Tensor& rows, const Tensor& counts,
         bool include_self) {
        const Unlocked unlocked;
        distributed::index_mean_(x, {keys, rows, counts}, include_self);
      },
      "x"_a, "keys"_a, "rows"_a, "counts"_a, "include_self"_a);
}

}  // namespace sow::python

// SPDX-License-Identifier: Apache-2.0
// Gradients: what tensors can be asked, and what sow/_autograd.py is made of.
#include "sow/autograd.h"

#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

nb::object optional_tensor(const Tensor& tensor) {
  return tensor.defined() ? nb::cast(tensor) : nb::none();
}

Tensor given_gradient(nb::handle grad, const Tensor& of, const char* op) {
  if (grad.is_none()) return Tensor();
  return to_tensor(grad, {op, "grad"}, Access::read, of.dtype());
}

TensorList tensors_of(nb::list list) {
  TensorList out;
  for (nb::handle item : list) {
    if (!item.is_none() && !nb::isinstance<Tensor>(item))
      raise(PyExc_TypeError, "grad: an argument holds " + describe(item) + "; give sow.Tensors");
    out.push_back(item.is_none() ? Tensor() : instance<Tensor>(item));
  }
  return out;
}

nb::list gradients(nb::list outputs, nb::list inputs, nb::list grads, bool create_graph) {
  const TensorList from = tensors_of(outputs), to = tensors_of(inputs), with = tensors_of(grads);
  TensorList found;
  {
    const Unlocked unlocked;
    found = grad(from, to, with, create_graph);
  }
  nb::list out;
  for (const Tensor& gradient : found) out.append(optional_tensor(gradient));
  return out;
}

}  // namespace

void bind_autograd(nb::module_& module, nb::class_<Tensor>& tensor) {
  tensor
      .def_prop_rw(
          "requires_grad", &Tensor::requires_grad,
          [](const Tensor& self, bool on) { self.set_requires_grad(on); },
          "Whether it takes part in a graph, so that backward() reaches it.")
      .def(
          "requires_grad_",
          [](nb::handle self, bool on) {
            instance<Tensor>(self).set_requires_grad(on);
            return OwnKind{nb::borrow(self)};
          },
          "on"_a = true,
          "Makes it a leaf whose gradient is wanted, and returns it.\n\n"
          ">>> w = sow.tensor([1.0, 2.0]).requires_grad_()\n"
          ">>> (w * w).sum().backward()\n"
          ">>> w.grad\nTensor([2., 4.], dtype=float32)")
      .def_prop_ro("is_leaf", &Tensor::is_leaf, "Whether no recorded operation made it.")
      .def_prop_rw(
          "grad", [](const Tensor& self) { return optional_tensor(self.grad()); },
          [](const Tensor& self, nb::handle grad) {
            if (grad.is_none()) return self.zero_grad();
            self.set_grad(given_gradient(grad, self, "grad"));
          },
          nb::arg("value").none(), nb::for_getter(nb::sig("def grad(self) -> Tensor | None")),
          nb::for_setter(nb::sig("def grad(self, value: typing.Any) -> None")),
          "What backward() has gathered in a leaf; None before.")
      .def("zero_grad", &Tensor::zero_grad,
           "Forgets the gradient.\n\n>>> sow.zeros([2]).requires_grad_().zero_grad()")
      .def("detach", &Tensor::detach,
           "The same memory outside of the graph.\n\n"
           ">>> sow.zeros([2]).requires_grad_().detach().requires_grad\nFalse")
      .def(
          "backward",
          [](const Tensor& self, nb::handle grad, bool create_graph) {
            const Tensor given = given_gradient(grad, self, "backward");
            const Unlocked unlocked;
            self.backward(given, create_graph);
          },
          "grad"_a = nb::none(), "create_graph"_a = false,
          nb::sig(
              "def backward(self, grad: sow._types.ArrayLike | None = None, create_graph: bool = "
              "False) -> None"),
          "Adds the gradient of this tensor, weighted by grad (1 for one element), to every leaf "
          "it "
          "was made of.\n\n"
          ">>> w = sow.tensor([3.0]).requires_grad_()\n>>> sow.pow(w, 2).backward()\n"
          ">>> w.grad\nTensor([6.], dtype=float32)");
  module.def("_gradients", gradients,
             nb::sig("def _gradients(outputs: list[Tensor], inputs: list[Tensor], grads: "
                     "list[typing.Any], create_graph: bool, /) -> list[typing.Any]"));
  module.def(
      "_rehearse",
      [](const char* op, nb::object call, nb::handle result) {
        const Tensor given = result.is_none() ? Tensor() : nb::cast<Tensor>(result);
        const Rehearsed done = rehearse(
            op, [&] { return nb::cast<Tensor>(nb::object(call())); }, given);
        return nb::make_tuple(done.recorded, done.reads, done.reads_result);
      },
      "op"_a, "call"_a, "result"_a = nb::none(),
      nb::sig("def _rehearse(op: str, call: typing.Any, result: Tensor | None = None) -> "
              "tuple[Tensor, int, bool]"),
      "Records the call of op that call() makes without running it: (recorded, which operands "
      "gradients\nread, whether they read the result).");
  module.def("_set_grad_enabled", set_grad_enabled);
  module.def("is_grad_enabled", grad_enabled,
             "Whether this thread records what it computes.\n\n>>> sow.is_grad_enabled()\nTrue");
  module.def("_as_kind_of", [](const Tensor& value, nb::handle like) {
    return from_tensor(value, like, info_of(like));
  });
}

}  // namespace sow::python

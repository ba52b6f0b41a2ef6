# SPDX-License-Identifier: Apache-2.0
"""Calls that torch records: gradients of any order, forward mode and vmap, from one table."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.nn import Parameter

import sow

from .. import _core
from .._frameworks import OPERATIONS, Formula, Operation, split
from . import _dtensor, _views

_depth = torch._C._len_torch_dispatch_stack
_functorch_level = torch._C._functorch.peek_interpreter_stack
_transforming = torch._C._are_functorch_transforms_active
_plain_types = (Tensor, Parameter)
_no_dispatch = Tensor.__torch_dispatch__
_grad_enabled = torch.is_grad_enabled


def is_tensor(value: Any) -> bool:
    """Whether it is torch's, of whatever class."""
    return isinstance(value, Tensor)


def dispatch(name: str, values: tuple[Any, ...]) -> Any:
    """What sow's bindings call for tensors that torch must see."""
    quick = _quick.get(name)
    if (quick is not None and not _depth() and not _transforming()
            and forward_ad._current_level < 0 and _grad_enabled()):
        result = quick.record(quick, values)
        if result is not None:
            return result
    return _dispatch_others(OPERATIONS[name], values)


def _dispatch_others(operation: Operation, values: tuple[Any, ...]) -> Any:
    first = values[operation.arrays[0]]
    if operation.form == "view":
        return _views.call(operation, values)
    if not isinstance(first, Tensor):
        if isinstance(first, _core.Tensor):
            return NotImplemented
        raise RuntimeError(_mixed(operation))
    if _dtensor.is_sharded(first):
        from . import _sharded_rows

        result = _sharded_rows.call(operation, values)
        if result is not None:
            return result
    if operation.form == "in_place":
        return _in_place(operation, values)
    if _functorch_level() is not None:
        return _transformed(operation, values)
    if _depth() or _is_traced(operation, values) or first.is_meta:
        from . import _library

        return _library.call(operation, values)
    if forward_ad._current_level < 0 and not _wants_gradient(operation, values):
        # What a transformation has left behind, or memory of a kind that sow does not know.
        alive = tuple(_unwrapped(value) for value in values)
        if all(a is b for a, b in zip(alive, values)):
            return NotImplemented
        return operation.plain(*alive)
    return _transformed(operation, values)


def _wants_gradient(operation: Operation, values: tuple[Any, ...]) -> bool:
    return _grad_enabled() and any(
        isinstance(item, Tensor) and item.requires_grad
        for at in operation.sources
        for item in (values[at] if isinstance(values[at], (list, tuple)) else (values[at],)))


def _unwrapped(value: Any) -> Any:
    return torch._C._functorch.unwrap_if_dead(value) if isinstance(value, Tensor) else value


def _mixed(operation: Operation) -> str:
    return (f"{operation.name}: {operation.names[operation.arrays[0]]} is no torch.Tensor, but a tensor "
            "that requires a gradient is among the arguments; pass detach() of it, or a torch.Tensor")


def _is_traced(operation: Operation, values: tuple[Any, ...]) -> bool:
    for at in operation.arrays:
        value = values[at]
        for item in value if isinstance(value, (list, tuple)) else (value,):
            kind = type(item)
            if kind not in _plain_types and isinstance(item, Tensor):
                if kind.__torch_dispatch__ is not _no_dispatch:
                    return True
    return False


def _in_place(operation: Operation, values: tuple[Any, ...]) -> Any:
    x = values[operation.arrays[0]]
    if not isinstance(x, Tensor):
        raise RuntimeError(_mixed(operation))
    if x.requires_grad and x.is_leaf and torch.is_grad_enabled():
        raise RuntimeError(
            f"{operation.name}: a leaf Variable that requires grad is being used in an in-place "
            f"operation; use {operation.stem}, or write into it under torch.no_grad()")
    twin = OPERATIONS[operation.stem]
    if _may_read_destination(twin, values):
        values = (x.clone(), *values[1:])
    result = twin.plain(*values)
    if result.shape != x.shape:
        raise ValueError(f"{operation.name}: the result has shape {list(result.shape)}, x has "
                         f"{list(x.shape)}; in place they must be equal")
    return x.copy_(result)


def _may_read_destination(operation: Operation, values: tuple[Any, ...]) -> bool:
    """Whether a gradient will want the destination as it was before it is written."""
    choices = operation.choices
    plan = _plans.get(operation if choices is None else (operation, choices(values)))
    quick = operation.is_simple and all(isinstance(values[at], Tensor) for at in operation.arrays)
    return plan is None or not quick or 0 in plan.saved or plan.reads_result


# -- between the two libraries


def to_sow(tensor: Tensor) -> _core.Tensor:
    """The same memory, outside of torch's graph."""
    return sow.asarray(tensor.detach())


def _stand_in(shape: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of this type and shape whose data nobody reads."""
    if device.type != "cpu":  # what is made while a graph is captured belongs to it
        return torch.empty((), dtype=dtype, device=device).expand(shape)
    nothing = _nothing.get(dtype)
    if nothing is None:
        nothing = _nothing[dtype] = torch.zeros((), dtype=dtype)
    return nothing.expand(shape)


_nothing: dict[torch.dtype, Tensor] = {}


def evaluate(formula: Formula, tensors: list[Tensor]) -> list[Tensor]:
    """A formula on plain tensors."""
    with _following(tensors[0]), torch.no_grad():
        results = formula.run([to_sow(tensor) for tensor in tensors])
        return [_core._as_kind_of(result, tensors[0].detach()) for result in results]


_no_stream = contextlib.nullcontext()


def _following(tensor: Tensor) -> Any:
    """Inside, sow runs on torch's current stream of the tensor's device."""
    return sow.cuda._following(tensor) if tensor.is_cuda else _no_stream


def differentiable(tensor: Tensor) -> bool:
    """Whether its type has gradients."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


# -- eager, with gradients


class _Plan:
    """What a recorded call keeps for its gradient: decided by no data, so made once."""

    __slots__ = ("keep", "like_result", "reads_result", "saved", "shapes", "template")

    def __init__(self, operation: Operation, values: tuple[Any, ...]) -> None:
        self.template, tensors = split(operation, values, is_tensor)
        wanted = tuple(n for n, t in enumerate(tensors) if differentiable(t))
        with _following(tensors[0]):
            read, self.reads_result = Formula(operation, self.template).reads(
                [to_sow(t) for t in tensors], wanted)
        if self.reads_result:  # which a second derivative makes again, of all its arguments
            read = tuple(range(len(tensors)))
        self.saved = read
        # A destination has the shape of the result, unless both broadcast.
        self.like_result = (0 not in read and operation.name + "_" in OPERATIONS
                            and not operation.name.startswith("masked"))
        self.shapes = tuple(n for n in range(self.like_result, len(tensors)) if n not in read)
        # keep(values): what of a call to save, its statics and the other shapes.
        at = operation.arrays
        parts = ([f"v[{at[n]}]" for n in read], [f"v[{n}]" for n in operation.statics],
                 [f"v[{at[n]}].shape" for n in self.shapes])
        self.keep = eval("lambda v: (" + ", ".join(f"({''.join(p + ', ' for p in part)})" for part in parts) + ")")


_plans: dict[Any, _Plan] = {}


class _Quick:
    """What a recorded call asks of its operation, at hand."""

    __slots__ = ("choices", "operation", "plain", "plan", "record", "sources")

    def __init__(self, operation: Operation) -> None:
        self.operation, self.plain, self.choices = operation, operation.plain, operation.choices
        self.plan: _Plan | None = None  # where there is but one
        self.sources = tuple(operation.arrays.index(at) for at in operation.sources)
        # record(self, values): the recorded call, or None where an array is of another class.
        plain = " and ".join(f"type(v[{at}]) in plain" for at in operation.arrays)
        sources = ", ".join(f"v[{at}]" for at in operation.sources)
        self.record = eval(f"lambda self, v: record((self, v), {sources}) if {plain} else None",
                           {"plain": _plain_types, "record": _record})


def _plan_of(quick: _Quick, values: tuple[Any, ...]) -> _Plan:
    operation, choices = quick.operation, quick.choices
    key = operation if choices is None else (operation, choices(values))
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _Plan(operation, values)
    if choices is None:
        quick.plan = plan
    return plan


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """One call on plain tensors, of which one at least wants a gradient."""

    @staticmethod
    def forward(ctx: Any, call: Any, *_: Tensor) -> Any:
        quick, values = call
        result = quick.plain(*values)
        plan = quick.plan or _plan_of(quick, values)
        saved, statics, shapes = plan.keep(values)
        ctx.to_save = (*saved, result) if plan.reads_result else saved  # save_for_backward()
        ctx.call = (plan, quick, statics, shapes)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (plan, quick, statics, shapes), grad, saved = ctx.call, grads[0], ctx.saved_tensors
        operation, needs = quick.operation, ctx.needs_input_grad
        tensors: list[Any] = [None] * len(operation.arrays)
        for n, tensor in zip(plan.saved, saved):
            tensors[n] = tensor
        # Whose data is not read is of the destination's type: indices and masks are read.
        if plan.like_result:
            tensors[0] = _stand_in(grad.shape, grad.dtype, grad.device)
        for n, shape in zip(plan.shapes, shapes):
            tensors[n] = _stand_in(shape, grad.dtype, grad.device)
        template = list(plan.template)
        for at, value in zip(operation.statics, statics):
            template[at] = value
        formula = Formula(operation, tuple(template))
        wanted = tuple(n for n, need in zip(quick.sources, needs[1:]) if need)
        if _grad_enabled() or not _is_plain(grad):
            found = apply(formula.gradient(wanted), [*tensors, grad])
        else:
            result = to_sow(saved[-1]) if plan.reads_result else None
            with _following(grad):
                pulled = formula.pull([to_sow(t) for t in tensors], result, to_sow(grad), wanted)
                found = [own_memory(_core._as_kind_of(g, grad), grad) for g in pulled]
        left = iter(found)
        return tuple(next(left) if need else None for need in needs)


# Function.apply without its look for transformations, which dispatch() has made.
_record = super(torch.autograd.Function, _Recorded).apply
_quick = {name: _Quick(operation) for name, operation in OPERATIONS.items() if operation.is_simple}


def _is_plain(tensor: Tensor) -> bool:
    return bool(type(tensor) in _plain_types and _functorch_level() is None and not _depth()
            and forward_ad._current_level < 0 and not _is_legacy_batch(tensor))


def own_memory(gradient: Tensor, weight: Tensor) -> Tensor:
    """The gradient, or the weight itself where the gradient is its memory: torch tells tensors apart
    by their objects, and adds into those that it believes to be its own."""
    if gradient.numel() and gradient.data_ptr() == weight.data_ptr():
        if gradient.shape == weight.shape and gradient.stride() == weight.stride():
            return weight
        return gradient.clone()
    return gradient


# -- torch.func, forward mode, gradients of gradients


def apply(formula: Formula, tensors: list[Tensor]) -> list[Tensor]:
    """A formula on tensors of any kind, recorded by whoever records."""
    if any(_is_legacy_batch(tensor) for tensor in tensors):
        return _apply_legacy(formula, tensors)
    result = _Formula.apply(formula, *tensors)
    return list(result) if isinstance(result, tuple) else [result]


_is_legacy_batch = torch._C._functorch.is_legacy_batchedtensor


def _apply_legacy(formula: Formula, tensors: list[Tensor]) -> list[Tensor]:
    """Inside of torch.autograd.grad(is_grads_batched=True), whose batches are of an older kind."""
    from . import _vmap

    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    batched = [_is_legacy_batch(tensor) for tensor in tensors]
    whole = [torch._remove_batch_dim(t, level, 1, 0) if b else t for t, b in zip(tensors, batched)]
    size = next(t.shape[0] for t, b in zip(whole, batched) if b)
    results = _vmap.call(formula, whole, tuple(0 if b else None for b in batched), size)
    return [torch._add_batch_dim(result, 0, level) for result in results]


def _transformed(operation: Operation, values: tuple[Any, ...]) -> Tensor:
    template, tensors = split(operation, values, is_tensor)
    return apply(Formula(operation, template), tensors)[0]


class _Formula(torch.autograd.Function):  # type: ignore[misc]
    """A formula and its derivatives of every order and mode, which are formulas too."""

    @staticmethod
    def forward(formula: Formula, *tensors: Tensor) -> Any:
        if _depth() or any(type(t).__torch_dispatch__ is not _no_dispatch for t in tensors):
            from . import _library

            return tuple(_library.evaluate(formula, list(tensors)))
        return tuple(_apart(result, tensors) for result in evaluate(formula, list(tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        formula, *tensors = inputs
        ctx.formula = formula
        ctx.outputs = [(o.shape, o.dtype, o.device) for o in output]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tensors = ctx.saved_tensors
        wanted = tuple(i for i, need in enumerate(ctx.needs_input_grad[1:])
                       if need and differentiable(tensors[i]))
        found = apply(ctx.formula.gradient(wanted), [*tensors, *grads])
        gradients: list[Any] = [None] * (len(tensors) + 1)
        for i, gradient in zip(wanted, found):
            gradients[i + 1] = gradient
        return tuple(gradients)

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        tensors = ctx.saved_tensors
        wanted = tuple(i for i, tangent in enumerate(tangents) if tangent is not None)
        weights = [_stand_in(*o) for o in ctx.outputs]
        count = len(tensors)
        forward = ctx.formula.gradient(wanted).gradient(tuple(range(count, count + len(weights))))
        return tuple(apply(forward, [*tensors, *weights, *(tangents[i] for i in wanted)]))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], formula: Formula, *tensors: Tensor) -> Any:
        from . import _vmap

        results = _vmap.call(formula, list(tensors), in_dims[1:], info.batch_size)
        return tuple(results), tuple(0 for _ in results)


def _apart(result: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
    """A result that shares no memory with what it was made of."""
    if result.numel() and any(result.data_ptr() == t.data_ptr() for t in tensors):
        return result.clone()
    return result

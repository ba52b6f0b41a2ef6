# SPDX-License-Identifier: Apache-2.0
"""Every operation as torch.ops.sow.*: what compile, export, fake tensors and modes see.

Schemas, shapes, gradients and batches are derived from the table of operations. `sow::gradient` is
the one operation for every derivative: its formula travels as text, its symbolic numbers apart.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sow

from .. import _core
from .._frameworks import OPERATIONS, Formula, Operation, Parameter, Slot, fill, split
from . import _dtensor, _graph

_TYPES = {
    "destination": "Tensor", "array": "Tensor", "keys": "Tensor", "keys_list": "Tensor?[]",
    "shape": "SymInt[]", "axes": "int[]?", "int": "SymInt", "bool": "bool", "float": "float", "ints": "SymInt[]?",
    "number": "Scalar",
    "start": "SymInt?", "end": "SymInt?", "reduce": "str?", "bounds": "str",
}
_SKIPPED = ("stream", "name")
_library = torch.library.Library("sow", "DEF")
_ready: dict[str, Any] = {}


def _parameters(operation: Operation) -> list[tuple[int, Parameter]]:
    return [(i, p) for i, p in enumerate(operation.parameters) if p.role not in _SKIPPED]


def _schema(operation: Operation, scalars: tuple[str, ...]) -> str:
    parts = []
    for _, p in _parameters(operation):
        kind = _TYPES.get(p.role) or ("Scalar" if p.name in scalars else "Tensor")
        if p.default is None and p.role in ("int", "array"):  # a number of groups, weights
            kind = "int?" if p.role == "int" else "Tensor?"
        elif p.role == "int" and f" {p.name}: int | None" in operation.function.__nb_signature__[0][0]:  # type: ignore[attr-defined]
            kind = "int?"  # the axis of flattened arrays
        parts.append(f"{kind} {p.name}")
    return f"({', '.join(parts)}) -> Tensor"


def _overloads(operation: Operation) -> list[tuple[str, tuple[str, ...]]]:
    values = [p.name for _, p in _parameters(operation) if p.role == "values"]
    names: list[tuple[str, tuple[str, ...]]] = [("", ())]
    if values:
        names.append(("Scalar", tuple(values[-1:])))
    if len(values) > 1:
        names += [("Scalar_first", tuple(values[:1])), ("Scalar_both", tuple(values))]
    return names


# -- running


def _plain(operation: Operation, values: tuple[Any, ...]) -> Tensor:
    """The kernel: below torch's autograd, on real tensors. Its result is dense and nobody's view."""
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    try:
        full = _complete(operation, values)
        destination, in_place = full[operation.arrays[0]], OPERATIONS.get(operation.name + "_")
        if (destination.is_cuda and in_place is not None and in_place.names == operation.names
                and operation.name not in _BROADCAST and operation.arrays[0] == 0):
            result: Tensor = destination.clone(memory_format=torch.contiguous_format)
            in_place.plain(result, *full[1:])
            return result
        return _owned(operation.plain(*full).contiguous())
    finally:
        torch._C._set_grad_enabled(before)


def _owned(result: Tensor) -> Tensor:
    """In torch's own memory on a GPU, as its captured graphs (mode="reduce-overhead") check of every result."""
    return result.clone() if result.is_cuda else result


def _complete(operation: Operation, values: tuple[Any, ...]) -> tuple[Any, ...]:
    given = iter(values)
    return tuple(p.default if p.role in _SKIPPED else next(given) for p in operation.parameters)


def call(operation: Operation, values: tuple[Any, ...]) -> Tensor:
    """A call on tensors of which one at least is no plain one, as the registered operation."""
    scalars, given = [], []
    first = values[operation.arrays[0]]
    for i, p in _parameters(operation):
        value = values[i]
        if p.role in ("destination", "array"):
            value = _tensor(operation, p, value, first)
        elif p.role == "keys":
            value = _keys(operation, p, value, first)
        elif p.role == "keys_list":
            several = isinstance(value, (tuple, list)) and not all(isinstance(v, int) for v in value)
            value = [None if v is None else _keys(operation, p, v, first) for v in (value if several else [value])]
        elif p.role == "values":
            if isinstance(value, (bool, int, float, complex, torch.SymInt, torch.SymFloat)):
                scalars.append(p.name)
                # A graph is made for this number: what it does to a gradient depends on it.
                if isinstance(value, torch.SymInt):
                    value = int(value)
                elif isinstance(value, torch.SymFloat):
                    value = float(value)
            else:
                value = _tensor(operation, p, value, first)
        elif p.role in ("shape", "axes", "ints") and value is not None:
            value = [value] if isinstance(value, (int, torch.SymInt)) else list(value)
        elif p.role == "number" and isinstance(value, (torch.SymInt, torch.SymFloat)):
            value = int(value) if isinstance(value, torch.SymInt) else float(value)
        given.append(value)
    name = next(n for n, s in _overloads(operation) if s == tuple(scalars))
    overload = getattr(_operator(operation), name or "default")
    if any(_dtensor.is_sharded(value) for value in given):
        _dtensor.prepare(overload, operation)
    return overload(*given)


def _tensor(operation: Operation, parameter: Parameter, value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, bool, int, float, complex)):
        return torch.tensor(value, dtype=like.dtype, device=like.device)
    return _foreign(operation, parameter, value)


def _keys(operation: Operation, parameter: Parameter, value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, int)):
        return torch.tensor(value, dtype=torch.int64, device=like.device)
    return _foreign(operation, parameter, value)


def _foreign(operation: Operation, parameter: Parameter, value: Any) -> Tensor:
    if isinstance(value, sow.Index):
        raise TypeError(f"{operation.name}: {parameter.name} is a held sow.Index, which compile, export "
                        "and fake tensors do not take; pass its keys as a tensor")
    if isinstance(value, np.ndarray) and not value.flags.writeable:  # torch has no such tensors, and warns
        value = value.copy()
    return torch.as_tensor(value)


def _operator(operation: Operation) -> Any:
    found = _ready.get(operation.name)
    if found is None:
        _define(operation)
        found = _ready[operation.name] = getattr(torch.ops.sow, operation.name)
    return found


def define_all() -> list[Any]:
    """Every registered operation, defined now: what opcheck and exported programs need."""
    packets = [_operator(o) for o in OPERATIONS.values() if o.form == "out"]
    return [getattr(packet, name) for packet in packets for name in packet.overloads()]


def _define(operation: Operation) -> None:
    for name, scalars in _overloads(operation):
        full = f"{operation.name}.{name}" if name else operation.name
        tags = [torch.Tag.pt2_compliant_tag]
        _library.define(full + _schema(operation, scalars), tags=tags)
        _library.impl(full, lambda *values: _plain(operation, values), "CompositeExplicitAutograd")
        torch.library.register_fake(f"sow::{full}", lambda *values: _fake(operation, values), lib=_library)
        torch.library.register_autograd(
            f"sow::{full}", lambda ctx, grad: _backward(ctx, grad),
            setup_context=lambda ctx, inputs, output: _setup(ctx, operation, inputs, output),
            lib=_library)
        torch.library.register_vmap(
            f"sow::{full}", lambda info, dims, *values: _vmapped(operation, info, dims, values),
            lib=_library)


# -- types and shapes without data


def _extent(n: Any) -> int | None:
    return n if type(n) is int else None


_NAMES = {torch.bool: "bool"}
_TORCH_TYPES = {
    str(_NAMES.get(t, t)).removeprefix("torch."): t
    for t in (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
              torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
}


def _symbolic(program: _core.Program, tensor: Tensor, number: int, points: bool) -> Any:
    name = str(_NAMES.get(tensor.dtype, tensor.dtype)).removeprefix("torch.")
    if name not in _TORCH_TYPES:
        raise TypeError(f"a tensor of {tensor.dtype}, which is none of sow's types")
    shape = [_extent(n) for n in tensor.shape]
    if points and shape:  # how many axes a point addresses is part of the graph
        shape[-1] = int(tensor.shape[-1])
    return program.input(str(number), shape, name)


def _fake(operation: Operation, values: tuple[Any, ...]) -> Tensor:
    """The core's own infer says the type, the shape and what is wrong; torch's symbols fill in."""
    full = _complete(operation, values)
    template, tensors = split(operation, full, _graph.is_tensor)
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        first, second = list(devices)[:2]
        raise RuntimeError(f"{operation.name}: operands are on {first} and {second}; they must be on one "
                           "device")
    program = _core.Program()
    known = [v if not isinstance(v, (list, torch.SymInt)) else _known(p, v, tensors)
             for p, v in zip(operation.parameters, template)]
    points = {v.at for p, v in zip(operation.parameters, template)
              if p.role == "keys" and isinstance(v, Slot) and "_nd" in operation.name}
    result = operation.plain(
        *fill(tuple(known), [_symbolic(program, t, i, i in points) for i, t in enumerate(tensors)]))
    name = result.dtype.name
    dtype = _TORCH_TYPES["bool" if name == "bool_" else name]
    shape = [n if n >= 0 else None for n in result.shape]
    if None in shape or operation.name == "scatter_nd":
        shape = _shape(operation, full, shape)
    return tensors[0].new_empty(shape, dtype=dtype)


def _known(parameter: Parameter, value: Any, tensors: list[Tensor]) -> Any:
    """A symbolic number as some number that is right for it; only extents depend on it."""
    if isinstance(value, list):
        unknown = 0 if parameter.role == "ints" else 1
        return [v if not isinstance(v, torch.SymInt) else int(v.node.hint or unknown) for v in value]
    return int(value.node.hint or 0)


def _shape(operation: Operation, values: tuple[Any, ...], known: list[Any]) -> list[Any]:
    """The extents that the core does not know, in torch's symbols."""
    given = dict(zip(operation.names, values))
    name, x = operation.name, values[operation.arrays[0]]
    if name == "masked_select":
        return [torch.library.get_ctx().new_dynamic_size()]
    if name == "nonzero":
        return [torch.library.get_ctx().new_dynamic_size(), x.dim()]
    if name == "scatter_nd":
        return list(given["shape"])
    if name == "gather":
        return list(given["index"].shape)
    if name == "take_along_axis":
        index = given["indices"].shape
        if given["axis"] is None or not given["broadcast"]:
            return list(index)
        axis = given["axis"] % max(x.dim(), 1)
        return [n if i == axis else m for i, (n, m) in enumerate(zip(index, x.shape))]
    if name == "index_select":
        axis = given["axis"] % max(x.dim(), 1)
        return [given["index"].numel() if i == axis else n for i, n in enumerate(x.shape)]
    if name == "gather_nd":
        indices = given["indices"].shape
        return [*indices[:-1], *x.shape[given["batch_dims"] + indices[-1]:]]
    if name == "index_get" and all(k is None or k.dtype is not torch.bool for k in given["indices"]):
        return list(x[tuple(slice(None) if k is None else k for k in given["indices"])].shape)
    if name in _GROUPS:
        return _shape_of_groups(name, given, x)
    if name in ("sum", "mean"):
        axes = given["axis"]
        gone = range(x.dim()) if axes is None or not axes else [a % x.dim() for a in axes]
        kept = [1 if i in gone else n for i, n in enumerate(x.shape)]
        return kept if given["keepdim"] else [n for i, n in enumerate(x.shape) if i not in gone]
    if name not in _BROADCAST and name + "_" not in OPERATIONS and any(p.is_index for p in operation.parameters):
        raise NotImplementedError(f"{name}: its shape is not known where extents are symbols; compile with dynamic=False")
    if name in _BROADCAST or name + "_" not in OPERATIONS:  # elementwise
        return list(torch.broadcast_shapes(*(
            v.shape for i, v in enumerate(values) if isinstance(v, Tensor)
            and not (name == "masked_scatter" and i == 2))))
    return list(x.shape)


_BROADCAST = {"masked_scatter", "masked_fill"}
_GROUPS = {"group_reduce", "group_softmax", "group_log_softmax", "segment_reduce", "gather_csr", "segment_cumsum",
           "send_u_recv", "send_ue_recv", "send_uv"}


def _shape_of_groups(name: str, given: dict[str, Any], x: Tensor) -> list[Any]:
    """With groups, segments, places or edges where x has slices."""
    shape, size = list(x.shape), given.get("size", given.get("out_size"))
    if name.startswith("send_"):
        edges = given["dst_index"].shape[0]
        if name == "send_uv":
            return list(torch.broadcast_shapes((edges, *shape[1:]), (edges, *given["y"].shape[1:])))
        rows = torch.broadcast_shapes(shape[1:], given["y"].shape[1:]) if name == "send_ue_recv" else shape[1:]
        return [shape[0] if size is None else size, *rows]
    if name in ("group_softmax", "group_log_softmax", "segment_cumsum"):
        return shape
    shape[given["axis"] % len(shape)] = given["pointers"].shape[0] - 1 if name == "segment_reduce" else size
    return shape


# -- gradients


def _encode(formula: Formula) -> tuple[str, list[Any]]:
    numbers: list[Any] = []

    def item(value: Any) -> Any:
        if isinstance(value, Slot):
            return {"tensor": value.at}
        if isinstance(value, list):
            return [item(v) for v in value]
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch.SymInt):
            numbers.append(value)
            return {"number": len(numbers) - 1}
        return value

    text = json.dumps({"op": formula.operation.name, "values": [item(v) for v in formula.template],
                       "wanted": formula.wanted})
    return text, numbers


def _decode(text: str, numbers: Any) -> Formula:
    def item(value: Any) -> Any:
        if isinstance(value, list):
            return [item(v) for v in value]
        if not isinstance(value, dict):
            return value
        (kind, content), = value.items()
        if kind == "tensor":
            return Slot(content)
        return numbers[content] if kind == "number" else complex(*content)

    read = json.loads(text)
    return Formula(OPERATIONS[read["op"]], tuple(item(v) for v in read["values"]),
                   tuple(tuple(w) for w in read["wanted"]))


def evaluate(formula: Formula, tensors: list[Tensor]) -> list[Tensor]:
    """A formula on tensors that are fake, traced or watched."""
    if formula.level == 0:
            return [call(formula.operation, fill(formula.template, tensors))]
    if any(_dtensor.is_sharded(tensor) for tensor in tensors):
        # A rule of DTensor is for one result.
        _dtensor.prepare(torch.ops.sow.single_gradient.default, None)
        return [torch.ops.sow.single_gradient(i, *_arguments(Formula(
            formula.operation, formula.template, (*formula.wanted[:-1], (i,))), tensors))
            for i in formula.wanted[-1]]
    found: list[Tensor] = torch.ops.sow.gradient(*_arguments(formula, tensors))
    return found


def _arguments(formula: Formula, tensors: list[Tensor]) -> tuple[str, list[Tensor], list[Any]]:
    text, numbers = _encode(formula)
    return text, tensors, numbers


def _run_gradient(text: str, tensors: list[Tensor], numbers: list[int]) -> list[Tensor]:
    results = _graph.evaluate(_decode(text, numbers), tensors)
    taken: list[Tensor] = list(tensors)
    for result in results:  # a registered operation returns no memory twice
        taken.append(_owned(_graph._apart(result, tuple(taken)).contiguous()))
    return taken[len(tensors):]


def _fake_gradient(text: str, tensors: list[Tensor], numbers: list[int]) -> list[Tensor]:
    wanted = _decode(text, numbers).wanted[-1]
    return [tensors[i].new_empty(tensors[i].shape) for i in wanted]


def _setup(ctx: Any, operation: Operation, inputs: tuple[Any, ...], output: Tensor) -> None:
    template, tensors = split(operation, _complete(operation, inputs), _graph.is_tensor)
    formula = Formula(operation, template)
    ctx.formula = formula
    needed = _reads(formula, tensors)
    ctx.read = [n in needed for n in range(len(tensors))]
    ctx.shapes = [None if read else (t.shape, t.dtype) for t, read in zip(tensors, ctx.read)]
    ctx.differentiable = [_graph.differentiable(t) for t in tensors]
    ctx.save_for_backward(*(t for t, read in zip(tensors, ctx.read) if read))


_read: dict[Any, tuple[int, ...]] = {}


def _reads(formula: Formula, tensors: list[Tensor]) -> tuple[int, ...]:
    """Which tensors' data the gradient reads: asked of tensors of these shapes without memory."""
    operation = formula.operation
    key = (operation, operation.choices and operation.choices(formula.template), len(tensors))
    if key not in _read:
        everything = tuple(range(len(tensors)))
        wanted = tuple(i for i in everything if _graph.differentiable(tensors[i]))
        try:
            read, result = formula.reads([_hollow(t) for t in tensors], wanted)
            _read[key] = everything if result else read
        except (ValueError, TypeError, IndexError):  # an extent that nobody knows yet
            return everything
    return _read[key]


def _hollow(tensor: Tensor) -> _core.Tensor:
    shape = [n if type(n) is int else n.node.hint for n in tensor.shape]
    if None in shape:
        raise ValueError("an extent without a hint")
    zero = _core.zeros([], str(_NAMES.get(tensor.dtype, tensor.dtype)).removeprefix("torch."))
    return _core.broadcast_to(zero, shape)


def _backward(ctx: Any, grad: Tensor) -> Any:
    saved = iter(ctx.saved_tensors)
    tensors = [next(saved) if read else grad.new_zeros((), dtype=shape[1]).expand(shape[0])
               for read, shape in zip(ctx.read, ctx.shapes)]
    # Which inputs want one is known by their place in the schema; lists are of indices.
    formula = ctx.formula
    wanted = []
    places: dict[int, int] = {}
    for position, (at, _) in enumerate(_parameters(formula.operation)):
        value = formula.template[at]
        if isinstance(value, Slot) and ctx.differentiable[value.at] and ctx.needs_input_grad[position]:
            wanted.append(value.at)
            places[value.at] = position
    gradients: list[Any] = [
        [None] * len(formula.template[at]) if p.role == "keys_list" else None
        for at, p in _parameters(formula.operation)]
    if wanted:
        order = tuple(sorted(wanted))
        for n, gradient in zip(order, evaluate(formula.gradient(order), [*tensors, grad])):
            gradients[places[n]] = gradient
    return tuple(gradients)


def _setup_gradient(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    text, tensors, numbers = inputs
    ctx.formula = _decode(text, numbers)
    ctx.count = len(numbers)
    ctx.save_for_backward(*tensors)


def _backward_gradient(ctx: Any, grads: list[Tensor]) -> Any:
    tensors = list(ctx.saved_tensors)
    wanted = tuple(i for i, t in enumerate(tensors) if _graph.differentiable(t))
    given = [t.new_zeros(t.shape) if g is None else g
             for g, t in zip(grads, (tensors[i] for i in ctx.formula.wanted[-1]))]
    found = dict(zip(wanted, evaluate(ctx.formula.gradient(wanted), [*tensors, *given])))
    return None, [found.get(i) for i in range(len(tensors))], None


# -- batches


def _vmapped(operation: Operation, info: Any, dims: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
    from . import _vmap

    full, all_dims = _complete(operation, values), _complete_dims(operation, dims)
    template, tensors = split(operation, full, _graph.is_tensor)
    flat: list[Any] = []
    for at in operation.arrays:
        if isinstance(full[at], (list, tuple)):
            given = all_dims[at] if isinstance(all_dims[at], (list, tuple)) else [None] * len(full[at])
            flat += [d for d, v in zip(given, full[at]) if isinstance(v, Tensor)]
        elif isinstance(full[at], Tensor):
            flat.append(all_dims[at])
    return _vmap.call(Formula(operation, template), tensors, tuple(flat), info.batch_size)[0], 0


def _complete_dims(operation: Operation, dims: tuple[Any, ...]) -> tuple[Any, ...]:
    given = iter(dims)
    return tuple(None if p.role in _SKIPPED else next(given, None) for p in operation.parameters)


_library.define("gradient(str formula, Tensor[] tensors, SymInt[] numbers) -> Tensor[]",
                tags=[torch.Tag.pt2_compliant_tag])
_library.impl("gradient", _run_gradient, "CompositeExplicitAutograd")
torch.library.register_fake("sow::gradient", _fake_gradient, lib=_library)
torch.library.register_autograd("sow::gradient", _backward_gradient, setup_context=_setup_gradient,
                                lib=_library)
# DTensor remembers a call by its arguments from the first int on.
_library.define("single_gradient(int wanted, str formula, Tensor[] tensors, SymInt[] numbers) -> Tensor",
                tags=[torch.Tag.pt2_compliant_tag])
_library.impl("single_gradient", lambda wanted, *args: _run_gradient(*args)[0], "CompositeExplicitAutograd")
torch.library.register_fake("sow::single_gradient", lambda wanted, *args: _fake_gradient(*args)[0], lib=_library)
torch.library.register_autograd(
    "sow::single_gradient", lambda ctx, grad: (None, *_backward_gradient(ctx, [grad])),
    setup_context=lambda ctx, inputs, output: _setup_gradient(ctx, inputs[1:], output), lib=_library)

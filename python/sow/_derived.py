# SPDX-License-Identifier: Apache-2.0
"""Calls of sow as values, for frameworks that build graphs: an operation with holes for its arrays, the
derivatives of it to any order, and the program of sow that computes each of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _core
from ._core import Program, Tensor
from ._frameworks import OPERATIONS, Parameter

DIFFERENTIABLE = frozenset(
    {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})
TYPES = DIFFERENTIABLE | {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}


Meta = tuple[tuple[Any, ...], str]  # the shape and the type of an array


class Hole(NamedTuple):
    """Where an array goes in a call."""

    number: int


_NOT_GIVEN = object()


@functools.cache
def parameters(op: str) -> tuple[Parameter, ...]:
    """Of an operation, without the stream, in the order of its Python signature."""
    signature = getattr(_core, op).__nb_signature__[0][0]
    order = re.findall(r"(\w+): ", signature)
    listed = [p for p in OPERATIONS[op].parameters if p.role != "stream"]
    return tuple(sorted(listed, key=lambda p: order.index(p.name)))


def is_operation(name: str) -> bool:
    """Whether sow has a function of this name that takes arrays and returns one."""
    return name in OPERATIONS


class Core:
    """A function from arrays to arrays that sow computes, known by its key.

    `arguments` arrays go in. The program takes `feeds`: ("a", k) is argument k, ("r", j) an array of
    which only the shape counts, and which has that of result j.
    """

    key: str
    arguments: int
    outputs: int
    feeds: list[tuple[str, int]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Core) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    def place(self, argument: int) -> int:
        """Which input of the program an argument is."""
        return argument

    def linear(self) -> frozenset[int] | None:
        """The arguments it is linear in, taken together; None: whichever of them are differentiable."""
        raise NotImplementedError

    def ignores(self) -> frozenset[int]:
        """Arguments whose data does not count."""
        return frozenset()

    def build(self, program: Program, inputs: list[Tensor]) -> list[Tensor]:
        raise NotImplementedError

    def results(self, metas: Sequence[Meta]) -> list[Meta]:
        """Shapes and types of the results, given those of the program's inputs."""
        raise NotImplementedError


# What an operation that is not here computes may depend on its arguments in any way.
_LINEAR = frozenset({
    "masked_scatter", "masked_fill", "put_along_axis", "scatter", "scatter_add", "scatter_reduce", "take_along_axis",
    "gather", "index_add", "index_copy", "index_fill", "index_reduce", "index_select", "index_put", "gather_nd",
    "scatter_nd", "tensor_scatter_nd_update", "tensor_scatter_nd_add", "tensor_scatter_nd_sub", "diagonal_scatter",
    "select_scatter", "slice_scatter", "fill_diagonal", "diagonal", "select", "slice", "broadcast_to", "flatten",
    "reshape", "transpose", "add", "sub", "neg", "conj", "where", "sum", "mean", "group_reduce", "segment_reduce",
    "gather_csr", "segment_cumsum", "bincount"})
_LINEAR_REDUCE = frozenset({None, "assign", "add", "sum", "mean"})


class Op(Core):
    """One operation. `given` maps its parameters to values, with holes where arrays go."""

    def __init__(self, name: str, given: dict[str, Any]):
        self.name = name
        self.given = given
        self.key = f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})"
        self.holes: dict[int, str] = {}
        for parameter, value in given.items():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Hole):
                    self.holes[item.number] = parameter
        self.arguments = len(self.holes)
        self.outputs = 1
        self.feeds = [("a", k) for k in range(self.arguments)]

    def replaced(self, **changes: Any) -> Op:
        return Op(self.name, {**self.given, **changes})

    def hole(self, parameter: str) -> int | None:
        value = self.given.get(parameter)
        return value.number if isinstance(value, Hole) else None

    def linear(self) -> frozenset[int] | None:
        if self.name in ("mul", "div"):
            return None if self.arguments == 1 and 0 in self.holes and self.holes[0] == "a" else frozenset()
        linear = self.name in _LINEAR and self.given.get("reduce") in _LINEAR_REDUCE
        return None if linear else frozenset()

    def homogeneous(self) -> Op:
        """The linear part: what a number adds is left out."""
        if self.name in ("mul", "div"):
            return self
        numbers = {p.name: type(self.given[p.name])(0) for p in parameters(self.name)
                   if p.role == "values" and not isinstance(self.given[p.name], Hole)}
        return self.replaced(**numbers) if numbers else self

    def filled(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The arguments of the call, with arrays in its holes."""

        def fill(value: Any) -> Any:
            if isinstance(value, Hole):
                return arrays[value.number]
            return [fill(item) for item in value] if isinstance(value, list) else value

        return {parameter: fill(value) for parameter, value in self.given.items()}

    def build(self, program: Program, inputs: list[Tensor]) -> list[Tensor]:
        return [getattr(_core, self.name)(**self.filled(inputs))]

    def results(self, metas: Sequence[Meta]) -> list[Meta]:
        program = Program()
        inputs = [program.input(f"{k}", shape, dtype) for k, (shape, dtype) in enumerate(metas)]
        return [(tuple(out.shape), out.dtype.name) for out in self.build(program, inputs)]


class Vjp(Core):
    """From a core's arguments and the gradients of its results to the gradients of the arguments `wrt`.

    Arguments that are `missing` (linear ones, wanted) are left out: their shape is that of the result.
    So are those that are `alike`: their data does not count, and their shape is that of the gradient.
    conjugate: by the convention of JAX, in which nothing is conjugated, instead of PyTorch's.
    """

    def __init__(self, inner: Core, wrt: Sequence[int], missing: Sequence[int] = (), alike: Sequence[int] = (),
                 conjugate: bool = False):
        self.inner, self.wrt, self.missing, self.alike = inner, tuple(wrt), tuple(missing), tuple(alike)
        self.conjugate = conjugate
        self.key = f"vjp({inner.key}, {self.wrt}, {self.missing}, {self.alike}{', conj' if conjugate else ''})"
        kept = [k for k in range(inner.arguments) if k not in self.missing + self.alike]
        self.kept = kept
        self.arguments = len(kept) + inner.outputs
        self.outputs = len(self.wrt)
        self.feeds = []
        for kind, k in inner.feeds:
            if kind == "r":
                self.feeds.append(("a", len(kept) + k))
            elif k in self.missing:
                self.feeds.append(("r", self.wrt.index(k)))
            elif k in self.alike:
                self.feeds.append(("a", len(kept)))
            else:
                self.feeds.append(("a", kept.index(k)))
        self.feeds += [("a", len(kept) + j) for j in range(inner.outputs)]

    def place(self, argument: int) -> int:
        if argument < len(self.kept):
            return self.inner.place(self.kept[argument])
        return len(self.inner.feeds) + argument - len(self.kept)

    def linear(self) -> frozenset[int] | None:
        return frozenset(range(len(self.kept), self.arguments))

    def ignores(self) -> frozenset[int]:
        if self.inner.linear() is None:
            return frozenset(range(len(self.kept)))
        return frozenset(self.kept.index(k) for k in self.inner.ignores() if k in self.kept)

    def build(self, program: Program, inputs: list[Tensor]) -> list[Tensor]:
        count = len(self.inner.feeds)
        results = self.inner.build(program, inputs[:count])
        grads = inputs[count:]
        if self.conjugate:
            grads = [_core.conj(grad) for grad in grads]
        targets = [inputs[self.inner.place(k)] for k in self.wrt]
        found = list(program.gradients(results, targets, grads))
        return [_core.conj(grad) for grad in found] if self.conjugate else found

    def results(self, metas: Sequence[Meta]) -> list[Meta]:
        return [metas[self.inner.place(k)] for k in self.wrt]


class Jvp(Core):
    """From a core's arguments and tangents of the arguments `wrt` to the tangents of its results.

    The gradient is linear in the gradient of the result; the gradient of that is the tangent.
    """

    def __init__(self, inner: Core, wrt: Sequence[int]):
        self.inner, self.wrt = inner, tuple(wrt)
        self.key = f"jvp({inner.key}, {self.wrt})"
        self.arguments = inner.arguments + len(self.wrt)
        self.outputs = inner.outputs
        self.feeds = [*inner.feeds, *(("a", inner.arguments + t) for t in range(len(self.wrt))),
                      *(("r", j) for j in range(inner.outputs))]

    def place(self, argument: int) -> int:
        if argument < self.inner.arguments:
            return self.inner.place(argument)
        return len(self.inner.feeds) + argument - self.inner.arguments

    def linear(self) -> frozenset[int] | None:
        return frozenset(range(self.inner.arguments, self.arguments))

    def ignores(self) -> frozenset[int]:
        return self.inner.ignores()

    def build(self, program: Program, inputs: list[Tensor]) -> list[Tensor]:
        count, tangents = len(self.inner.feeds), len(self.wrt)
        results = self.inner.build(program, inputs[:count])
        weights = inputs[count + tangents:]
        targets = [inputs[self.inner.place(k)] for k in self.wrt]
        grads = program.gradients(results, targets, weights)
        return list(program.gradients(grads, weights, inputs[count:count + tangents]))

    def results(self, metas: Sequence[Meta]) -> list[Meta]:
        return self.inner.results(metas[:len(self.inner.feeds)])


def read(name: str, args: Sequence[Any], kwargs: dict[str, Any],
         is_array: Callable[[Any], bool]) -> tuple[Op, list[Any]]:
    """A call as an Op and the arrays it was given, lists among them; an Index gives its keys."""
    known = parameters(name)
    if len(args) > len(known):
        raise TypeError(f"{name}: {len(args)} arguments were given; it takes {len(known)}")
    given = dict(zip((p.name for p in known), args))
    for key, value in kwargs.items():
        if key == "stream" and value is None:
            continue
        if key == "stream":
            raise ValueError(f"{name}: inside of a graph the framework chooses the stream; leave stream= out")
        if key in given or key not in {p.name for p in known}:
            raise TypeError(f"{name}: '{key}' is {'given twice' if key in given else 'no argument of it'}")
        given[key] = value
    arrays: list[Any] = []
    bounds = given.get("bounds", "error")

    def hole(value: Any) -> Hole:
        nonlocal bounds
        if isinstance(value, _core.Index):
            if bounds not in ("error", value.bounds):
                raise ValueError(f"{name}: an Index has bounds of its own; leave bounds= out")
            bounds, value = value.bounds, value.keys
        arrays.append(value if is_array(value) else _core.asarray(value))
        return Hole(len(arrays) - 1)

    values: dict[str, Any] = {}
    for parameter in known:
        value = given.get(parameter.name, _NOT_GIVEN)
        if value is _NOT_GIVEN:
            if parameter.required:
                raise TypeError(f"{name}: '{parameter.name}' is missing")
            value = parameter.default
        takes = parameter.is_array and (
            is_array(value) or isinstance(value, (list, tuple, _core.Index, Tensor)))
        if takes and parameter.role == "keys_list" and isinstance(value, (list, tuple)) and any(
                not isinstance(item, int) for item in value):
            value = [None if item is None else hole(item) for item in value]
        elif takes:
            value = hole(value)
        if parameter.role != "name":
            values[parameter.name] = value
    if "bounds" in values:
        values["bounds"] = bounds
    return Op(name, values), arrays


def base(core: Core) -> Op:
    """The operation that a core is derived from; the first inputs of its program are that one's."""
    while not isinstance(core, Op):
        core = core.inner  # type: ignore[attr-defined]
    return core


def saved_program(core: Core, metas: Sequence[Meta]) -> bytes:
    """The program of a core for inputs of these types and ranks, and any extents."""
    op = base(core)
    # How many axes a row of coordinates addresses decides the rank of the result.
    known = op.hole("indices") if op.name.endswith("_nd") or "_nd_" in op.name else None
    # Coordinates that are batched are completed by positions, which are constants of the program.
    batched = bool(op.given.get("batch_dims"))

    def extents(k: int, shape: tuple[Any, ...]) -> tuple[int | None, ...]:
        if batched:
            return shape
        # What has an extent of 1 may be meant to broadcast.
        any_extents = tuple(1 if type(n) is int and n == 1 else None for n in shape)
        return (*any_extents[:-1], shape[-1]) if k == known else any_extents

    return _saved_program(core, tuple((dtype, extents(k, shape)) for k, (shape, dtype) in enumerate(metas)))


@functools.lru_cache(maxsize=4096)
def _saved_program(core: Core, kinds: tuple[tuple[str, tuple[int | None, ...]], ...]) -> bytes:
    program = Program()
    inputs = [program.input(f"{k}", shape, dtype) for k, (dtype, shape) in enumerate(kinds)]
    for number, result in enumerate(core.build(program, inputs)):
        program.output(f"{number}", result)
    return bytes(program.serialize())

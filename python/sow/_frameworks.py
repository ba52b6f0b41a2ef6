# SPDX-License-Identifier: Apache-2.0
"""The one table that sow.torch, sow.jax and sow.paddle are derived from, and how calls reach them.

A call whose arrays another library must see (they require a gradient, are traced, fake or static)
goes from the bindings to the function that the library's module registered with `register`: it gets
the name of the operation and all arguments in the order of `Operation.parameters`, defaults filled
in. What it returns is the call's result; NotImplemented sends the call back to the plain path.
The module (sow.torch, sow.jax, sow.paddle) is imported when the first such array shows up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from . import _core
from ._core import Tensor

_REQUIRED = object()


def _getter(at: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(at) > 1:
        found: Callable[[tuple[Any, ...]], tuple[Any, ...]] = itemgetter(*at)
        return found
    return (lambda values: (values[at[0]],)) if at else lambda values: ()


@dataclass(frozen=True)
class Parameter:
    """One argument of an operation.

    role: destination (the first array: results are of its kind), array, values (an array or a
    number), keys (an index), keys_list (one or several), and, static: int, bool, float, shape,
    axes, ints, number, start, end, reduce, bounds, name, stream.
    """

    name: str
    role: str
    default: Any = _REQUIRED

    @property
    def is_array(self) -> bool:
        """Whether arrays are given here."""
        return self.role in ("destination", "array", "values", "keys", "keys_list")

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is _REQUIRED

    @property
    def is_index(self) -> bool:
        """Whether it addresses places, so that no gradient goes there."""
        return self.role in ("keys", "keys_list")


@dataclass(frozen=True, eq=False)
class Operation:
    """A function of sow: its names, its arguments, its form ("out", "in_place" or "view")."""

    name: str
    stem: str
    form: str
    parameters: tuple[Parameter, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the arguments, in the order in which a dispatched call has them."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def arrays(self) -> tuple[int, ...]:
        """Which arguments are arrays."""
        return tuple(i for i, p in enumerate(self.parameters) if p.is_array)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Which arguments are arrays of values: what gradients go to, if their type has one."""
        return tuple(i for i, p in enumerate(self.parameters) if p.is_array and not p.is_index)

    @cached_property
    def statics(self) -> tuple[int, ...]:
        """Which arguments are no arrays."""
        return tuple(i for i, p in enumerate(self.parameters) if not p.is_array)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The plain function."""
        found: Callable[..., Any] = getattr(_core, self.name)
        return found

    def position(self, name: str) -> int:
        """Where an argument is; ValueError if there is none of this name."""
        return self.names.index(name)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The plain function with all arguments positional, as a dispatched call has them."""
        signature: str = self.function.__nb_signature__[0][0]  # type: ignore[attr-defined]
        before, _, after = signature.partition("*, ")
        named = [n for n in self.names if re.search(rf"\b{n}: ", after)]
        if self.name == "scatter_nd":
            given = ["indices", "updates", "shape"]
        else:
            given = [n for n in self.names if n not in named]
        usual = " and ".join(f"{n} is {n}_" for n in named) or "True"
        defaults = {f"{p.name}_": p.default for p in self.parameters}
        source = (f"lambda {', '.join(self.names)}: f({', '.join(given)}) if {usual} else "
                  f"f({', '.join([*given, *(f'{n}={n}' for n in named)])})")
        made: Callable[..., Any] = eval(source, {"f": self.function, **defaults})
        return made

    @cached_property
    def is_simple(self) -> bool:
        """Whether every array argument is one array, or may be."""
        return self.form == "out" and all(
            self.parameters[i].role in ("destination", "array", "keys", "values") for i in self.arrays)

    @cached_property
    def choices(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        """What decides which data a gradient reads: reductions and switches. None: nothing does."""
        at = tuple(i for i, p in enumerate(self.parameters) if p.role in ("reduce", "bool"))
        return _getter(at) if at else None

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """The array arguments in the core's own order of operands."""
        return self.arrays[::-1] if self.name == "scatter_nd" else self.arrays


def _read() -> dict[str, Operation]:
    table = {}
    for name, (stem, form, parameters) in _core._op_table().items():
        table[name] = Operation(
            name, stem, form,
            tuple(Parameter(p, role, *default) for p, role, default in parameters))
    return table


OPERATIONS: dict[str, Operation] = _read()
"""Every function of sow by its name, in-place forms too."""


def register(library: str, call: Callable[[str, tuple[Any, ...]], Any] | None,
             recording: Callable[[], bool] | None = None) -> None:
    """Sends calls that `library` ("torch", "jax", "paddle") must see to call(op, arguments).

    recording() says whether gradients are wanted on this thread now: where it is False, arrays that
    only require a gradient are plain ones.
    """
    _core._set_dispatch(library, call, recording)


class Formula:
    """A function of arrays made of one operation and of how often it was differentiated.

    Level 0 is the operation: arrays in, its result out. Each further level takes the arrays of the
    level below and one weight for each of its results, and gives the gradients of the arrays listed
    in `wanted`. As the weights are arrays like others, every order of derivative is a formula, and so
    is forward mode: the gradient of a gradient with respect to its weights.
    """

    __slots__ = ("level", "operation", "template", "wanted")

    def __init__(self, operation: Operation, template: tuple[Any, ...],
                 wanted: tuple[tuple[int, ...], ...] = ()) -> None:
        self.operation, self.template, self.wanted = operation, template, wanted
        self.level = len(wanted)

    def gradient(self, wanted: tuple[int, ...]) -> Formula:
        """The formula for the gradients of these arrays."""
        return Formula(self.operation, self.template, (*self.wanted, wanted))

    @property
    def results(self) -> int:
        """How many arrays come out."""
        return len(self.wanted[-1]) if self.wanted else 1

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        """The results on tensors of sow."""
        before = _core._set_grad_enabled(True)
        try:
            if self.level == 1:
                # The operation itself need not run, unless its gradient reads the result.
                recorded, inputs, (_, reads_result) = self._rehearse(
                    tensors[:-1], tensors[-1], self.wanted[0])
                if not reads_result:
                    wanted = [inputs[i] for i in self.wanted[0]]
                    return [g.detach() for g in _pull([recorded], wanted, tensors[-1:], False)]
            return [result.detach() for result in self._run(self.level, tensors)]
        finally:
            _core._set_grad_enabled(before)

    def _run(self, level: int, tensors: list[Tensor]) -> list[Tensor]:
        if level == 0:
            return [self.operation.plain(*fill(self.template, tensors))]
        count = len(self.wanted[level - 2]) if level > 1 else 1
        wanted, inputs = self.wanted[level - 1], list(tensors[:-count])
        for i in wanted:
            if not inputs[i].requires_grad:
                inputs[i] = inputs[i].detach().requires_grad_()
        results = self._run(level - 1, inputs)
        # Nobody differentiates what comes out last: it is made as gradients of the tape are, to the bit.
        return _pull(results, [inputs[i] for i in wanted], list(tensors[-count:]), level < self.level)

    def pull(self, tensors: list[Tensor], result: Tensor | None, weight: Tensor,
             wanted: tuple[int, ...]) -> list[Tensor]:
        """gradient(wanted) of level 0 without running the operation again.

        Of tensors whose data is not read (`reads`), only type and shape count.
        """
        before = _core._set_grad_enabled(True)
        try:
            # Where the result is not read, the weight has its type and shape.
            recorded, inputs, _ = self._rehearse(tensors, weight if result is None else result, wanted)
            return [g.detach() for g in _pull([recorded], [inputs[i] for i in wanted], [weight], False)]
        finally:
            _core._set_grad_enabled(before)

    def reads(self, tensors: list[Tensor], wanted: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
        """Which tensors' data the gradients of level 0 read, and whether they read the result's."""
        before = _core._set_grad_enabled(True)
        try:
            _, _, (mask, reads_result) = self._rehearse(tensors, None, wanted)
        finally:
            _core._set_grad_enabled(before)
        read, bit = set(), 0
        for at in self.operation.operands:
            value = self.template[at]
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if item is None or isinstance(item, (bool, int, float, complex)):
                    continue
                if isinstance(item, Slot) and mask >> bit & 1:
                    read.add(item.at)
                bit += 1
        return tuple(sorted(read)), reads_result

    def _rehearse(self, tensors: list[Tensor], result: Tensor | None, wanted: tuple[int, ...]) -> Any:
        inputs = list(tensors)
        for i in wanted:
            inputs[i] = inputs[i].detach().requires_grad_()
        values = fill(self.template, inputs)
        recorded, mask, reads_result = _core._rehearse(
            self.operation.name, lambda: self.operation.plain(*values), result)
        return recorded, inputs, (mask, reads_result)


def _pull(results: list[Tensor], inputs: list[Tensor], weights: list[Tensor],
          create_graph: bool = True) -> list[Tensor]:
    kept = [i for i, result in enumerate(results) if result.requires_grad]
    if not kept:
        return [_zeros(x) for x in inputs]
    found = _core._gradients([results[i] for i in kept], inputs, [weights[i] for i in kept], create_graph)
    return [_zeros(x) if g is None else g for g, x in zip(found, inputs)]


def _zeros(like: Tensor) -> Tensor:
    zeros: Tensor = _core.zeros(like.shape, like.dtype, device=like.device)
    return zeros


class Slot:
    """The place of an array in a template."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


def fill(template: tuple[Any, ...], arrays: Any) -> tuple[Any, ...]:
    """A template with arrays in its slots."""
    return tuple(
        arrays[value.at] if isinstance(value, Slot)
        else [arrays[v.at] if isinstance(v, Slot) else v for v in value] if type(value) is list
        else value
        for value in template)


def split(operation: Operation, values: tuple[Any, ...],
          is_array: Callable[[Any], bool]) -> tuple[tuple[Any, ...], list[Any]]:
    """The arguments of a call as a template and the arrays in its slots."""
    template: list[Any] = list(values)
    arrays: list[Any] = []
    for at in operation.arrays:
        value = values[at]
        if isinstance(value, (tuple, list)) and any(is_array(v) for v in value):
            items = list(value)
            for i, item in enumerate(items):
                if is_array(item):
                    items[i] = Slot(len(arrays))
                    arrays.append(item)
            template[at] = items
        elif is_array(value):
            template[at] = Slot(len(arrays))
            arrays.append(value)
    return tuple(template), arrays

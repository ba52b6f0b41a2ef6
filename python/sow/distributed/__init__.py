# SPDX-License-Identifier: Apache-2.0
"""Scatters and gathers on destinations that are cut by rows over several processes, with the bits of one.

Every rank has some rows of the destination, one part after the other in rank order, and updates for any of
them. `group` says how ranks talk: a torch ProcessGroup (None: torch's own default group), an mpi4py
communicator, or inside of JAX's shard_map the name of the axis. All ranks make the same calls in the same
order; what is wrong on one is the same error on all, before anything is written.

    x = torch.zeros(rows_here, 64)                       # this rank's part
    sow.distributed.index_add_(x, 0, index, source)      # index: rows of the whole
    index = sow.distributed.Index(index, rows_here)      # one that comes again: its keys travel once
    y = sow.distributed.index_select(x, 0, index)        # the gather back
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import _core
from . import _engines

__all__ = [
    "Index", "bytes_sent", "cuts", "index_add", "index_add_", "index_copy", "index_copy_", "index_reduce",
    "index_reduce_", "index_select", "scatter_nd",
    *(f"tensor_scatter_nd_{name}{end}" for name in ("add", "max", "min", "mul", "sub", "update") for end in ("", "_")),
]


class Index:
    """An index into the rows of all parts that is used several times: its keys travel when it is made.

    `rows` is how many rows this rank has.
    """

    def __init__(self, keys: Any, rows: int, *, group: Any = None, bounds: str = "error"):
        self.exchange = _engines.exchange_of(group)
        self.keys = keys
        with _engines.apart(keys):
            with _common(self.exchange, "Index"):
                tensor, self.rows = _core.asarray(keys), operator.index(rows)
                _core._expect_names("Index", "add", bounds)
            self.held = _core._ShardedIndex(self.exchange, tensor, self.rows, bounds)

    @property
    def size(self) -> int:
        """Rows of all parts together."""
        return self.held.size

    def __len__(self) -> int:
        return len(self.held)

    def __repr__(self) -> str:
        return f"sow.distributed.Index({len(self)} keys, size={self.size}, rank {self.exchange.rank} of {self.exchange.size})"


@_engines.works_apart(0)
def _index_of_coordinates(indices: Any, x: Any, group: Any, bounds: str) -> Index:
    """Of places: coordinates into leading axes of x, the first of which is of the rows of all parts."""
    exchange = _engines.exchange_of(group)
    with _common(exchange, "Index"):
        keys, part = _core.asarray(indices), _core.asarray(x.detach() if _is_torch(x) else x)
        _core._expect_names("Index", "add", bounds)
    index = Index.__new__(Index)
    index.exchange, index.keys, index.rows = exchange, indices, _flat(part, keys)[0]
    index.held = _core._ShardedIndex.of_coordinates(exchange, keys, part, bounds)
    return index


class _common:
    """What is raised inside of it is raised on every rank."""

    def __init__(self, exchange: Any, op: str):
        self.exchange, self.op = exchange, op

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, exception: Any, trace: Any) -> None:
        if isinstance(exception, Exception):
            self.exchange.fail(self.op, exception)


def bytes_sent(group: Any = None) -> int:
    """How many bytes this rank has sent to others through these functions."""
    return int(_engines.exchange_of(group).bytes_sent)


def cuts(rows: int, group: Any = None) -> list[int]:
    """Where each rank's rows begin, and the end, when `rows` are cut evenly: the way torch.chunk and DTensor cut."""
    size = _engines.exchange_of(group).size
    each = -(-rows // size)
    return [min(each * r, rows) for r in range(size + 1)]


def _expect_rows(axis: int, op: str, x: Any) -> None:
    rank = len(x.shape)
    if axis != 0 and axis != -rank:
        raise ValueError(f"{op}: axis {axis}; the destination is cut by rows, so that an index must be of axis 0")


def _expect_source(op: str, x: Any, index: Index, source: Any) -> None:
    if x.dtype != source.dtype:
        raise TypeError(f"{op}: x is {x.dtype} but source is {source.dtype}; they must have the same type")
    expected = [len(index), *x.shape[1:]]
    if list(source.shape) != expected or x.shape[0] != index.rows:
        raise ValueError(f"{op}: source has shape {list(source.shape)}; for {len(index)} keys and x {list(x.shape)} it must be {expected}")


def _wants_gradient(*tensors: Any) -> bool:
    return any(_is_torch(t) and t.requires_grad for t in tensors) and bool(_torch().is_grad_enabled())


def _expect_no_graph(op: str, x: Any) -> None:
    if _wants_gradient(x):
        raise RuntimeError(f"{op}: x requires a gradient; use the out-of-place {op[:-1]}")


def _expect_graph(op: str, *tensors: Any) -> None:
    """Of a call that some rank wants a gradient of: all ranks go backward, so that all must have torch's tensors."""
    for tensor in tensors:
        if not _is_torch(tensor):
            raise TypeError(f"{op}: a rank wants a gradient, so that every rank must give torch tensors; here is a {type(tensor).__name__}")


def _is_torch(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch" or any(c.__module__ == "torch" for c in type(x).__mro__)


def _copy(x: Any, op: str) -> Any:
    if _is_torch(x):
        return x.detach().clone(memory_format=_torch().contiguous_format)
    if isinstance(x, _core.Tensor):
        return _core.reshape(x, tuple(x.shape)).clone()
    import numpy

    if isinstance(x, numpy.ndarray):
        return numpy.array(x, copy=True, order="C")
    raise TypeError(f"{op}: x is a {type(x).__name__}; NumPy, PyTorch and sow arrays are taken here")


def _torch() -> Any:
    import torch

    return torch


def _written(x: Any) -> Any:
    if _is_torch(x):
        _torch().autograd.graph.increment_version(x)
    return x


def _like(x: Any, tensor: Any) -> Any:
    """A result as the kind of x."""
    if _is_torch(x):
        return _torch().from_dlpack(tensor)
    if isinstance(x, _core.Tensor):
        return tensor
    import numpy

    return numpy.asarray(tensor)


@_engines.works_apart(1)
def _reduce_(op: str, x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool, group: Any,
             bounds: str) -> Any:
    if isinstance(group, str):
        raise TypeError(f"{op}: JAX arrays cannot be changed in place; use {op[:-1]}")
    held = index if isinstance(index, Index) else None
    exchange = held.exchange if held is not None else _engines.exchange_of(group)
    with _common(exchange, op):
        _expect_rows(axis, op, x)
        _core._expect_names(op, reduce, bounds)
        _expect_no_graph(op, x)
        destination = _core.asarray(x.detach() if _is_torch(x) else x)
        values = _core.asarray(source.detach() if _is_torch(source) else source)
        if held is None:
            keys = _core.asarray(index)
        include_self = bool(include_self)
    if held is not None:
        held.held.index_reduce_(destination, values, reduce, include_self)
    else:
        _core._sharded_reduce_(exchange, destination, keys, values, reduce, include_self, bounds)
    return _written(x)


@_engines.works_apart(1)
def _reduce(op: str, x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool, group: Any,
            bounds: str) -> Any:
    if isinstance(group, str):
        from . import _jax

        return _jax.index_reduce(op, x, axis, index, source, reduce, include_self, group, bounds)
    exchange = index.exchange if isinstance(index, Index) else _engines.exchange_of(group)
    if _engines.any_rank(exchange, op, _wants_gradient(x, source)):
        from . import _graph as graph

        with _common(exchange, op):
            _expect_graph(op, x, source)
            _expect_rows(axis, op, x)
            _core._expect_names(op, reduce, bounds)
        if not isinstance(index, Index):
            index = Index(index, x.shape[0], group=group, bounds=bounds)
        with _common(exchange, op):
            _expect_source(op, x, index, source)
        exchange.agree(op, f"{x.dtype} {list(x.shape[1:])} by {reduce}, include_self={bool(include_self)}")
        return graph.index_reduce(x, index, source, reduce, bool(include_self))
    with _common(exchange, op):
        out = _copy(x, op)
    return _reduce_(op, out, axis, index, source, reduce, include_self, group, bounds)


def index_add_(x: Any, axis: int, index: Any, source: Any, *, group: Any = None, bounds: str = "error") -> Any:
    """Adds rows to the rows of all parts that `index` names: sums are exact, as of one process."""
    return _reduce_("index_add_", x, axis, index, source, "add", True, group, bounds)


def index_add(x: Any, axis: int, index: Any, source: Any, *, group: Any = None, bounds: str = "error") -> Any:
    """As index_add_, into a copy; differentiable on torch tensors and inside of JAX."""
    return _reduce("index_add", x, axis, index, source, "add", True, group, bounds)


def index_copy_(x: Any, axis: int, index: Any, source: Any, *, group: Any = None, bounds: str = "error") -> Any:
    """Writes rows: of those that meet, the last one of the last rank stays."""
    return _reduce_("index_copy_", x, axis, index, source, "assign", True, group, bounds)


def index_copy(x: Any, axis: int, index: Any, source: Any, *, group: Any = None, bounds: str = "error") -> Any:
    """As index_copy_, into a copy."""
    return _reduce("index_copy", x, axis, index, source, "assign", True, group, bounds)


def index_reduce_(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True,
                  group: Any = None, bounds: str = "error") -> Any:
    """Reduces rows into the rows that `index` names, by any reduction of sow."""
    return _reduce_("index_reduce_", x, axis, index, source, reduce, include_self, group, bounds)


def index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True,
                 group: Any = None, bounds: str = "error") -> Any:
    """As index_reduce_, into a copy."""
    return _reduce("index_reduce", x, axis, index, source, reduce, include_self, group, bounds)


def index_select(x: Any, axis: int, index: Any, *, group: Any = None, bounds: str = "error") -> Any:
    """The rows of all parts that `index` names. A row that is named several times travels once."""
    if isinstance(group, str):
        from . import _jax

        return _jax.index_select(x, axis, index, group, bounds)
    return _select(x, axis, index, group, bounds)


@_engines.works_apart(0)
def _select(x: Any, axis: int, index: Any, group: Any, bounds: str) -> Any:
    held = index if isinstance(index, Index) else None
    exchange = held.exchange if held is not None else _engines.exchange_of(group)
    graph_wanted = _engines.any_rank(exchange, "index_select", _wants_gradient(x))
    with _common(exchange, "index_select"):
        if graph_wanted:
            _expect_graph("index_select", x)
        _expect_rows(axis, "index_select", x)
        _core._expect_names("index_select", "add", bounds)
        given = _core.asarray(x.detach() if _is_torch(x) else x)
        keys: Any = None if held is not None else _core.asarray(index)
    if graph_wanted:
        from . import _graph as graph

        return graph.index_select(x, Index(index, x.shape[0], group=group, bounds=bounds) if held is None else held)
    if held is not None:
        return _like(x, held.held.index_select(given))
    return _like(x, _core._sharded_select(exchange, given, keys, bounds))


def _flat(x: Any, indices: Any) -> tuple[int, ...]:
    places = 1
    depth = indices.shape[-1]
    for extent in x.shape[:depth]:
        places *= extent
    return (places, *x.shape[depth:])


@_engines.works_apart(1)
def _nd(op: str, x: Any, indices: Any, updates: Any, reduce: str, negate: bool, in_place: bool, group: Any,
        bounds: str) -> Any:
    if isinstance(group, str):
        from . import _jax

        return _jax.scatter_nd(op, x, indices, updates, reduce, negate, group, bounds)
    exchange = _engines.exchange_of(group)
    with _common(exchange, op):
        keys = _core.asarray(indices)
        part = _core.asarray(x.detach() if _is_torch(x) else x)
        values = _core.asarray(updates.detach() if _is_torch(updates) else updates)
        if len(keys.shape) == 0 or not 1 <= keys.shape[-1] <= len(part.shape):
            raise ValueError(f"{op}: indices have shape {list(keys.shape)}; the last extent must be 1 to {len(part.shape)}")
        expected = [*keys.shape[:-1], *part.shape[keys.shape[-1]:]]
        if list(values.shape) != expected:
            raise ValueError(f"{op}: updates have shape {list(values.shape)}; it must be {expected}")
        flat = _flat(part, keys)
        if in_place:
            _expect_no_graph(op, x)
            if not (part.is_contiguous() or 0 in part.shape):
                raise ValueError(f"{op}: x must be row-major")
        _core._expect_names(op, reduce, bounds)
    index = _index_of_coordinates(keys, part, group, bounds)
    rows = (len(index.held), *flat[1:])
    if not in_place and _engines.any_rank(exchange, op, _wants_gradient(x, updates)):
        from . import _graph as graph

        with _common(exchange, op):
            _expect_graph(op, x, updates)
            if x.dtype != updates.dtype:
                raise TypeError(f"{op}: x is {x.dtype} but updates are {updates.dtype}; they must have the same type")
        exchange.agree(op, f"{x.dtype} {list(x.shape[1:])}")
        given = updates.reshape(rows)
        return graph.index_reduce(x.reshape(flat), index, -given if negate else given, reduce, True).reshape(x.shape)
    with _common(exchange, op):
        target = x if in_place else _copy(x, op)
        view = _core.reshape(_core.asarray(target.detach() if _is_torch(target) else target), flat)
        values = _core.reshape(values, rows)
        values = _core.neg(values) if negate else values
    index.held.index_reduce_(view, values, reduce, True)
    return _written(target)


def scatter_nd(indices: Any, updates: Any, shape: Sequence[int], *, rows: int | None = None, group: Any = None,
               bounds: str = "error") -> Any:
    """Sums into zeros of `shape`, of which this rank gets its rows: evenly cut, or as many as it says."""
    if rows is None:
        exchange = _engines.exchange_of(group)
        where = cuts(int(shape[0]), group)
        rows = where[exchange.rank + 1] - where[exchange.rank]
    part = (rows, *(int(extent) for extent in shape[1:]))
    if _is_torch(updates):
        x = _torch().zeros(part, dtype=updates.dtype, device=updates.device)
    else:
        import numpy

        x = numpy.zeros(part, updates.dtype)
    return _nd("scatter_nd", x, indices, updates, "add", False, False, group, bounds)


def _define() -> None:
    kinds = {"update": ("assign", False, "Writes"), "add": ("add", False, "Adds"), "sub": ("add", True, "Subtracts"),
             "max": ("amax", False, "Takes the larger of"), "min": ("amin", False, "Takes the smaller of"),
             "mul": ("mul", False, "Multiplies by")}
    for name, (reduce, negate, verb) in kinds.items():
        for end, in_place in (("", False), ("_", True)):
            op = f"tensor_scatter_nd_{name}{end}"

            def function(x: Any, indices: Any, updates: Any, *, group: Any = None, bounds: str = "error", _op: str = op,
                         _reduce: str = reduce, _negate: bool = negate, _in_place: bool = in_place) -> Any:
                return _nd(_op, x, indices, updates, _reduce, _negate, _in_place, group, bounds)

            function.__name__ = function.__qualname__ = op
            where = "in place" if in_place else "into a copy"
            function.__doc__ = f"{verb} updates at coordinates, the first of which is of the rows of all parts, {where}."
            globals()[op] = function


_define()

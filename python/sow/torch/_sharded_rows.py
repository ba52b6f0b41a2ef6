# SPDX-License-Identifier: Apache-2.0
"""DTensors that are cut along the axis of a scatter or gather: updates travel to the rows, by sow.distributed.

Torch's own rules would gather the whole destination on every rank. Here every rank keeps its rows, the updates are cut
among the ranks in their order, and each goes to the rank that has its row: the result lies as the destination does and
has the bits of one process. Gradients go the same way back; everything between is torch's own to_local, from_local and
redistribute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn import Parameter

from .._frameworks import OPERATIONS, Operation

_ROWS = {"index_add": "add", "index_copy": "assign", "index_reduce": None, "index_select": None}
_ALONG_AXIS = {"put_along_axis": None, "scatter": None, "scatter_add": "add", "scatter_reduce": None,
               "take_along_axis": None, "gather": None}
_COORDINATES = {f"tensor_scatter_nd_{name}" for name in ("add", "max", "min", "mul", "sub", "update")}
_READS = {"index_select", "take_along_axis", "gather"}


class _Cut(NamedTuple):
    """Where the destination is cut: along `axis`, over the ranks of mesh dimension `over`."""

    axis: int
    over: int


def call(operation: Operation, values: tuple[Any, ...]) -> Any:
    """The result, or None where the axis is not cut, or in a way that torch's rules must bring together first."""
    given = dict(zip(operation.names, values))
    x, stem = values[operation.arrays[0]], operation.stem
    if stem not in _ROWS and stem not in _ALONG_AXIS and stem not in _COORDINATES:
        return None
    if type(x._local_tensor) not in (Tensor, Parameter) or get_proxy_mode() is not None:
        return None  # traced: torch's rules hold in graphs
    cut = _cut_of(x, 0 if stem in _COORDINATES else given["axis" if "axis" in given else "dim"])
    if cut is None:
        return None
    if stem in _COORDINATES:
        return _by_coordinates(operation, x, given, cut)
    index = given["index" if "index" in given else "indices"]
    source = None if stem in _READS else next(given[n] for n in ("source", "src", "values") if n in given)
    if not _fits(x, index, source, cut.axis, stem in _ROWS):
        return None
    if stem in _ROWS:
        return _rows(operation, x, index, source, given, cut)
    return _along_axis(operation, x, index, source, given, cut)


def _cut_of(x: Any, axis: Any) -> _Cut | None:
    from torch.distributed.tensor import Replicate, Shard

    if type(axis) is not int or not -x.dim() <= axis < x.dim():
        return None
    axis %= x.dim()
    if any(type(p) not in (Shard, Replicate) for p in x.placements):
        return None
    over = [d for d, p in enumerate(x.placements) if p.is_shard(axis)]
    return _Cut(axis, over[0]) if len(over) == 1 else None


def _fits(x: Any, index: Any, source: Any, axis: int, is_row: bool) -> bool:
    """Whether these are operands whose parts line up; what is wrong is said by the plain function."""
    kind = type(x)
    if type(index) is not kind or index.device_mesh != x.device_mesh:
        return False
    if isinstance(source, Tensor) and (type(source) is not kind or source.device_mesh != x.device_mesh):
        return False
    if is_row:
        return index.dim() == 1 and (source is None or (isinstance(source, Tensor) and source.dim() == x.dim()))
    if index.dim() != x.dim() or (isinstance(source, Tensor) and source.shape != index.shape):
        return False
    return all(n == m for d, (n, m) in enumerate(zip(index.shape, x.shape)) if d != axis)


def _placed(tensor: Any, x: Any, cut: _Cut, axis: int, has_columns: bool) -> Tensor:
    """This rank's share of an operand, cut along `axis` over the ranks that cut x, and else as x is."""
    from torch.distributed.tensor import Replicate, Shard

    wanted = [Shard(axis) if d == cut.over else p if has_columns else Replicate() for d, p in enumerate(x.placements)]
    if list(tensor.placements) != wanted:
        tensor = tensor.redistribute(x.device_mesh, wanted)
    local: Tensor = tensor.to_local()
    return local


def _whole(local: Tensor, x: Any, shape: Any) -> Any:
    """Local rows as a DTensor that lies as x does."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(int(extent), 1)
    return type(x).from_local(local.contiguous(), x.device_mesh, x.placements, run_check=False, shape=torch.Size(shape),
                              stride=tuple(reversed(strides)))


def _in_place(operation: Operation, x: Any) -> bool:
    return operation.form == "in_place" and not (torch.is_grad_enabled() and x.requires_grad)


def _ended(operation: Operation, x: Any, result: Any) -> Any:
    return x.copy_(result) if operation.form == "in_place" else result


def _rows(operation: Operation, x: Any, index: Any, source: Any, given: dict[str, Any], cut: _Cut) -> Any:
    from .. import distributed

    group, bounds = x.device_mesh.get_group(cut.over), given.get("bounds", "error")
    keys = _placed(index, x, cut, 0, False)
    part = x.to_local().movedim(cut.axis, 0)
    if operation.stem == "index_select":
        found = distributed.index_select(part.contiguous(), 0, keys, group=group, bounds=bounds)
        shape = list(x.shape)
        shape[cut.axis] = index.shape[0]
        return _whole(found.movedim(0, cut.axis), x, shape)
    rows = _placed(source, x, cut, cut.axis, True).movedim(cut.axis, 0)
    reduce = _ROWS[operation.stem] or given["reduce"]
    options = {"include_self": given.get("include_self", True), "group": group, "bounds": bounds}
    if _in_place(operation, x) and not rows.requires_grad and part.is_contiguous():
        distributed.index_reduce_(part.detach(), 0, keys, rows, reduce, **options)
        torch.autograd.graph.increment_version(x)
        return x
    result = distributed.index_reduce(part, 0, keys, rows, reduce, **options)
    return _ended(operation, x, _whole(result.movedim(0, cut.axis), x, x.shape))


def _along_axis(operation: Operation, x: Any, index: Any, source: Any, given: dict[str, Any], cut: _Cut) -> Any:
    from .. import distributed

    group, bounds = x.device_mesh.get_group(cut.over), given.get("bounds", "error")
    part = x.to_local().movedim(cut.axis, 0)
    where = _placed(index, x, cut, cut.axis, True).movedim(cut.axis, 0)
    flat = part.reshape(-1)
    held = distributed._index_of_coordinates(_coordinates(where), part, group, bounds)
    if operation.stem in _READS:
        found = distributed.index_select(flat, 0, held).reshape(where.shape)
        return _whole(found.movedim(0, cut.axis), x, index.shape)
    if isinstance(source, Tensor):
        rows = _placed(source, x, cut, cut.axis, True).movedim(cut.axis, 0).reshape(-1)
    else:
        rows = flat.detach().new_full((where.numel(),), source)
    reduce = _ALONG_AXIS[operation.stem] or given["reduce"] or "assign"
    result = distributed.index_reduce(flat, 0, held, rows, reduce, include_self=given.get("include_self", True))
    return _ended(operation, x, _whole(result.reshape(part.shape).movedim(0, cut.axis), x, x.shape))


def _coordinates(where: Tensor) -> Tensor:
    """Of every place that an index along the first axis names."""
    grids = torch.meshgrid(*(torch.arange(n, device=where.device) for n in where.shape), indexing="ij")
    return torch.stack([where.to(torch.int64), *grids[1:]], -1)


def _by_coordinates(operation: Operation, x: Any, given: dict[str, Any], cut: _Cut) -> Any:
    from .. import distributed

    indices, updates = given["indices"], given["updates"]
    if not all(type(t) is type(x) and t.device_mesh == x.device_mesh and t.dim() > 0 for t in (indices, updates)):
        return None
    if indices.dim() < 2 or any(p.is_shard() for d, p in enumerate(x.placements) if d != cut.over):
        return None
    function = getattr(distributed, operation.stem)
    result = function(x.to_local(), _placed(indices, x, cut, 0, False), _placed(updates, x, cut, 0, False),
                      group=x.device_mesh.get_group(cut.over), bounds=given.get("bounds", "error"))
    return _ended(operation, x, _whole(result, x, x.shape))


# -- torch's own names


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    return (x, dim, index, source) if alpha == 1 else None


def _scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    return x, dim, index, src, {"sum": "add", "prod": "mul"}.get(reduce, reduce), include_self


def _same(*args: Any) -> Any:
    return args


_NAMES = {"index_add": ("index_add", _index_add), "index_copy": ("index_copy", _same),
          "scatter_add": ("scatter_add", _same), "scatter.src": ("scatter", _same), "scatter.value": ("scatter", _same),
          "scatter_reduce.two": ("scatter_reduce", _scatter_reduce)}


class Handlers:
    """What DTensor calls for torch's scatters while they are patched: below autograd, whose rules stay torch's."""

    def __init__(self) -> None:
        from torch.distributed.tensor import DTensor

        self.table = DTensor._op_dispatcher._custom_op_handlers
        self.mine: dict[Any, Any] = {}
        for full, (name, arguments) in _NAMES.items():
            stem, _, overload = full.partition(".")
            for end in ("", "_"):
                op = getattr(getattr(torch.ops.aten, stem + end), overload or "default")
                self.mine[op] = self._handler(OPERATIONS[name + end], arguments)
        self.table.update(self.mine)

    def remove(self) -> None:
        for op in self.mine:
            self.table.pop(op, None)

    def _handler(self, operation: Operation, arguments: Any) -> Any:
        def handle(op: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            values = arguments(*args, **keywords)
            result = None
            if values is not None and _fits_torch(values):
                full = {p.name: p.default for p in operation.parameters}
                full.update(zip(operation.names, values))
                with torch.no_grad():
                    result = call(operation, tuple(full[n] for n in operation.names))
            if result is not None:
                return result
            self.table.pop(op, None)  # torch's own rule
            try:
                return op(*args, **keywords)
            finally:
                self.table[op] = self.mine[op]

        return handle


def _fits_torch(values: tuple[Any, ...]) -> bool:
    x, index, source = values[0], values[2], values[3]
    return (_is_sharded(x) and index.dtype in (torch.int64, torch.int32)
            and (not isinstance(source, Tensor) or source.dtype is x.dtype))


def _is_sharded(x: Any) -> bool:
    from torch.distributed.tensor import DTensor

    return type(x) is DTensor

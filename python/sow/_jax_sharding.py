# SPDX-License-Identifier: Apache-2.0
"""How calls of sow inside of JAX may be split over devices: along dimensions that no index addresses.

Each dimension of each operand and result gets a name; dimensions of the same name go together. Those that are
free can be sharded: every device then works on its part alone. The others must be whole everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from ._derived import Core, Jvp, Meta, Op, Vjp

Names = tuple[str, ...]
_ROWS = {"index_add", "index_copy", "index_reduce", "index_fill", "index_select"}
_ALONG = {"put_along_axis", "scatter", "scatter_add", "scatter_reduce", "take_along_axis", "gather"}
_READS = {"index_select", "take_along_axis", "gather", "gather_nd"}


def _of_op(op: Op, metas: Sequence[Meta]) -> tuple[list[Names], Names] | None:
    shapes = {op.holes[k]: shape for k, (shape, _) in enumerate(metas)}
    first = op.holes[0]
    rank = len(shapes[first])
    if op.name in _ROWS or op.name in _ALONG:
        axis = op.given["axis"] if "axis" in op.given else op.given["dim"]
        if rank == 0 or not -rank <= axis < rank:
            return None
        axis %= rank
        others = tuple(f"d{i}" for i in range(rank) if i != axis)
        x, rows = ((*others[:axis], name, *others[axis:]) for name in ("n", "e"))
        names = []
        for k in range(op.arguments):
            shape = metas[k][0]
            if k == 0:
                names.append(x)
            elif op.name in _ROWS and op.holes[k] == "index":
                names.append(("e",))
            elif not shape:
                names.append(())
            elif len(shape) != rank or any(shape[i] != shapes[first][i] for i in range(rank) if i != axis):
                return None  # corners and what broadcasts
            else:
                names.append(rows)
        return names, rows if op.name in _READS else x
    if (op.name == "gather_nd" or op.name.startswith("tensor_scatter_nd_")) and not op.given.get("batch_dims"):
        indices = shapes["indices"]
        depth = indices[-1]
        rest = tuple(f"d{i}" for i in range(rank - depth))
        rows = tuple(f"e{i}" for i in range(len(indices) - 1))
        x = (*(f"n{i}" for i in range(depth)), *rest)
        names = [x, (*rows, "k"), (*rows, *rest)][:op.arguments]
        return names, (*rows, *rest) if op.name in _READS else x
    return None


def _of(core: Core, metas: Sequence[Meta]) -> tuple[list[Names], list[Names]] | None:
    """The names of the dimensions of operands and of results; metas are those of the program's inputs."""
    if isinstance(core, Op):
        found = _of_op(core, metas[:core.arguments])
        return None if found is None else (found[0], [found[1]])
    assert isinstance(core, (Vjp, Jvp))
    inner = _of(core.inner, metas)
    if inner is None:
        return None
    arguments, results = inner
    if isinstance(core, Vjp):
        return [*(arguments[k] for k in core.kept), *results], [arguments[k] for k in core.wrt]
    return [*arguments, *(arguments[k] for k in core.wrt)], results


class Split:
    """The names of all dimensions of a call, as GSPMD's callbacks and Shardy's rules want them."""

    def __init__(self, arguments: list[Names], results: list[Names]):
        self.arguments, self.results = arguments, results

    @property
    def rule(self) -> str:
        def text(all_names: list[Names]) -> str:
            return ", ".join(" ".join(names) for names in all_names)

        return f"{text(self.arguments)} -> {text(self.results)}"

    @property
    def whole(self) -> Names:
        """The dimensions that must not be split, in the order in which they appear."""
        names = dict.fromkeys(name for one in self.arguments + self.results for name in one)
        return tuple(name for name in names if not name.startswith("d"))

    def axes(self, shardings: Sequence[Any]) -> dict[str, Any]:
        """The axis of the mesh of each free dimension: the first that an operand is split over."""
        found: dict[str, Any] = {}
        for names, sharding in zip(self.arguments, shardings):
            for name, axis in zip(names, tuple(getattr(sharding, "spec", ()))):
                taken = any(axis == other for other in found.values())
                if axis is not None and name.startswith("d") and name not in found and not taken:
                    found[name] = axis
        return found

    def shardings(self, mesh: Any, names: list[Names], axes: dict[str, Any]) -> list[Any]:
        return [NamedSharding(mesh, PartitionSpec(*(axes.get(name) for name in one))) for one in names]


def part_of(shape: Sequence[Any], names: Names, mesh: Any, axes: dict[str, Any]) -> tuple[Any, ...]:
    """The shape of one device's part."""
    out = []
    for extent, name in zip(shape, names):
        axis = axes.get(name)
        count = 1
        for one in (axis if isinstance(axis, tuple) else (axis,)) if axis is not None else ():
            count *= mesh.shape[one]
        out.append(extent // count)
    return tuple(out)


@functools.lru_cache(maxsize=4096)
def split(core: Core, metas: tuple[Meta, ...]) -> Split | None:
    """How a call on inputs of these shapes may be split; None: not at all."""
    found = _of(core, metas)
    if found is None or not any(name.startswith("d") for names in found[0] for name in names):
        return None
    return Split(*found)

# SPDX-License-Identifier: Apache-2.0
"""Sharding rules for DTensor: operands sharded along columns need no communication.

An operation that addresses places along one axis does the same thing to every other index of every other
axis. So each of those may be sharded, alike in all operands that have it; a 1-D index is replicated.
"""

from __future__ import annotations

from typing import Any

from .._frameworks import Formula, Operation, Slot

_ALONG_AXIS = {"put_along_axis", "scatter", "scatter_add", "scatter_reduce", "take_along_axis", "gather"}
_ROWS = {"index_add", "index_copy", "index_fill", "index_reduce", "index_select"}
_known: set[Any] = set()


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor."""
    kind = type(tensor)
    return kind.__name__ == "DTensor" and kind.__module__.startswith("torch.distributed")


def prepare(overload: Any, operation: Operation | None) -> None:
    """Tells DTensor how the operands of a registered operation may lie; None: of its gradients."""
    if overload in _known:
        return
    from torch.distributed.tensor.experimental import register_sharding

    _known.add(overload)
    if operation is None:
        register_sharding(overload)(_gradient_rule)
        return

    def rule(*args: Any) -> Any:
        from ._library import _complete

        specs = [a for a in args if hasattr(a, "ndim")]
        counter = iter(range(len(specs)))
        values = tuple(Slot(next(counter)) if hasattr(a, "ndim") else a for a in args)
        formula = Formula(operation, _complete(operation, values))
        ranks = [spec.ndim for spec in specs]
        found = []
        for output, inputs in _acceptable(formula, ranks, None):
            placed = iter(inputs)
            found.append(([output], [next(placed) if hasattr(a, "ndim") else None for a in args]))
        return found

    register_sharding(overload)(rule)


def _gradient_rule(_: int, text: str, tensors: Any, numbers: Any) -> Any:
    from ._library import _decode

    formula = _decode(text, numbers)
    ranks = [spec.ndim for spec in tensors]
    return [([output], [None, None, *inputs, *(None for _ in numbers or [None])])
            for output, inputs in _acceptable(formula, ranks, formula.wanted[-1][0])]


def _acceptable(formula: Formula, ranks: list[int], wanted: int | None) -> list[tuple[Any, list[Any]]]:
    """Every way to lie that needs no communication: (result, operands); all replicated comes first."""
    from torch.distributed.tensor import Replicate, Shard

    ways: list[tuple[Any, list[Any]]] = [(Replicate(), [Replicate()] * len(ranks))]
    operation, template = formula.operation, formula.template
    if operation.name not in _ALONG_AXIS | _ROWS:
        return ways
    rank = ranks[0]
    axis = template[operation.position("axis" if "axis" in operation.names else "dim")]
    axis = axis + rank if axis < 0 else axis
    same = [r == rank for r in ranks]
    if operation.name in _ROWS:
        index = template[operation.position("index")]
        if isinstance(index, Slot) and rank == 1:
            return ways
        if isinstance(index, Slot):
            same[index.at] = False
    elif not all(same) or (operation.name in ("put_along_axis", "take_along_axis")
                           and template[operation.position("broadcast")]):
        return ways  # an extent of 1 must not be sharded
    for dim in range(rank):
        if dim != axis:
            ways.append((Shard(dim), [Shard(dim) if s else Replicate() for s in same]))
    return ways

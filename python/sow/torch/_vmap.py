# SPDX-License-Identifier: Apache-2.0
"""Batches for torch.func.vmap: a dimension in front where the operation allows one, else a loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._frameworks import Formula, Slot
from . import _graph

_ALONG_AXIS = {"put_along_axis", "scatter", "scatter_add", "scatter_reduce", "take_along_axis", "gather"}
_ROWS = {"index_add", "index_copy", "index_fill", "index_reduce", "index_select"}


def call(formula: Formula, tensors: list[Tensor], dims: tuple[Any, ...], size: int) -> list[Tensor]:
    """The results with the batch in front."""
    moved = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, dims)]
    batched = [d is not None for d in dims]
    template = _with_batch(formula, moved, batched)
    if template is not None:
        index = _shared_index(formula)
        whole = [t if i == index else t if b else t.expand((size, *t.shape))
                 for i, (t, b) in enumerate(zip(moved, batched))]
        return _graph.apply(Formula(formula.operation, template, formula.wanted), whole)
    # A sample of zeros says the shapes where there is none.
    samples = [
        _graph.apply(formula, [(t[i] if size else t.new_zeros(t.shape[1:])) if b else t
                               for t, b in zip(moved, batched)])
        for i in range(max(size, 1))
    ]
    return [torch.stack(results)[:size] for results in zip(*samples)]


def _axis_at(formula: Formula) -> int:
    names = formula.operation.names
    return names.index("axis" if "axis" in names else "dim")


def _shared_index(formula: Formula) -> int | None:
    if formula.operation.name not in _ROWS:
        return None
    slot = formula.template[formula.operation.names.index("index")]
    return slot.at if isinstance(slot, Slot) else None


def _with_batch(formula: Formula, tensors: list[Tensor], batched: list[bool]) -> tuple[Any, ...] | None:
    """The template for tensors that all have the batch in front; None where there is none."""
    operation, template = formula.operation, list(formula.template)
    rank = [t.dim() - b for t, b in zip(tensors, batched)]
    slots = [template[at].at for at in operation.arrays if isinstance(template[at], Slot)]
    if not slots or any(
            not isinstance(template[at], (Slot, bool, int, float, complex)) for at in operation.arrays):
        return None
    if operation.name in _ALONG_AXIS:
        # One rank for all: a broadcast, or a 0-d operand, would take the batch for an axis.
        if rank[slots[0]] == 0 or any(rank[i] != rank[slots[0]] for i in slots):
            return None
    elif operation.name in _ROWS:
        index = _shared_index(formula)
        if index is None or batched[index] or any(
                rank[i] != rank[slots[0]] for i in slots if i != index) or rank[slots[0]] == 0:
            return None
    else:
        return None
    at = _axis_at(formula)
    axis = template[at]
    if not -rank[slots[0]] <= axis < rank[slots[0]]:
        return None  # one sample says the error
    template[at] = axis + 1 if axis >= 0 else axis
    return tuple(template)

# SPDX-License-Identifier: Apache-2.0
"""Views of recorded tensors are torch's own, so that torch knows whose memory they show."""

from __future__ import annotations

from typing import Any

import torch

from .._frameworks import Operation


def _slice(x: torch.Tensor, axis: int, start: Any, stop: Any, step: int) -> torch.Tensor:
    if not -x.dim() <= axis < x.dim():
        raise ValueError(f"slice: axis {axis} is out of range for {x.dim()} dimensions")
    if step < 1:
        raise ValueError(f"slice: step is {step}; it must be positive")
    at: list[Any] = [slice(None)] * x.dim()
    at[axis] = slice(start, stop, step)
    return x[tuple(at)]


_VIEWS: dict[str, Any] = {
    "diagonal": torch.diagonal,
    "select": torch.select,
    "slice": _slice,
    "broadcast_to": lambda x, shape: torch.broadcast_to(x, _dims(shape)),
    "unsqueeze": torch.unsqueeze,
    "flatten": torch.flatten,
    "reshape": lambda x, shape: torch.reshape(x, _dims(shape)),
    "transpose": torch.transpose,
}


def _dims(shape: Any) -> Any:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def call(operation: Operation, values: tuple[Any, ...]) -> Any:
    """A view, or NotImplemented where torch has none like it."""
    view = _VIEWS.get(operation.name)
    if view is None or not isinstance(values[0], torch.Tensor):
        return NotImplemented
    return view(*(v for p, v in zip(operation.parameters, values) if p.role != "stream"))

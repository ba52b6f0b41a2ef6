# SPDX-License-Identifier: Apache-2.0
"""The out-of-place forms as parts of torch's graph: the gradient of what travelled there travels back."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .. import index_copy as _index_copy
from .. import index_reduce as _index_reduce
from ._engines import works_apart


def _anchored(tensor: torch.Tensor) -> torch.Tensor:
    """Takes part in the graph even where only another rank's does, so that all ranks go backward together."""
    if tensor.requires_grad or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return tensor.detach().requires_grad_()


def _rows(tensor: torch.Tensor) -> Any:
    return _core.asarray(tensor.detach().contiguous())


class _Send(torch.autograd.Function):  # type: ignore[misc]
    """Updates to where they are applied."""

    @staticmethod
    @works_apart(1)
    def forward(ctx: Any, source: torch.Tensor, index: Any) -> torch.Tensor:
        ctx.index = index
        return torch.from_dlpack(index.held.send(_rows(source)))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _SendBack.apply(grad, ctx.index), None


class _SendBack(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    @works_apart(1)
    def forward(ctx: Any, rows: torch.Tensor, index: Any) -> torch.Tensor:
        ctx.index = index
        return torch.from_dlpack(index.held.send_back(_rows(rows)))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _Send.apply(grad, ctx.index), None


class _Add(torch.autograd.Function):  # type: ignore[misc]
    """Sums, merged before they travel: their gradient is a gather."""

    @staticmethod
    @works_apart(1)
    def forward(ctx: Any, x: torch.Tensor, source: torch.Tensor, index: Any) -> torch.Tensor:
        ctx.index = index
        out = x.detach().clone(memory_format=torch.contiguous_format)
        index.held.index_reduce_(_core.asarray(out), _rows(source), "add", True)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, _Select.apply(grad, ctx.index), None


class _Select(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    @works_apart(1)
    def forward(ctx: Any, x: torch.Tensor, index: Any) -> torch.Tensor:
        ctx.index = index
        return torch.from_dlpack(index.held.index_select(_rows(x)))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _Add.apply(grad.new_zeros((ctx.index.rows, *grad.shape[1:])), grad, ctx.index), None


def index_reduce(x: torch.Tensor, index: Any, source: torch.Tensor, reduce: Any, include_self: bool) -> torch.Tensor:
    """`index` is a held one; the result takes part in the graph on every rank."""
    if reduce in ("add", "sum") and include_self:
        return _Add.apply(_anchored(x), _anchored(source), index)
    rows = _Send.apply(_anchored(source), index)
    keys = torch.from_dlpack(index.held.local_keys()).to(x.device)
    if reduce == "assign":
        return _index_copy(x, 0, keys, rows)
    return _index_reduce(x, 0, keys, rows, reduce, include_self)


def index_select(x: torch.Tensor, index: Any) -> torch.Tensor:
    return _Select.apply(_anchored(x), index)

# SPDX-License-Identifier: Apache-2.0
"""PyTorch: every function of it that says the case, and the same under torch.compile."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ..cases import Case
from ..data import Arrays
from ..family import backward_of, torch_forms
from ..way import Way

REDUCES = {"add": "sum", "mul": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}
Tensor = torch.Tensor
Forms = dict[str, Callable[..., Any]]


def start(threads: int) -> str:
    set_threads(threads)
    return str(torch.__version__)


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads)


def own(array: Any, dtype: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def plain(tensor: Tensor) -> Any:
    tensor = tensor.detach()
    if tensor.is_cuda:
        return tensor
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def masked_forms(case: Case, x: Tensor, mask: Tensor, src: Tensor) -> Forms:
    if not case.in_place:
        return {"masked_scatter": partial(x.masked_scatter, mask, src)}
    narrow = mask.squeeze(-1) if mask.shape != x.shape else mask
    values = src.view(-1, x.shape[-1]) if narrow.dim() < x.dim() else src

    def put() -> Tensor:
        x[narrow] = values
        return x

    return {"masked_scatter_": partial(x.masked_scatter_, mask, src), "x[mask] = v": put}


def along_forms(case: Case, x: Tensor, index: Tensor, src: Tensor) -> Forms:
    axis = case.axis
    if case.reduce == "assign":
        return {"scatter_": partial(x.scatter_, axis, index, src)}
    forms: Forms = {"scatter_reduce_": partial(x.scatter_reduce_, axis, index, src, REDUCES[case.reduce])}
    if case.reduce == "add":
        forms["scatter_add_"] = partial(x.scatter_add_, axis, index, src)
    return forms


def row_forms(case: Case, x: Tensor, index: Tensor, src: Tensor) -> Forms:
    spread = index.view(-1, *[1] * (x.dim() - 1)).expand(src.shape)
    end = "_" if case.in_place else ""
    forms: Forms = {}

    def form(name: str, *arguments: Any) -> None:
        forms[name + end] = partial(getattr(x, name + end), *arguments)

    def put() -> Tensor:
        x[index] = src
        return x

    if case.reduce == "assign":
        form("scatter", 0, spread, src)
        form("index_copy", 0, index, src)
        forms["x[i] = v"] = put
        return forms
    name = REDUCES[case.reduce]
    form("scatter_reduce", 0, spread, src, name)
    if case.reduce == "add":
        form("scatter_add", 0, spread, src)
        form("index_add", 0, index, src)
    else:
        form("index_reduce", 0, index, src, name)
    return forms


def gather_forms(case: Case, x: Tensor, index: Tensor, src: Tensor) -> Forms:
    if case.axis >= 0:
        return {"gather": partial(torch.gather, x, case.axis, index)}
    forms: Forms = {"index_select": partial(torch.index_select, x, 0, index), "x[i]": lambda: x[index]}
    if x.dim() == 1:
        forms["gather"] = partial(torch.gather, x, 0, index)
    return forms


def diagonal_forms(case: Case, x: Tensor, src: Tensor) -> Forms:
    return {"diagonal_scatter": partial(torch.diagonal_scatter, x, src, 0, -2, -1)}


def cache_forms(case: Case, x: Tensor, index: Tensor, src: Tensor) -> Forms:
    def put() -> Tensor:
        x[:, :, index] = src
        return x

    return {"index_copy_": partial(x.index_copy_, case.axis, index, src), "x[:, :, i] = v": put}


def nd_forms(case: Case, x: Tensor, index: Tensor, src: Tensor) -> Forms:
    flat = x.view(-1, x.shape[-1])

    def add() -> Tensor:
        flat.index_add_(0, index[:, 0] * case.shape[1] + index[:, 1], src)
        return x

    return {"index_add_, flat": add, "index_put_": partial(x.index_put_, (index[:, 0], index[:, 1]), src, True)}


def masked_backward(x: Tensor, mask: Tensor, src: Tensor, grad: Tensor) -> list[Way]:
    x, src = x.requires_grad_(), src.detach().requires_grad_()

    def run() -> tuple[Tensor, Tensor]:
        x.grad = src.grad = None
        out = x.masked_scatter(mask, src)
        out.backward(grad)
        assert src.grad is not None
        return out, src.grad

    return [Way("masked_scatter, backward", run=run, result=lambda out: [plain(out[0]), plain(out[1])])]


def backward_ways(case: Case, x: Tensor, index: Tensor, src: Tensor, grad: Tensor) -> list[Way]:
    leaf = src.requires_grad_()

    def way(name: str, form: Callable[[], Tensor]) -> Way:
        def run() -> tuple[Tensor, Tensor]:
            leaf.grad = None
            out = form()
            out.backward(grad)
            assert leaf.grad is not None
            return out, leaf.grad

        return Way(name + ", backward", run=run, result=lambda out: [plain(out[0]), plain(out[1])])

    return [way(name, form) for name, form in row_forms(case, x, index, leaf).items()]


def family_ways(case: Case, arrays: dict[str, Tensor]) -> list[Way]:
    if not case.backward:
        return [Way(name, run=form, result=lambda out: [plain(out)]) for name, form in torch_forms(case, arrays).items()]
    leaf = arrays["src"].requires_grad_()
    return [Way(name + ", backward", run=backward_of(form, leaf, arrays["grad"]),
                result=lambda out: [plain(out[0]), plain(out[1])])
            for name, form in torch_forms(case, arrays).items()]


def compiled_way(case: Case, x: Tensor, index: Tensor, src: Tensor, reset: Any) -> Way:
    """The out-of-place form, compiled: inductor makes of it what it can."""

    def function(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
        if case.reduce == "add":
            return x.index_add(0, index, src)
        spread = index.view(-1, *[1] * (x.dim() - 1)).expand(src.shape)
        return x.scatter_reduce(0, spread, src, REDUCES[case.reduce])

    quick = torch.compile(function)

    def run() -> Tensor:
        out = quick(x, index, src)
        return x.copy_(out) if case.in_place else out

    return Way("torch.compile", run=run, result=lambda out: [plain(out)], reset=reset, compiled=True)


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    x0, src = own(arrays["x"], case.dtype), own(arrays["src"], case.dtype)
    x = x0.clone()
    reset = (lambda: x.copy_(x0)) if case.in_place else None
    index = own(arrays["index"], "int64") if "index" in arrays else None
    if case.kind == "family":
        return family_ways(case, {name: own(array, case.dtype) for name, array in arrays.items()})
    if case.backward and case.kind == "masked":
        return masked_backward(x, own(arrays["mask"], "bool"), src, own(arrays["grad"], case.dtype))
    if case.backward:
        assert index is not None
        return backward_ways(case, x, index, src, own(arrays["grad"], case.dtype))
    if case.kind == "masked":
        forms = masked_forms(case, x, own(arrays["mask"], "bool"), src)
    elif case.kind == "diagonal":
        forms = diagonal_forms(case, x, src)
    elif case.kind in ("cache", "nd"):
        assert index is not None
        forms = (cache_forms if case.kind == "cache" else nd_forms)(case, x, index, src)
    else:
        assert index is not None
        made = {"along": along_forms, "gather": gather_forms}.get(case.kind, row_forms)
        forms = made(case, x, index, src)
    found = [Way(name, run=form, result=lambda out: [plain(out)], reset=reset) for name, form in forms.items()]
    if compiled and case.kind == "rows" and case.reduce != "assign":
        assert index is not None
        found.append(compiled_way(case, x, index, src, reset))
    return found

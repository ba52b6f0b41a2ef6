# SPDX-License-Identifier: Apache-2.0
"""sow, as a user calls it: NumPy arrays in and out, default settings."""

# mypy: ignore-errors
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import sow

from ..cases import Case
from ..data import Arrays, copy_of
from ..family import backward_of, sow_forms
from ..way import Way


def start(threads: int) -> str:
    set_threads(threads)
    return str(sow.__version__)


def set_threads(threads: int) -> None:
    sow.set_num_threads(threads)


def on_gpu(array: Any) -> bool:
    """Whether it is a tensor of PyTorch, which is what sow is given on a GPU."""
    return not isinstance(array, np.ndarray)


def own(array: Any, dtype: str) -> Any:
    if dtype != "bfloat16" or on_gpu(array):
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def plain(array: Any) -> Any:
    if getattr(array, "device", "cpu") != "cpu" and not isinstance(array, np.ndarray):
        return array
    array = np.asarray(array)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    x0, src = own(arrays["x"], case.dtype), own(arrays["src"], case.dtype)
    x = x0.clone() if on_gpu(x0) else copy_of(x0)
    index: Any = arrays.get("index")
    if case.kind == "family":
        return family_ways(case, arrays)
    if case.held:
        index = sow.Index(index, size=case.shape[0])
    if case.backward and case.kind == "masked":
        return [masked_backward(x, arrays["mask"], src, arrays["grad"])]
    if case.backward:
        return [backward(case, x, index, src, own(arrays["grad"], case.dtype))]
    end = "_" if case.in_place else ""
    if case.kind == "masked":
        op, arguments, keywords = "masked_scatter", (x, arrays["mask"], src), {}
    elif case.kind == "diagonal":
        op, arguments, keywords = "diagonal_scatter", (x, src), {"axis1": -2, "axis2": -1}
    elif case.kind == "cache":
        op, arguments, keywords = "index_copy", (x, case.axis, index, src), {}
    elif case.kind == "nd":
        op, arguments, keywords = "tensor_scatter_nd_add", (x, index, src), {}
    elif case.kind == "gather":
        arguments = (x, 0, index) if case.axis < 0 else (x, index, case.axis)
        op, keywords = "index_select" if case.axis < 0 else "take_along_axis", {}
    elif case.kind == "along":
        op, arguments, keywords = "put_along_axis", (x, index, src, case.axis), {"reduce": case.reduce}
    else:
        op, arguments, keywords = row_call(case, x, index, src)
    function = getattr(sow, op + end)
    return [
        Way(
            op + end,
            run=partial(function, *arguments, **keywords),
            result=lambda out: [plain(out)],
            reset=(lambda: x.copy_(x0) if on_gpu(x) else np.copyto(x, x0)) if case.in_place else None,
            explain=lambda: sow.explain(op + end, *arguments, **keywords),
        )
    ]


def family_ways(case: Case, arrays: Arrays) -> list[Way]:
    if not case.backward:
        return [Way(name, run=form, result=lambda out: [plain(out)]) for name, form in sow_forms(case, arrays).items()]
    leaf, grad = sow.asarray(arrays["src"]).requires_grad_(), sow.asarray(arrays["grad"])
    return [Way(name + ", backward", run=backward_of(form, leaf, grad),
                result=lambda out: [plain(out[0].detach()), plain(out[1])])
            for name, form in sow_forms(case, {**arrays, "src": leaf}).items()]


def row_call(case: Case, x: Any, index: Any, src: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    if case.reduce == "add":
        return "index_add", (x, 0, index, src), {}
    if case.reduce == "assign":
        return "index_copy", (x, 0, index, src), {}
    return "index_reduce", (x, 0, index, src, case.reduce), {}


def masked_backward(x: Any, mask: Any, src: Any, grad: Any) -> Way:
    x, value, given = sow.asarray(x).requires_grad_(), sow.asarray(src).requires_grad_(), sow.asarray(grad)

    def run() -> Any:
        x.grad = value.grad = None
        out = sow.masked_scatter(x, mask, value)
        out.backward(given)
        return out, value.grad

    return Way("masked_scatter, backward", run=run, result=lambda out: [plain(out[0].detach()), plain(out[1])])


def backward(case: Case, x: np.ndarray, index: Any, src: np.ndarray, grad: np.ndarray) -> Way:
    leaf, given = sow.asarray(src).requires_grad_(), sow.asarray(grad)
    op, arguments, keywords = row_call(case, sow.asarray(x), index, leaf)
    function = getattr(sow, op)

    def run() -> Any:
        leaf.grad = None
        out = function(*arguments, **keywords)
        out.backward(given)
        return out, leaf.grad

    return Way(op + ", backward", run=run, result=lambda out: [plain(out[0].detach()), plain(out[1])])

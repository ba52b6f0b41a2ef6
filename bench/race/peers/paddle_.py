# SPDX-License-Identifier: Apache-2.0
"""Paddle on the CPU."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from ..cases import Case
from ..data import Arrays
from ..family import paddle_forms
from ..way import Way

REDUCES = {"add": "add", "mul": "multiply", "amax": "amax", "amin": "amin", "mean": "mean", "assign": "assign"}


def start(threads: int) -> str:
    paddle.set_device("cpu")
    return str(paddle.__version__)


def set_threads(threads: int) -> None:
    """Its scatters run on one thread."""


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    if case.dtype in ("bfloat16", "float16") or case.backward:
        return []
    if case.kind == "family":
        own = {name: paddle.to_tensor(array) for name, array in arrays.items()}
        return [Way(name, run=form, result=lambda out: [out.numpy()]) for name, form in paddle_forms(case, own).items()]
    x0, src = paddle.to_tensor(arrays["x"]), paddle.to_tensor(arrays["src"])
    index = paddle.to_tensor(arrays["index"]) if "index" in arrays else None
    state: dict[str, Any] = {"x": x0.clone()}
    form = form_of(case, arrays, state, index, src)
    if form is None:
        return []

    def reset() -> None:
        state["x"] = x0.clone()

    name, run = form
    return [Way(name, run=run, result=lambda out: [np.asarray(out.numpy())], reset=reset if case.in_place else None)]


def form_of(case: Case, arrays: Arrays, state: Any, index: Any, src: Any) -> tuple[str, Callable[[], Any]] | None:
    if case.kind == "masked":
        mask = paddle.to_tensor(np.ascontiguousarray(np.broadcast_to(arrays["mask"], case.shape)))
        name = "masked_scatter_" if case.in_place else "masked_scatter"
        return name, lambda: getattr(paddle, name)(state["x"], mask, src)
    if case.kind == "diagonal":
        return "diagonal_scatter", lambda: paddle.diagonal_scatter(state["x"], src, 0, -2, -1)
    if case.kind == "along":
        reduce = REDUCES[case.reduce]
        return "put_along_axis_", lambda: state["x"].put_along_axis_(index, src, case.axis, reduce)
    end = "_" if case.in_place else ""
    if case.reduce == "add":
        return "index_add" + end, lambda: getattr(paddle, "index_add" + end)(state["x"], index, 0, src)
    if case.reduce == "assign":
        return "scatter" + end, lambda: getattr(paddle, "scatter" + end)(state["x"], index, src, True)
    return None

# SPDX-License-Identifier: Apache-2.0
"""CuPy on the GPU: its scatters of elements and rows, and assignment by masks."""

from __future__ import annotations

from typing import Any

import cupy
import cupyx

from ..cases import Case
from ..way import Way

ADD = {"add": "scatter_add", "amax": "scatter_max", "amin": "scatter_min"}


def start(threads: int) -> str:
    cupy.zeros(1)
    return str(cupy.__version__)


def set_threads(threads: int) -> None:
    """The device has its own."""


def address(case: Case, arrays: Any) -> Any:
    index = cupy.from_dlpack(arrays["index"])
    if case.kind == "nd":
        return index[:, 0], index[:, 1]
    if case.kind == "along":
        return cupy.arange(case.items[0])[:, None], index
    return (slice(None),) * case.axis + (index,)


def ways(case: Case, arrays: Any, compiled: bool) -> list[Way]:
    if case.dtype == "bfloat16" or case.backward or case.held or case.reduce in ("mean", "mul") or not case.in_place:
        return []
    x0, src = cupy.from_dlpack(arrays["x"]), cupy.from_dlpack(arrays["src"])
    x = x0.copy()
    if case.kind == "masked":
        mask = cupy.from_dlpack(arrays["mask"])
        name, run = "x[mask] = v", lambda: x.__setitem__(mask, src)
    elif case.reduce == "assign":
        place = address(case, arrays)
        name, run = "x[i] = v", lambda: x.__setitem__(place, src)
    else:
        place, function = address(case, arrays), getattr(cupyx, ADD[case.reduce])
        name, run = ADD[case.reduce], lambda: function(x, place, src)
    return [Way(name, run=run, result=lambda _: [x], reset=lambda: cupy.copyto(x, x0))]

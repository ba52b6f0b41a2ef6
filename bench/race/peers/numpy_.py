# SPDX-License-Identifier: Apache-2.0
"""NumPy, and SciPy's sparse product where rows are summed."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from ..data import Arrays, copy_of
from ..family import numpy_forms
from ..way import Way

UFUNCS = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum}


def start(threads: int) -> str:
    return np.__version__


def set_threads(threads: int) -> None:
    """NumPy scatters on one thread, whatever is asked for."""


def masked_forms(case: Case, x: np.ndarray, mask: np.ndarray, src: np.ndarray) -> dict[str, Callable[[], Any]]:
    def out_of_place() -> np.ndarray:
        out = x.copy()
        assign(out)
        return out

    def assign(to: np.ndarray) -> np.ndarray:
        if mask.shape == to.shape:
            to[mask] = src
        else:
            to[mask[..., 0]] = src.reshape(-1, to.shape[-1])
        return to

    def place() -> np.ndarray:
        np.place(x, np.broadcast_to(mask, x.shape), src)
        return x

    if not case.in_place:
        return {"copy, x[mask] = v": out_of_place}
    return {"x[mask] = v": lambda: assign(x), "place": place}


def row_forms(case: Case, x: np.ndarray, index: np.ndarray, src: np.ndarray) -> dict[str, Callable[[], Any]]:
    def target() -> np.ndarray:
        return x if case.in_place else x.copy()

    def at() -> np.ndarray:
        out = target()
        UFUNCS[case.reduce].at(out, index, src)
        return out

    def assign() -> np.ndarray:
        out = target()
        out[index] = src
        return out

    def bincount() -> np.ndarray:
        out = target()
        out += np.bincount(index, src, minlength=len(out)).astype(out.dtype)
        return out

    if case.reduce == "assign":
        return {"x[i] = v": assign}
    if case.reduce not in UFUNCS:
        return {}
    forms: dict[str, Callable[[], Any]] = {"ufunc.at": at}
    if case.reduce == "add" and x.ndim == 1 and x.dtype.kind == "f":
        forms["bincount"] = bincount
    if case.reduce == "add" and x.ndim == 2 and x.dtype.kind == "f" and x.dtype.itemsize >= 4:
        forms.update(sparse_form(x, index, src, target))
    return forms


def sparse_form(x: np.ndarray, index: np.ndarray, src: np.ndarray, target: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    try:
        from scipy import sparse
    except ImportError:
        return {}
    count = len(index)

    def product() -> np.ndarray:
        matrix = sparse.csr_array((np.ones(count, x.dtype), index, np.arange(count + 1)), shape=(count, len(x)))
        out = target()
        out += matrix.T @ src
        return out

    return {"scipy.sparse": product}


def along_forms(case: Case, x: np.ndarray, index: np.ndarray, src: np.ndarray) -> dict[str, Callable[[], Any]]:
    def put() -> np.ndarray:
        np.put_along_axis(x, index, src, case.axis)
        return x

    if case.reduce == "assign":
        return {"put_along_axis": put}
    if case.reduce not in UFUNCS:
        return {}
    grid = list(np.ogrid[tuple(slice(extent) for extent in index.shape)])
    grid[case.axis] = index

    def at() -> np.ndarray:
        UFUNCS[case.reduce].at(x, tuple(grid), src)
        return x

    return {"ufunc.at": at}


def gather_forms(case: Case, x: np.ndarray, index: np.ndarray) -> dict[str, Callable[[], Any]]:
    if case.axis >= 0:
        return {"take_along_axis": lambda: np.take_along_axis(x, index, case.axis)}
    return {"take": lambda: np.take(x, index, 0), "x[i]": lambda: x[index]}


def diagonal_forms(case: Case, x: np.ndarray, src: np.ndarray) -> dict[str, Callable[[], Any]]:
    def run() -> np.ndarray:
        out = x.copy()
        np.einsum("...ii->...i", out)[...] = src
        return out

    return {"copy, einsum": run}


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    if case.dtype == "bfloat16" or case.backward:
        return []
    if case.kind == "family":
        return [Way(name, run=form, result=lambda out: [out]) for name, form in numpy_forms(case, arrays).items()]
    x0, src = arrays["x"], arrays["src"]
    x = copy_of(x0)
    if case.kind == "masked":
        forms = masked_forms(case, x, arrays["mask"], src)
    elif case.kind == "rows":
        forms = row_forms(case, x, arrays["index"], src)
    elif case.kind == "along":
        forms = along_forms(case, x, arrays["index"], src)
    elif case.kind == "gather":
        forms = gather_forms(case, x, arrays["index"])
    else:
        forms = diagonal_forms(case, x, src)
    reset = (lambda: np.copyto(x, x0)) if case.in_place else None
    return [Way(name, run=form, result=lambda out: [out], reset=reset) for name, form in forms.items()]

# SPDX-License-Identifier: Apache-2.0
"""Tables for the playground: calls and what sow makes of them, for the page to check itself against when it is opened."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import ml_dtypes
import numpy as np

import sow

CASES = 600
TYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype("f4"), "float64": np.dtype("f8"),
         "int32": np.dtype("i4")}
REDUCTIONS = ["assign", "add", "mul", "amax", "amin", "mean"]


def number(value: float) -> Any:
    """A number that JSON can hold and JavaScript reads as the same."""
    if isinstance(value, int):
        return value
    if math.isnan(value) or math.isinf(value):
        return str(value)
    return "-0" if value == 0 and math.copysign(1, value) < 0 else value


def plain(array: np.ndarray) -> dict[str, Any]:
    wide = array.astype("f8") if array.dtype.kind not in "ib" else array.astype("i8")
    return {"shape": list(array.shape), "data": [number(value) for value in wide.ravel().tolist()]}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Values whose sums are worth looking at: cancellation, ties, tiny and huge ones, now and then something special."""
    if dtype.kind == "i":
        return rng.choice(np.array([rng.integers(-9, 9), 2**31 - 1, -(2**31), 7, -3]), shape).astype(dtype)
    kind = rng.integers(5)
    if kind == 0:
        values = rng.integers(-8, 8, shape).astype("f8")
    elif kind == 1:
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape)
    elif kind == 2:
        values = rng.choice([1.0, -1.0, 2.0**11, -(2.0**11), 2.0**-12, 3.0], shape)
    elif kind == 3:
        values = rng.choice([0.0, -0.0, 1.0, -1.0], shape)
    else:
        values = rng.choice([1e30, -1e30, 1.0, 1e-30, 6e4, -6e4], shape)
    with np.errstate(over="ignore"):
        array = values.astype(dtype)
    if rng.random() < 0.1:
        array.ravel()[rng.integers(array.size)] = rng.choice([np.inf, -np.inf, np.nan])
    return array


def call_of(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """(the call for the page, a function that makes it with sow)."""
    name = str(rng.choice(list(TYPES)))
    dtype = TYPES[name]
    op = str(rng.choice(["scatter_reduce", "scatter_reduce", "index_reduce", "tensor_scatter_nd_update", "masked_scatter", "diagonal_scatter"]))
    shape = tuple(int(extent) for extent in rng.integers(1, 5, 2))
    x = draw(rng, shape, dtype)
    call: dict[str, Any] = {"op": op, "type": name, "axis": 0, "bounds": str(rng.choice(["error", "drop", "clip"])), "offset": 0,
                            "reduce": str(rng.choice(REDUCTIONS)), "includeSelf": bool(rng.integers(2))}
    wide = int(rng.random() < 0.3)  # whether keys may be out of range
    bounds, reduce, own = call["bounds"], call["reduce"], call["includeSelf"]

    def keys(extent: int, size: tuple[int, ...]) -> np.ndarray:
        return rng.integers(-extent - wide, extent + wide, size)

    if op == "scatter_reduce":
        axis = call["axis"] = int(rng.integers(2))
        extents = [int(rng.integers(1, 6)) if d == axis else int(rng.integers(1, shape[d] + 1)) for d in range(2)]
        index, source = keys(shape[axis], tuple(extents)), draw(rng, tuple(extents), dtype)
        make = lambda: sow.scatter_reduce(x, axis, index, source, reduce, include_self=own, bounds=bounds)  # noqa: E731
    elif op == "index_reduce":
        index = keys(shape[0], (int(rng.integers(1, 6)),))
        source = draw(rng, (len(index), shape[1]), dtype)
        make = lambda: sow.index_reduce(x, 0, index, source, reduce, include_self=own, bounds=bounds)  # noqa: E731
    elif op == "tensor_scatter_nd_update":
        items = int(rng.integers(1, 6))
        index = np.stack([keys(extent, (items,)) for extent in shape], 1)
        source = draw(rng, (items,), dtype)
        make = lambda: sow.tensor_scatter_nd_update(x, index, source, bounds=bounds)  # noqa: E731
    elif op == "masked_scatter":
        index = rng.integers(0, 2, shape).astype(bool)
        source = draw(rng, (max(1, int(index.sum()) + int(rng.integers(-1, 2))),), dtype)
        make = lambda: sow.masked_scatter(x, index, source)  # noqa: E731
    else:
        offset = call["offset"] = int(rng.integers(-shape[0] + 1, shape[1]))
        index = None
        source = draw(rng, np.diagonal(x, offset).shape, dtype)
        make = lambda: sow.diagonal_scatter(x, source, offset)  # noqa: E731
    call |= {"x": plain(x), "source": plain(source), "index": None if index is None else plain(index)}
    return call, make


def tables(cases: int = CASES, seed: int = 5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(cases):
        call, make = call_of(rng)
        try:
            entry = {"result": plain(np.asarray(make()))["data"]}
        except (ValueError, IndexError) as error:
            entry = {"error": str(error)}
        found.append({"call": call, **entry})
    return found


def write(folder: pathlib.Path) -> None:
    text = json.dumps({"version": sow.__version__, "cases": tables()}, separators=(",", ":"))
    (folder / "playground-tables.js").write_text(f"const SOW_TABLES = {text};\n")

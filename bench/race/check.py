# SPDX-License-Identifier: Apache-2.0
"""Whether results are right before they are timed: peers within rounding, sow exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .cases import Case
from .data import Arrays, as_double, from_bfloat16

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-22,
           "int64": 0.0, "int32": 0.0, "uint8": 0.0}


def read(part: dict[str, Any]) -> np.ndarray:
    return np.fromfile(part["file"], part["dtype"])


def destinations(case: Case, arrays: Arrays) -> np.ndarray:
    """For each index its place in the flat destination, counting rows where there are rows."""
    index = arrays["index"]
    if case.kind == "rows":
        return index
    grid = list(np.ogrid[tuple(slice(extent) for extent in index.shape)])
    grid[case.axis] = index
    return np.ravel_multi_index(np.broadcast_arrays(*grid), case.shape).reshape(-1)


def tolerance(case: Case, arrays: Arrays, places: int) -> np.ndarray | float:
    """How far a peer may be off. Its sums round at every step, so the terms' magnitudes count."""
    epsilon = EPSILON[case.dtype]
    if case.reduce in ("assign", "amax", "amin") and not case.backward:
        return 0.0
    to = destinations(case, arrays).reshape(-1)
    counts = np.bincount(to, minlength=places).astype(np.float64)
    magnitude = np.abs(as_double(arrays["src"], case.dtype)).reshape(len(to), -1).max(axis=1)
    sums = np.bincount(to, magnitude, minlength=places)
    old = np.abs(as_double(arrays["x"], case.dtype)).reshape(places, -1).max(axis=1)
    if case.reduce == "mul":
        highest = np.zeros(places)
        np.add.at(highest, to, np.log2(np.maximum(magnitude, 1.0)))
        size: np.ndarray = np.maximum(old, 1.0) * np.exp2(np.minimum(highest, 1000.0))
    else:
        size = sums + old
    allowed: np.ndarray = (counts + 4) * epsilon * size
    return allowed


def differs(case: Case, arrays: Arrays, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> str:
    """What is wrong with a peer's result beside ours, or nothing."""
    if len(expected) != len(found):
        return "another number of results"
    for number, (ours, theirs) in enumerate(zip(expected, found)):
        a, b = read(ours), read(theirs)
        if a.shape != b.shape:
            return f"{b.size} elements instead of {a.size}"
        if np.array_equal(a, b):
            continue
        wrong = differences(case, arrays, a, b, ours["step"], number)
        if wrong:
            return wrong
    return ""


def differences(case: Case, arrays: Arrays, a: np.ndarray, b: np.ndarray, step: int, part: int) -> str:
    a, b = as_double(a, case.dtype), as_double(b, case.dtype)
    width = case.shape[-1] if case.kind == "rows" and len(case.shape) > 1 else 1
    if case.kind == "family":  # sums of some ten terms, and what is made of them; gradients cancel
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= 1e-4 * np.maximum(np.abs(a), np.abs(b)) + 1e-5
        near |= (a == b) | (np.isnan(a) & np.isnan(b))
        return "" if near.mean() > 0.9999 else f"{(~near).sum()} of {a.size} elements differ"
    if part == 1:  # a gradient of the source: one rounding or two an element, relative to its size
        near = np.abs(a - b) <= 64 * EPSILON[case.dtype] * np.maximum(np.abs(a), np.abs(b)) + 1e-30
        return "" if near.mean() > 0.999 else f"{(~near).sum()} gradients differ"
    if case.kind in ("masked", "diagonal", "gather"):
        return f"{(a != b).sum()} elements differ"
    places = int(np.prod(case.shape)) // width
    allowed = tolerance(case, arrays, places)
    if case.reduce == "assign":
        # Where several updates meet, peers leave open who wins.
        counts = np.bincount(destinations(case, arrays).reshape(-1), minlength=places)
        allowed = np.where(counts > 1, np.inf, 0.0)
    if not isinstance(allowed, float):
        allowed = np.repeat(allowed, width)[::step]
    wrong = ~(np.abs(a - b) <= allowed)
    return f"{wrong.sum()} of {a.size} elements differ, by up to {np.nanmax(np.abs(a - b)[wrong]):.3g}" if wrong.any() else ""


def differs_on_device(case: Case, expected: list[dict[str, Any]], found: list[dict[str, Any]], bounds: str, of: str) -> str:
    """The same on a GPU, where whoever prepared first has computed how far the shown places may be off."""
    if len(expected) != len(found):
        return "another number of results"
    for number, (ours, theirs) in enumerate(zip(expected, found)):
        a, b = read(ours), read(theirs)
        if a.shape != b.shape:
            return f"{b.size} elements instead of {a.size}"
        allowed: Any = np.fromfile(bounds) if bounds and number == 0 else 0.0
        if number == 1:
            allowed = 64 * EPSILON[case.dtype] * np.maximum(np.abs(a), np.abs(b)) + 1e-30
        elif of == "result":
            allowed = allowed * np.maximum(np.abs(a), np.abs(b)) + 1e-37
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
        if wrong.mean() > (0.001 if number == 1 else 0.0):
            return f"{wrong.sum()} of {a.size} shown elements differ"
    return ""


def is_nearest(exact: Fraction, found: np.generic, dtype: str) -> bool:
    """Whether no neighbour of a float is closer to the real number."""
    if dtype == "bfloat16":
        bits = int(found)
        around = [from_bfloat16(np.array([b], np.uint16))[0] for b in (bits, bits - 1 & 0xFFFF, bits + 1 & 0xFFFF)]
    else:
        kind = type(found)
        around = [found, np.nextafter(found, kind(-np.inf)), np.nextafter(found, kind(np.inf))]
    if not np.isfinite(around[0]):
        return False
    error = abs(exact - Fraction(float(around[0])))
    return all(not np.isfinite(near) or error <= abs(exact - Fraction(float(near))) for near in around[1:])


def spot_check(case: Case, arrays: Arrays, part: dict[str, Any], spots: int = 12) -> str:
    """A few places of our result against rational arithmetic."""
    real = case.dtype.startswith(("float", "bfloat"))
    if case.kind not in ("rows", "along") or case.reduce in ("mul", "assign") or not real:
        return ""
    found, step = read(part), part["step"]
    width = case.shape[-1] if case.kind == "rows" and len(case.shape) > 1 else 1
    to = destinations(case, arrays).reshape(-1)
    src = arrays["src"].reshape(len(to), -1)
    random = np.random.default_rng(1)
    for at in random.integers(0, found.size, spots):
        place, column = divmod(int(at) * step, width)
        old = arrays["x"].reshape(-1)[int(at) * step : int(at) * step + 1]
        values = as_double(np.concatenate([old, src[to == place, column]]), case.dtype)
        terms = [Fraction(float(value)) for value in values]
        result = found[at]
        if case.reduce in ("amax", "amin"):
            extreme = values.max() if case.reduce == "amax" else values.min()
            right = as_double(found[at : at + 1], case.dtype)[0] == extreme
        elif case.reduce == "mean":
            mean = np.float64(float(sum(terms))) / len(terms)
            right = case.dtype == "bfloat16" or result == type(result)(mean)
        else:
            right = is_nearest(sum(terms, Fraction(0)), result, case.dtype)
        if not right:
            return f"place {place}, column {column}: {result} is not the {case.reduce} of {len(terms)} terms"
    return ""

# SPDX-License-Identifier: Apache-2.0
"""The arrays of a case: made once by the parent, read by every worker into memory of its own."""

from __future__ import annotations

import json
import pathlib
import zlib
from typing import Any

import numpy as np

from .cases import Case, product

Arrays = dict[str, np.ndarray]


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits of bfloat16, nearest even; NumPy alone has no such type."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def draw(random: np.random.Generator, shape: tuple[int, ...], case: Case) -> np.ndarray:
    if case.dtype in ("int64", "int32", "uint8"):
        return random.integers(0 if case.dtype == "uint8" else -100, 100, shape).astype(case.dtype)
    if case.dtype == "complex64":
        pairs: np.ndarray = random.standard_normal((*shape, 2), np.float32).view(np.complex64)
        return pairs.reshape(shape)
    values = random.standard_normal(shape, np.float64 if case.dtype == "float64" else np.float32)
    if case.values == "wide":
        reach = {"float16": 10, "float64": 400}.get(case.dtype, 60)
        values = np.ldexp(values, random.integers(-reach, reach, shape, np.int32))
    if case.dtype == "bfloat16":
        return to_bfloat16(values)
    return values.astype(case.dtype, copy=False)


def keys(random: np.random.Generator, shape: tuple[int, ...], extent: int, how: str) -> np.ndarray:
    if how == "zipf":
        # The k-th place is met in proportion to 1/k; where the places lie is left to chance.
        cumulative = np.cumsum(1.0 / np.arange(1, extent + 1))
        ranks = np.searchsorted(cumulative, random.random(shape) * cumulative[-1])
        places: np.ndarray = random.permutation(extent)[np.minimum(ranks, extent - 1)]
        return places
    if how == "one":
        return np.full(shape, extent // 3)
    drawn = random.integers(0, extent, shape)
    return np.sort(drawn, axis=-1) if how == "sorted" else drawn


def make(case: Case) -> Arrays:
    random = np.random.default_rng(zlib.crc32(case.data_key.encode()))
    if case.kind == "family":
        from .family import arrays_of

        return arrays_of(case, random, draw, keys)
    arrays = {"x": draw(random, case.shape, case)}
    if case.kind == "masked":
        mask = np.zeros(product(case.items), bool)
        mask[: int(round(mask.size * case.density))] = True
        random.shuffle(mask)
        arrays["mask"] = mask.reshape(case.items)
        arrays["src"] = draw(random, (int(arrays["mask"].sum()) * (product(case.shape) // mask.size),), case)
    elif case.kind == "along":
        arrays["index"] = keys(random, case.items, case.shape[case.axis], case.index)
        arrays["src"] = draw(random, case.items, case)
    elif case.kind == "gather":
        arrays["index"] = keys(random, case.items, case.shape[max(case.axis, 0)], case.index)
        arrays["src"] = draw(random, (1,), case)  # nobody's
    elif case.kind == "rows":
        arrays["index"] = keys(random, case.items, case.shape[0], case.index)
        arrays["src"] = draw(random, case.items + case.shape[1:], case)
        arrays["grad"] = draw(random, case.shape, case)
    else:
        arrays["src"] = draw(random, case.shape[:-2] + (min(case.shape[-2:]),), case)
    return arrays


def save(folder: pathlib.Path, arrays: Arrays) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    facts = {}
    for name, array in arrays.items():
        array.tofile(folder / name)
        facts[name] = {"dtype": str(array.dtype), "shape": array.shape}
    (folder / "facts.json").write_text(json.dumps(facts))


def at_line(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Memory that begins at a cache line, as that of PyTorch, JAX and sow does. NumPy's own large arrays begin 16 bytes
    into one, which by itself would make four lines of a row five for some libraries and not for others."""
    line = 64
    memory = np.empty(product(shape) * dtype.itemsize + line, np.uint8)
    first = -memory.ctypes.data % line
    return memory[first : first + product(shape) * dtype.itemsize].view(dtype).reshape(shape)


def copy_of(array: np.ndarray) -> np.ndarray:
    copy = at_line(array.shape, array.dtype)
    copy[...] = array
    return copy


def load(folder: pathlib.Path) -> Arrays:
    """Into fresh memory: what a mapped file costs in page table walks is no library's fault."""
    arrays = {}
    for name, fact in json.loads((folder / "facts.json").read_text()).items():
        arrays[name] = at_line(tuple(fact["shape"]), np.dtype(fact["dtype"]))
        with (folder / name).open("rb") as file:
            file.readinto(arrays[name].reshape(-1).view(np.uint8))
    return arrays


def as_double(array: np.ndarray, dtype: str) -> np.ndarray:
    """Exactly; complex numbers stay complex."""
    if dtype == "complex64":
        return array.astype(np.complex128)
    return (from_bfloat16(array) if dtype == "bfloat16" else array).astype(np.float64)

# SPDX-License-Identifier: Apache-2.0
"""The grid: operation x reduction x type x size x width x axis x index x threads, as plain data like the rows of the table.

Every shape is met in every size. At each of them one thing at a time is changed from the middle of the grid (sums of
float32, uniform keys, all threads); types and reductions are crossed in two sizes. The instruction set is the
process's: a run with --isa races the same cases on another one."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from .cases import BYTES, INDEX_BYTES, Case, along, masked, product, rows

SIZES = (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)
CROSSED = (10_000, 1_000_000)
LARGEST = 100_000_000
WIDTHS = (2, 3, 8, 48, 256, 1024)
REDUCTIONS = ("add", "mean", "amax", "amin", "mul", "assign")
TYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "complex64")
INDICES = ("uniform", "zipf", "sorted", "one")
THREADS = (0, 1, 2)  # 0: all
PEERS = ("sow", "torch", "jax", "numpy")
FEW = ("sow", "torch", "numpy")  # of what takes gigabytes

Builder = Callable[..., Case]  # (name, reduce, **more) -> a case of one shape and size


def gather(name: str, items: tuple[int, ...], shape: tuple[int, ...], axis: int, reduce: str, **more: Any) -> Case:
    """Rows of `shape` by a 1-D index (axis -1), or elements along an axis: what is read, and what is written."""
    size = BYTES[more.get("dtype", "float32")]
    count = product(items) * (product(shape[1:]) if axis < 0 else 1)
    floor = product(items) * INDEX_BYTES + count * size + min(count, product(shape)) * size
    return Case(name, kind="gather", reduce="assign", shape=shape, items=items, axis=axis, in_place=False, floor_bytes=floor,
                **more)


def shapes(size: int) -> Iterator[tuple[str, Builder]]:
    """Every shape with about `size` updates, and where it stands in the summary."""
    half = max(size // 2, 1)
    yield "elements to half as many", lambda name, reduce, **more: rows(name, size, 1, half, reduce, **more)
    if size >= 10_000:
        yield "elements to 1,000", lambda name, reduce, **more: rows(name, size, 1, 1000, reduce, **more)
    for width in WIDTHS:
        items = size // width
        if items >= 16:
            yield f"rows of {width}", lambda name, reduce, items=items, width=width, **more: rows(
                name, items, width, max(items // 8, 1), reduce, **more)
    line = size // 8
    if line >= 16:
        yield "last axis, 8 lines", lambda name, reduce, **more: along(name, (8, 2 * line), (8, line), 1, reduce, **more)
    lines = size // 100
    if lines >= 8:
        yield "last axis, lines of 100", lambda name, reduce, **more: along(
            name, (lines, 200), (lines, 100), 1, reduce, **more)
    deep = size // 64
    if deep >= 16:
        yield "first axis, 64 columns", lambda name, reduce, **more: along(name, (2 * deep, 64), (deep, 64), 0, reduce, **more)
    cube = size // 256
    if cube >= 16:
        yield "middle axis of 16 and 16", lambda name, reduce, **more: along(
            name, (16, 2 * cube, 16), (16, cube, 16), 1, reduce, **more)


def moves(size: int) -> Iterator[tuple[str, Builder]]:
    """What moves and does not reduce."""
    yield "masked elements", lambda name, reduce, **more: masked(name, (size,), (size,), 0.5, True, **more)
    if size >= 10_000:
        yield "masked rows of 64", lambda name, reduce, **more: masked(
            name, (size // 64, 64), (size // 64, 1), 0.25, True, **more)
        yield "gathered rows of 64", lambda name, reduce, **more: gather(
            name, (size // 64,), (size // 64, 64), -1, reduce, **more)
        yield "gathered along lines of 100", lambda name, reduce, **more: gather(
            name, (size // 100, 100), (size // 100, 100), 1, reduce, **more)
    yield "gathered elements", lambda name, reduce, **more: gather(name, (size,), (size,), -1, reduce, **more)


def is_common(reduce: str, dtype: str) -> bool:
    """Whether it means the same to everybody: there is no extreme of complex numbers, and means of integers round as they like."""
    return not (dtype == "complex64" and reduce in ("amax", "amin")) and not (dtype in ("int64", "int32", "uint8") and reduce == "mean")


def changes(size: int) -> Iterator[tuple[str, str, str, int]]:
    """(reduction, type, index, threads): one of them away from the middle, or type and reduction crossed."""
    for reduce in REDUCTIONS:
        for dtype in TYPES if size in CROSSED else ("float32",):
            if is_common(reduce, dtype):
                yield reduce, dtype, "uniform", 0
    for dtype in TYPES if size not in CROSSED else ():
        if dtype != "float32":
            yield "add", dtype, "uniform", 0
    for index in INDICES:
        if index != "uniform":
            yield "add", "float32", index, 0
    for threads in THREADS:
        if threads != 0:
            yield "add", "float32", "uniform", threads


def words(where: str, size: int, reduce: str, dtype: str, index: str, threads: int) -> str:
    count = "" if threads == 0 else f", {threads} thread{'s' if threads > 1 else ''}"
    return f"{where}, 10^{round(math.log10(size))}: {reduce} {dtype}" + ("" if index == "uniform" else f", {index} index") + count


def grid() -> Iterator[Case]:
    for size in SIZES:
        for where, build in shapes(size):
            for reduce, dtype, index, threads in changes(size):
                yield build(words(where, size, reduce, dtype, index, threads), reduce, group=f"grid, {where}", x=size,
                            dtype=dtype, index=index, threads=threads, peers=PEERS)
        for where, build in moves(size):
            for dtype in TYPES:
                yield build(words(where, size, "assign", dtype, "uniform", 0), "assign", group=f"grid, {where}", x=size,
                            dtype=dtype, peers=PEERS)
            for threads in THREADS[1:]:
                yield build(words(where, size, "assign", "float32", "uniform", threads), "assign", group=f"grid, {where}",
                            x=size, threads=threads, peers=PEERS)
    for where, build in [*shapes(LARGEST), *moves(LARGEST)]:
        if where in ("elements to half as many", "rows of 48", "last axis, lines of 100", "masked elements", "gathered elements"):
            yield build(words(where, LARGEST, "add", "float32", "uniform", 0), "add", group=f"grid, {where}", x=LARGEST, peers=FEW)


def sample(cases: list[Case], count: int, most: int = 1_000_000) -> list[Case]:
    """The same few on every machine: those whose names come first in an order that looks like chance, the largest left out."""
    small = [case for case in cases if case.x <= most]
    chosen = sorted(small, key=lambda case: zlib.crc32(case.name.encode()))[:count]
    return [case for case in small if case in chosen]

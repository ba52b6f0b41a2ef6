# SPDX-License-Identifier: Apache-2.0
"""What is raced on a GPU: the rows that have goals there, in milliseconds on an NVIDIA H200."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import BYTES, INDEX_BYTES, Case, along, diagonal, masked, product, rows
from .grid import moves, shapes, words

PEERS = ("sow", "torch", "torch_deterministic", "jax", "cupy")
SAMPLED = 60  # cases of the grid that are raced unless the whole of it is asked for
SAMPLE_MOST = 10_000_000  # updates of the largest among them


def cache(name: str, shape: tuple[int, ...], items: int, axis: int, **more: Any) -> Case:
    """index_copy_ along an inner axis to places that differ: values are read and written."""
    size = BYTES[more.get("dtype", "float32")]
    moved = product(shape) // shape[axis] * items * size
    return Case(name, kind="cache", reduce="assign", shape=shape, items=(items,), axis=axis,
                floor_bytes=2 * moved + items * INDEX_BYTES, index="distinct", **more)


def coordinates(name: str, shape: tuple[int, ...], items: int, **more: Any) -> Case:
    """tensor_scatter_nd_add_: pairs of coordinates, rows of the last axis."""
    width = shape[-1] * BYTES[more.get("dtype", "float32")]
    floor = items * (2 * INDEX_BYTES + width) + 2 * min(items, product(shape[:-1])) * width
    return Case(name, kind="nd", reduce="add", shape=shape, items=(items, 2), floor_bytes=floor, **more)


def masks(own: dict[str, Any]) -> Iterator[Case]:
    shape, mask, n = (8, 4096, 4096), (8, 4096, 1), 1 << 27
    yield masked("masked_scatter by rows, 8x4096x4096 bf16", shape, mask, 0.25, False, dtype="bfloat16", limit=0.16e-3, **own)
    yield masked("masked_scatter_ by rows, in place", shape, mask, 0.25, True, dtype="bfloat16", limit=0.05e-3, **own)
    yield masked("masked_scatter 2^27 f32, half true", (n,), (n,), 0.5, False, limit=0.42e-3, **own)
    yield masked("masked_scatter_ 2^27 f32, half true", (n,), (n,), 0.5, True, limit=0.30e-3, **own)
    forward = masked("masked_scatter 2^27, forward + backward", (n,), (n,), 0.5, False, limit=1.0e-3, backward=True, **own)
    # The gradient and the mask are read, both gradients written.
    yield forward.with_floor(forward.floor_bytes + n * 4 + n + n * 4 + n // 2 * 4)


def many_rows(own: dict[str, Any]) -> Iterator[Case]:
    n, to = 8_000_000, 500_000
    yield rows("rows add 8M x 64 to 500k", n, 64, to, "add", limit=0.90e-3, **own)
    yield rows("rows add, index held", n, 64, to, "add", held=True, limit=0.68e-3, **own)
    for reduce in ("mean", "amax", "mul"):
        yield rows(f"rows {reduce}", n, 64, to, reduce, limit=0.9e-3, **own)
    for reduce in ("amax", "mean", "mul"):
        yield rows(f"rows {reduce} forward + backward", n, 64, to, reduce, in_place=False, backward=True, limit=3.0e-3, **own)
    yield rows("rows add, wide exponents", n, 64, to, "add", values="wide", limit=3.6e-3, **own)
    yield rows("rows add bf16", n, 64, to, "add", dtype="bfloat16", limit=0.60e-3, **own)
    yield rows("rows add bf16, index held", n, 64, to, "add", dtype="bfloat16", held=True, limit=0.35e-3, **own)
    yield rows("rows add 7.8M x 128, half to one row", 7_800_000, 128, to, "add", index="hot", limit=2.5e-3, **own)
    yield coordinates("scatter_nd add 4M rows of 64 into 1024x1024", (1024, 1024, 64), 4_000_000, limit=0.65e-3, **own)
    yield cache("cache rows [32,8,32768,128] bf16, 4096 places", (32, 8, 32768, 128), 4096, 2, dtype="bfloat16",
                limit=0.16e-3, **own)


def elements(own: dict[str, Any]) -> Iterator[Case]:
    n = 1 << 26
    for places, name, limit in ((1 << 24, "2^24", 1.6), (1 << 22, "2^22", 1.1), (1 << 20, "2^20", 0.88), (1024, "1024", 0.42),
                                (8, "8", 0.25)):
        yield rows(f"elements add 2^26 to {name}", n, 1, places, "add", limit=limit * 1e-3, **own)
    yield rows("elements assign 2^26 to 2^24", n, 1, 1 << 24, "assign", limit=3.0e-3, **own)
    yield rows("elements add f16 2^26 to 1024", n, 1, 1024, "add", dtype="float16", limit=0.5e-3, **own)
    # JAX and CuPy take 2.2 s for 1024 places (H200, 2026-11-15), and longer the fewer there are.
    yield rows("elements add f16 2^26 to 8", n, 1, 8, "add", dtype="float16", limit=0.5e-3, peers=PEERS[:3], **own)


# What the grid varies: one thing at a time away from sums of float32 with uniform keys.
GRID_TYPES = ("float64", "bfloat16", "float16", "int64")
GRID_MIDDLE = (100_000, 10_000_000)  # where types, reductions and indices are varied


def device_grid() -> Iterator[Case]:
    """Every shape of the grid in sizes from 10^3 to 10^8."""
    for size in (1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000):
        changes = [("add", "float32", "uniform")]
        if size in GRID_MIDDLE:
            changes += [(reduce, "float32", "uniform") for reduce in ("mean", "amax", "mul", "assign")]
            changes += [("add", dtype, "uniform") for dtype in GRID_TYPES]
            changes += [("add", "float32", index) for index in ("zipf", "sorted", "one")]
        for where, build in shapes(size):
            for reduce, dtype, index in changes:
                # JAX and CuPy add half floats by compare-and-swap, seconds of it where many meet.
                few = dtype in ("float16", "bfloat16") or (index == "one" and size > 100_000)
                yield build(words(where, size, reduce, dtype, index, 0), reduce, group=f"grid, {where}", x=size, dtype=dtype,
                            index=index, peers=PEERS[:3] if few else PEERS)
        for where, build in moves(size):
            yield build(words(where, size, "assign", "float32", "uniform", 0), "assign", group=f"grid, {where}", x=size, peers=PEERS)


def device_cases() -> list[Case]:
    own: dict[str, Any] = {"group": "table", "quick": True}
    found = [*masks(own), *many_rows(own), *elements(own)]
    for reduce in ("add", "mean", "amax", "mul", "assign"):
        found.append(along(f"put_along_axis_ {reduce} 8192x32768, 2048 a row", (8192, 32768), (8192, 2048), 1, reduce,
                           limit=0.8e-3, **own))
    found.append(diagonal("diagonal_scatter 64x4096x4096", (64, 4096, 4096), limit=2.06e-3, **own))
    small: dict[str, Any] = {**own, "goals": (("torch", 1.0),), "peers": PEERS[:3]}
    found.append(rows("1000 elements add, whole calls", 1000, 1, 1000, "add", **small))
    found.append(rows("1000 elements assign, whole calls", 1000, 1, 1000, "assign", **small))
    found.append(masked("1000 elements masked_scatter_, whole calls", (1000,), (1000,), 0.5, True, **small))
    return found

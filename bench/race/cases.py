# SPDX-License-Identifier: Apache-2.0
"""What is raced, as plain data: every row of the table, and how time grows along one line at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int32": 4, "uint8": 1, "complex64": 8}
INDEX_BYTES = 8  # indices are int64
GRID_SAMPLE = 40  # cases of the grid that a quick run takes


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem. `kind` says which of the sizes count: see the functions below."""

    name: str
    group: str  # "table", or the line of a plot
    kind: str  # masked, along, rows (a width of 1: elements), diagonal, gather, family (family.py); on a GPU also cache, nd
    reduce: str = "add"
    dtype: str = "float32"
    shape: tuple[int, ...] = ()  # of the destination
    items: tuple[int, ...] = ()  # shape of the index, or of the mask
    axis: int = 0
    density: float = 0.5  # of a mask's trues
    index: str = "uniform"  # uniform, zipf, sorted, one; on a GPU also hot, distinct
    values: str = "normal"  # normal, wide (exponents over the whole range)
    in_place: bool = True
    backward: bool = False
    held: bool = False  # the index is held and reused
    threads: int = 0  # 0: all
    x: float = 0  # where it stands on its group's line
    floor_bytes: int = 0
    goals: tuple[tuple[str, float], ...] = ()  # (peer or "best", times faster)
    limit: float = 0  # seconds that it may take on the GPU its goals are for
    peers: tuple[str, ...] = ()  # empty: all
    quick: bool = False

    @property
    def data_key(self) -> str:
        """Cases with the same key run on the same arrays."""
        parts = [self.kind, *([self.reduce] if self.kind == "family" else []), self.dtype, self.shape, self.items, self.axis, self.density, self.index, self.values]
        return "-".join(str(part) for part in parts).replace(" ", "")

    def with_floor(self, floor_bytes: int) -> Case:
        return dataclasses.replace(self, floor_bytes=floor_bytes)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Case:
        for name in ("shape", "items", "peers"):
            fields[name] = tuple(fields[name])
        fields["goals"] = tuple((peer, times) for peer, times in fields["goals"])
        return Case(**fields)


def product(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def masked(name: str, shape: tuple[int, ...], mask: tuple[int, ...], density: float, in_place: bool, **more: Any) -> Case:
    """masked_scatter: the mask and the values are read, the trues written; out of place also the rest."""
    size = BYTES[more.get("dtype", "float32")]
    chosen = int(product(shape) * density)
    floor = product(mask) + 2 * chosen * size
    if not in_place:
        floor += 2 * (product(shape) - chosen) * size
    return Case(name, kind="masked", reduce="assign", shape=shape, items=mask, density=density, in_place=in_place,
                floor_bytes=floor, **more)


def along(name: str, shape: tuple[int, ...], items: tuple[int, ...], axis: int, reduce: str, **more: Any) -> Case:
    """put_along_axis_: index and values are read; touched places are written and, but for assign, read."""
    size = BYTES[more.get("dtype", "float32")]
    touches = 1 if reduce == "assign" else 2
    floor = product(items) * (INDEX_BYTES + size) + touches * min(product(items), product(shape)) * size
    return Case(name, kind="along", reduce=reduce, shape=shape, items=items, axis=axis, floor_bytes=floor, **more)


def rows(name: str, items: int, width: int, places: int, reduce: str, **more: Any) -> Case:
    """Rows of `width` meet in `places` rows; with a width of 1 these are elements of a line."""
    size = BYTES[more.get("dtype", "float32")]
    touched = min(places, items) * width * size
    floor = items * (INDEX_BYTES + width * size) + (1 if reduce == "assign" else 2) * touched
    if more.get("backward"):
        # The gradient of the result is read, that of the source written; some rules read both again.
        floor += touched + items * (INDEX_BYTES + width * size)
        floor += items * width * size + touched if reduce in ("amax", "amin", "mul") else 0
    shape = (places, width) if width > 1 else (places,)
    return Case(name, kind="rows", reduce=reduce, shape=shape, items=(items,), floor_bytes=floor, **more)


def diagonal(name: str, shape: tuple[int, ...], **more: Any) -> Case:
    """diagonal_scatter of the last two axes, out of place: a copy, and one line of each matrix."""
    floor = 2 * product(shape) * BYTES[more.get("dtype", "float32")]
    return Case(name, kind="diagonal", reduce="assign", shape=shape, in_place=False, floor_bytes=floor, **more)


def best(times: float) -> tuple[tuple[str, float], ...]:
    return (("best", times),)


def table() -> Iterator[Case]:
    """The rows that have goals."""
    own: dict[str, Any] = {"group": "table", "quick": True}
    n = 1 << 24
    yield masked("masked_scatter_ 2^24, half true", (n,), (n,), 0.5, True, goals=best(12), **own)
    yield masked("masked_scatter 2^24, half true", (n,), (n,), 0.5, False, goals=best(10), **own)
    wide, mask = (2, 2048, 2048), (2, 2048, 1)
    # The goal was set beside PyTorch's masked_scatter_. Its x[mask] = v is within twice the floor.
    yield masked("masked_scatter_ 2x2048x2048, mask by rows", wide, mask, 0.25, True,
                 goals=(("torch masked_scatter_", 8), ("best", 1)), **own)
    yield masked("masked_scatter 2x2048x2048, mask by rows", wide, mask, 0.25, False,
                 goals=(("torch", 4), ("numpy", 1)), **own)
    for reduce in ("add", "amax", "mul", "assign", "mean"):
        yield along(f"put_along_axis_ {reduce} 1024x8192, last axis", (1024, 8192), (1024, 1024), 1, reduce,
                    goals=best(8 if reduce == "mean" else 1.3), **own)
    yield along("put_along_axis_ add 8192x1024, axis 0", (8192, 1024), (1024, 1024), 0, "add", goals=best(3), **own)
    for reduce in ("add", "mean", "amax", "amin", "mul"):
        yield rows(f"rows {reduce} 500k x 64 to 50k", 500_000, 64, 50_000, reduce, goals=best(1.5), **own)
    for reduce in ("add", "amax"):
        yield rows(f"rows {reduce}, index held", 500_000, 64, 50_000, reduce, held=True, goals=best(2), **own)
    for reduce, goal in (("add", 3), ("mean", 6), ("amax", 6), ("mul", 8)):
        yield rows(f"rows {reduce} forward + backward", 500_000, 64, 50_000, reduce, in_place=False, backward=True,
                   goals=best(goal), **own)
    yield rows("rows add bfloat16", 500_000, 64, 50_000, "add", dtype="bfloat16", goals=best(3), **own)
    for reduce in ("add", "amax", "assign"):
        yield rows(f"elements {reduce} 2^23 to 2^22", 1 << 23, 1, 1 << 22, reduce, goals=best(3.5), **own)
    for reduce, few in (("add", 1.7), ("amax", 1.5), ("assign", 1.5)):
        yield rows(f"elements {reduce} 2^23 to 1024", 1 << 23, 1, 1024, reduce, goals=best(few), **own)
    yield diagonal("diagonal_scatter 16x1024x1024", (16, 1024, 1024), goals=best(1.5), **own)
    yield from small()


def small() -> Iterator[Case]:
    """Calls that cost more than their work."""
    own: dict[str, Any] = {"group": "table", "quick": True, "goals": (("torch", 1),)}
    yield masked("100 elements masked_scatter_", (100,), (100,), 0.5, True, **own)
    yield masked("100 elements masked_scatter", (100,), (100,), 0.5, False, **own)
    yield rows("100 elements add in place", 100, 1, 100, "add", **own)
    yield rows("100 elements add out of place", 100, 1, 100, "add", in_place=False, **own)
    yield along("100 elements put_along_axis_ assign", (10, 10), (10, 10), 1, "assign", **own)


def growth() -> Iterator[Case]:
    """How time grows: with size, row length, places, threads; and what types, indices, values do to it."""
    for size in (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000):
        quick = 1000 <= size <= 1_000_000
        few = ("sow", "torch", "numpy") if size > 20_000_000 else ()
        yield rows(f"elements add {size:,}", size, 1, max(size // 2, 1), "add", group="size: elements add to half as many",
                   x=size, quick=quick, peers=few)
        yield masked(f"masked_scatter_ {size:,}", (size,), (size,), 0.5, True, group="size: masked_scatter_", x=size,
                     quick=quick, peers=few)
        if size >= 1000:
            yield rows(f"rows of 64 add {size:,}", size // 64, 64, max(size // 640, 1), "add",
                       group="size: rows of 64 add", x=size, peers=few)
    for width in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024):
        yield rows(f"rows of {width} add, 2^23 elements", (1 << 23) // width, width, max((1 << 20) // width, 1), "add",
                   group="row length: 2^23 elements add", x=width)
    for places in (1, 8, 64, 1024, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24):
        yield rows(f"elements add 2^22 to {places:,}", 1 << 22, 1, places, "add", group="places: 2^22 elements add",
                   x=places)
        yield rows(f"elements amax 2^22 to {places:,}", 1 << 22, 1, places, "amax", group="places: 2^22 elements amax",
                   x=places)
    yield from varieties()


def varieties() -> Iterator[Case]:
    for dtype in ("float16", "bfloat16", "float64", "int64"):
        yield rows(f"rows add {dtype}", 500_000, 64, 50_000, "add", dtype=dtype, group="types")
        yield rows(f"elements add {dtype} 2^22 to 2^20", 1 << 22, 1, 1 << 20, "add", dtype=dtype, group="types")
        yield rows(f"elements add {dtype} 2^22 to 1024", 1 << 22, 1, 1024, "add", dtype=dtype, group="types")
        yield masked(f"masked_scatter_ {dtype} 2^22", (1 << 22,), (1 << 22,), 0.5, True, dtype=dtype, group="types")
    for index in ("zipf", "sorted"):
        yield rows(f"rows add, {index} index", 500_000, 64, 50_000, "add", index=index, group="indices")
        yield rows(f"elements add 2^22 to 2^20, {index} index", 1 << 22, 1, 1 << 20, "add", index=index, group="indices")
    for width, items, places in ((64, 500_000, 50_000), (1, 1 << 22, 1 << 20), (1, 1 << 22, 1024)):
        what = f"rows of {width}" if width > 1 else f"elements to {places:,}"
        yield rows(f"{what} add, wide exponents", items, width, places, "add", values="wide", group="values")
    for density in (0.01, 0.1, 0.9, 0.99):
        yield masked(f"masked_scatter_ 2^22, {density:.0%} true", (1 << 22,), (1 << 22,), density, True, group="density",
                     x=density)
    for name, items, width, places in (("rows of 64 add", 500_000, 64, 50_000), ("elements add to 2^20", 1 << 22, 1, 1 << 20)):
        for threads in (1, 2, 4, 8, 16, 32, 64):
            yield rows(f"{name}, {threads} threads", items, width, places, "add", threads=threads,
                       group=f"threads: {name}", x=threads, peers=("sow", "torch"))


def all_cases(quick: bool, processors: int) -> list[Case]:
    from .family import family
    from .grid import grid, sample  # which are made of the functions above

    listed = [case for case in [*table(), *growth(), *family()] if case.threads <= processors]
    crossed = [case for case in grid() if case.threads <= processors]
    if quick:
        return [case for case in listed if case.quick] + sample(crossed, GRID_SAMPLE)
    return listed + crossed

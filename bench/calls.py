# SPDX-License-Identifier: Apache-2.0
"""Small calls from Python: sow on NumPy's arrays and on torch's, torch and NumPy on their own.

    python bench/calls.py [elements ...] [--only NAME]

All take turns in one process, a few hundred calls at a time; a time is the median of many turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import sow

Call = Callable[[], Any]
ROWS = 10  # of the tables: elements / ROWS columns


def contenders(size: int) -> dict[str, dict[str, Call]]:
    """For each operation the calls that do the same."""
    random = np.random.default_rng(5)
    x, src = (random.standard_normal(size).astype("f4") for _ in range(2))
    index, mask = random.integers(0, size, size), random.random(size) < 0.5
    columns = size // ROWS
    table, values = x.reshape(ROWS, columns).copy(), src.reshape(ROWS, columns).copy()
    grid = random.integers(0, columns, (ROWS, columns))
    line = src[:ROWS].copy()
    few = random.integers(0, ROWS, ROWS)
    tx, tsrc, tindex, tmask, ttable, tvalues, tgrid, tline, tfew = (
        torch.from_numpy(array.copy()) for array in (x, src, index, mask, table, values, grid, line, few))
    ox, osrc, otable, ovalues = (torch.from_numpy(array.copy()) for array in (x, src, table, values))

    def both(ours: Callable[..., Any], *arguments: Any) -> dict[str, Call]:
        """Ours, on NumPy's arrays and on torch's."""
        twins = {id(x): ox, id(src): osrc, id(index): tindex, id(mask): tmask, id(table): otable, id(values): ovalues,
                 id(grid): tgrid, id(line): tline, id(few): tfew}
        swapped = tuple(twins.get(id(argument), argument) for argument in arguments)
        return {"sow": lambda: ours(*arguments), "sow on torch": lambda: ours(*swapped)}

    def masked() -> None:
        x[mask] = src[:count]

    count = int(mask.sum())
    diagonal = min(ROWS, columns)
    return {
        "scatter_add_": both(sow.scatter_add_, x, 0, index, src) | {
            "torch": lambda: tx.scatter_add_(0, tindex, tsrc), "numpy": lambda: np.add.at(x, index, src)},
        "scatter_add": both(sow.scatter_add, x, 0, index, src) | {"torch": lambda: tx.scatter_add(0, tindex, tsrc)},
        "scatter_": both(sow.scatter_, x, 0, index, src) | {"torch": lambda: tx.scatter_(0, tindex, tsrc)},
        "scatter": both(sow.scatter, x, 0, index, src) | {"torch": lambda: tx.scatter(0, tindex, tsrc)},
        "scatter_reduce_ amax": both(sow.scatter_reduce_, x, 0, index, src, "amax") | {
            "torch": lambda: tx.scatter_reduce_(0, tindex, tsrc, "amax"), "numpy": lambda: np.maximum.at(x, index, src)},
        "put_along_axis_ assign": both(sow.put_along_axis_, table, grid, values, 1, "assign") | {
            "torch": lambda: ttable.scatter_(1, tgrid, tvalues),
            "numpy": lambda: np.put_along_axis(table, grid, values, 1)},
        "put_along_axis_ add": both(sow.put_along_axis_, table, grid, values, 1) | {
            "torch": lambda: ttable.scatter_add_(1, tgrid, tvalues)},
        "take_along_axis": both(sow.take_along_axis, table, grid, 1) | {
            "torch": lambda: torch.take_along_dim(ttable, tgrid, 1), "numpy": lambda: np.take_along_axis(table, grid, 1)},
        "gather": both(sow.gather, table, 1, grid) | {"torch": lambda: ttable.gather(1, tgrid)},
        "index_add_": both(sow.index_add_, x, 0, index, src) | {"torch": lambda: tx.index_add_(0, tindex, tsrc)},
        "index_add_ rows": both(sow.index_add_, table, 0, few, values) | {
            "torch": lambda: ttable.index_add_(0, tfew, tvalues), "numpy": lambda: np.add.at(table, few, values)},
        "index_copy_": both(sow.index_copy_, x, 0, index, src) | {"torch": lambda: tx.index_copy_(0, tindex, tsrc)},
        "index_fill_": both(sow.index_fill_, x, 0, index, 1.5) | {"torch": lambda: tx.index_fill_(0, tindex, 1.5)},
        "index_select": both(sow.index_select, x, 0, index) | {
            "torch": lambda: tx.index_select(0, tindex), "numpy": lambda: x[index]},
        "index_put_": both(sow.index_put_, x, (index,), src) | {
            "torch": lambda: tx.index_put_((tindex,), tsrc), "numpy": lambda: x.__setitem__(index, src)},
        "masked_scatter_": both(sow.masked_scatter_, x, mask, src) | {
            "torch": lambda: tx.masked_scatter_(tmask, tsrc), "numpy": masked},
        "masked_scatter": both(sow.masked_scatter, x, mask, src) | {"torch": lambda: tx.masked_scatter(tmask, tsrc)},
        "masked_fill_": both(sow.masked_fill_, x, mask, 1.5) | {
            "torch": lambda: tx.masked_fill_(tmask, 1.5), "numpy": lambda: x.__setitem__(mask, 1.5)},
        "masked_select": both(sow.masked_select, x, mask) | {
            "torch": lambda: tx.masked_select(tmask), "numpy": lambda: x[mask]},
        "diagonal_scatter": both(sow.diagonal_scatter, table, line[:diagonal]) | {
            "torch": lambda: ttable.diagonal_scatter(tline[:diagonal])},
        "select_scatter": both(sow.select_scatter, table, line, 1, 3) | {
            "torch": lambda: ttable.select_scatter(tline, 1, 3)},
    }


def race(calls: dict[str, Call], turns: int, seconds: float) -> dict[str, float]:
    """The median time of each call in microseconds."""
    counts, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        for _ in range(100):
            call()
        counts[name] = max(20, int(seconds * 100 / (time.perf_counter() - began)))
    for _ in range(turns):
        for name, call in calls.items():
            rounds = range(counts[name])
            began = time.perf_counter()
            for _ in rounds:
                call()
            times[name].append((time.perf_counter() - began) / counts[name])
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("elements", type=int, nargs="*", default=[100])
    parser.add_argument("--only", default="", help="operations whose name begins so")
    parser.add_argument("--turns", type=int, default=41)
    options = parser.parse_args()
    for size in options.elements:
        print(f"{f'{size:,} elements':26}{'sow':>8}{'on torch':>10}{'torch':>8}{'numpy':>8}   us; sow / torch")
        for name, calls in contenders(size).items():
            if not name.startswith(options.only):
                continue
            found = race(calls, options.turns, 0.001)
            numpy = f"{found['numpy']:8.2f}" if "numpy" in found else " " * 8
            print(f"{name:26}{found['sow']:8.2f}{found['sow on torch']:10.2f}{found['torch']:8.2f}{numpy}"
                  f"{found['sow'] / found['torch']:8.2f}{found['sow on torch'] / found['torch']:6.2f}", flush=True)


if __name__ == "__main__":
    main()

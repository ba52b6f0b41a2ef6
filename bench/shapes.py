# SPDX-License-Identifier: Apache-2.0
"""Odd shapes between the rows of the race, sow beside PyTorch in one process: the quick look before `make bench`.

One thread unless asked otherwise. Each call is timed alone, the two taking turns; the least time counts, which other work on
the machine disturbs little. `--scaling` times sow alone instead, on every number of threads, and lists what is slower on all
of them than on one."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from race import data
from race.cases import Case, along, masked, rows
from race.grid import gather

ISAS = ("avx512", "avx2", "portable")


def cases() -> Iterator[Case]:
    own: dict[str, Any] = {"group": "shapes"}
    for items, places, types in ((700, 300, ("float32", "int64")), (3_000, 1_700, ("float32", "float64", "complex64", "uint8", "int64", "bfloat16")),
                                 (40_000, 300, ("float32", "float64", "float16", "complex64", "uint8", "int64")),
                                 (300_000, 90_000, ("float32", "float64", "complex64", "uint8", "int64", "bfloat16")),
                                 (2_500_000, 2_000_000, ("float32", "float64", "int32"))):
        for dtype in types:
            yield rows(f"elements {items} to {places}: add {dtype}", items, 1, places, "add", dtype=dtype, **own)
        for reduce in ("mul", "amax", "assign", "mean"):
            yield rows(f"elements {items} to {places}: {reduce} float32", items, 1, places, reduce, **own)
    for items, width, places in ((9_000, 3, 1_100), (330_000, 3, 41_000), (40_000, 5, 40_000), (3_000, 48, 500), (2_000, 37, 2_000), (1_500, 700, 90)):
        for reduce, dtype in (("add", "float32"), ("add", "float64"), ("add", "bfloat16"), ("add", "uint8"), ("add", "int64"), ("add", "complex64"),
                              ("mul", "float32"), ("amax", "float32"), ("amax", "float16"), ("amin", "float64"), ("assign", "float32"), ("mean", "float32")):
            yield rows(f"rows of {width}, {items} to {places}: {reduce} {dtype}", items, width, places, reduce, dtype=dtype, **own)
    for shape, items, axis in (((8, 2_500), (8, 1_250), 1), ((8, 250_000), (8, 125_000), 1), ((10_000, 200), (10_000, 100), 1), ((600, 64), (300, 64), 0),
                               ((30_000, 64), (15_000, 64), 0), ((16, 78, 16), (16, 39, 16), 1), ((16, 7_800, 16), (16, 3_900, 16), 1), ((900, 1000), (900, 130), 1)):
        for reduce, dtype in (("add", "float32"), ("add", "float64"), ("add", "bfloat16"), ("add", "uint8"), ("add", "int64"), ("add", "complex64"),
                              ("mul", "float32"), ("mul", "float64"), ("amax", "float32"), ("amin", "int32"), ("assign", "float32"), ("mean", "float32")):
            yield along(f"axis {axis} of {shape}, {items}: {reduce} {dtype}", shape, items, axis, reduce, dtype=dtype, **own)
    for size in (3_000, 300_000):
        for dtype in ("float32", "bfloat16", "int64", "uint8"):
            yield gather(f"gather {size} elements {dtype}", (size,), (size,), -1, "assign", dtype=dtype, **own)
            yield gather(f"gather along lines of 100, {size} {dtype}", (size // 100, 100), (size // 100, 100), 1, "assign", dtype=dtype, **own)
        yield gather(f"gather {size // 37} rows of 37", (size // 37,), (size // 37, 37), -1, "assign", **own)
        for dtype in ("float32", "uint8"):
            yield masked(f"mask {size} {dtype}", (size,), (size,), 0.3, True, dtype=dtype, **own)
        yield masked(f"mask rows of 33, {size}", (size // 33, 33), (size // 33, 1), 0.3, True, **own)


def least(calls: list[tuple[Callable[[], Any], Callable[[], Any] | None]], seconds: float) -> list[float]:
    """The least seconds of each call, which take turns."""
    found = [math.inf] * len(calls)
    ends = time.perf_counter() + seconds
    for turn in itertools.count():
        for number, (run, reset) in enumerate(calls):
            for _ in range(3):
                if reset:
                    reset()
                began = time.perf_counter()
                run()
                found[number] = min(found[number], time.perf_counter() - began)
        if turn >= 2 and time.perf_counter() > ends:
            return found


def duel(case: Case, arrays: data.Arrays, seconds: float) -> dict[str, Any]:
    from race.peers import sow_, torch_

    ours, theirs = sow_.ways(case, arrays, False)[0], torch_.ways(case, arrays, False)
    names = []
    runs = [(ours.run, ours.reset)]
    for way in theirs:
        try:
            way.run()
        except Exception:  # it has no such kernel
            continue
        names.append(way.name)
        runs.append((way.run, way.reset))
    times = least(runs, seconds)
    best = min(times[1:], default=math.nan)
    words = [line.split()[1].rstrip(":") for line in (ours.explain() if ours.explain else "").splitlines() if line.startswith("  strategy")]
    return {"case": case.name, "sow": times[0], "torch": best, "ratio": best / times[0], "strategy": " ".join(words)}


def scaling(case: Case, arrays: data.Arrays, seconds: float, counts: list[int]) -> dict[str, Any]:
    import sow

    from race.peers import sow_

    way = sow_.ways(case, arrays, False)[0]
    times = []
    for count in counts:  # in turn: threads that are there for one count are there for the next
        sow.set_num_threads(count)
        times.append(least([(way.run, way.reset)], seconds / len(counts))[0])
    return {"case": case.name, **{str(count): value for count, value in zip(counts, times)}, "ratio": times[0] / times[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only each n-th of them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.1, help="of timing a case")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    import sow

    found = []
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < options.threads] + [options.threads]
    for case in [case for case in cases() if options.only in case.name][:: options.every]:
        arrays = data.make(case)
        if options.scaling:
            found.append(scaling(case, arrays, options.seconds, counts))
        else:
            import torch

            torch.set_num_threads(options.threads)
            sow.set_num_threads(options.threads)
            found.append(duel(case, arrays, options.seconds))
    ratios = [one["ratio"] for one in found if one["ratio"] == one["ratio"]]
    for one in sorted(found, key=lambda one: one["ratio"]):
        times = "  ".join(f"{value * 1e6:10.1f}" for name, value in one.items() if isinstance(value, float) and name != "ratio")
        print(f"{one['ratio']:6.2f}  {times} us  {one['case']}  {one.get('strategy', '')}")
    print(f"{len(ratios)} cases, geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, "
          f"under 0.9: {sum(ratio < 0.9 for ratio in ratios)}, under 1: {sum(ratio < 1 for ratio in ratios)}; SOW_ISA={os.environ.get('SOW_ISA', '')}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())

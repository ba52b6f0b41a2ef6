# SPDX-License-Identifier: Apache-2.0
"""A worker's place on a GPU: arrays drawn there, CUDA events as the clock, checks on the device."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from . import check, device_data
from .cases import Case
from .way import Way

HELD_BACK = 400_000  # cycles that the device waits before a single call, so that the call is there when they are over
SLOW = 0.02  # seconds: beside these a launch is nothing
WALL_LOOPS = 5  # of libraries that events do not see: waiting for one call would cost as much as the call


class Gpu:
    awake = 1e-3  # seconds of runs that do not count
    awake_short = 0.1  # the same of calls that the host takes longer for: a processor that slept is slow at first

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no CUDA device")
        self.name = torch.cuda.get_device_name(0)
        self.slow = True  # of what ran last and events do not see: a first run compiles
        self.begin, self.end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def arrays(self, case: Case, folder: str) -> dict[str, torch.Tensor]:
        return device_data.make(case)

    def judgement(self, order: dict[str, Any], case: Case, arrays: dict[str, torch.Tensor]) -> dict[str, Any]:
        """What the parent needs to judge the others by, from whoever prepares first."""
        if not order.get("judge"):
            return {}
        allowed, of = device_data.bounds(case, arrays)
        if allowed is None:
            return {"bounds": "", "of": of}
        file = pathlib.Path(order["out"]) / "bounds"
        allowed.tofile(file)
        return {"bounds": str(file), "of": of}

    def shown(self, array: Any) -> tuple[np.ndarray, int]:
        torch.cuda.synchronize()
        return device_data.shown(array)

    def finish(self, way: Way, result: Any) -> None:
        if way.wait:
            way.wait(result)
        torch.cuda.synchronize()
        self.slow = True

    def spot_check(self, case: Case, arrays: dict[str, torch.Tensor], result: Any) -> str:
        return spot_check(case, arrays, result if isinstance(result, torch.Tensor) else torch.from_dlpack(result))

    def seconds(self, way: Way, loops: int) -> float:
        torch.cuda.synchronize()
        if way.wait:
            loops = loops if self.slow else max(loops, WALL_LOOPS)
            began = time.perf_counter()
            for _ in range(loops):
                result = way.run()
            way.wait(result)
            seconds = (time.perf_counter() - began) / loops
            self.slow = seconds > SLOW
            return seconds
        if loops == 1:
            torch.cuda._sleep(HELD_BACK)
        with on_one_processor(loops > 1):
            self.begin.record()
            for _ in range(loops):
                way.run()
            self.end.record()
            self.end.synchronize()
        return float(self.begin.elapsed_time(self.end)) / 1e3 / loops

    def bandwidth(self) -> float:
        """Bytes a second of a plain copy, reads and writes counted."""
        source = torch.ones(1 << 28, device="cuda")
        target, best = torch.empty_like(source), float("inf")
        for _ in range(6):
            self.begin.record()
            target.copy_(source)
            self.end.record()
            self.end.synchronize()
            best = min(best, float(self.begin.elapsed_time(self.end)) / 1e3)
        return 2 * int(source.numel()) * 4 / best

    def drop(self) -> None:
        torch.cuda.empty_cache()


@contextlib.contextmanager
def on_one_processor(wanted: bool) -> Iterator[None]:
    """Whole calls of all libraries on the same processor: another may be slower by half, for as long as a race lasts."""
    allowed = os.sched_getaffinity(0)
    if wanted:
        os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        if wanted:
            os.sched_setaffinity(0, allowed)


def spot_check(case: Case, arrays: dict[str, torch.Tensor], result: torch.Tensor, spots: int = 6) -> str:
    """A few places of our sums against rational arithmetic."""
    if case.reduce != "add" or case.kind not in ("rows", "nd", "along") or case.backward:
        return ""
    to, places = device_data.flat_places(case, arrays["index"])
    width = result.numel() // places
    source, old, found = (tensor.reshape(-1, width) for tensor in (arrays["src"], arrays["x"], result))
    for place in np.random.default_rng(1).integers(0, places, spots):
        terms = source[to == int(place), 0]
        if terms.numel() > 10_000:  # rational numbers take their time
            continue
        numbers = torch.cat([old[int(place), :1], terms]).double().cpu().numpy()
        exact = sum((Fraction(float(number)) for number in numbers), Fraction(0))
        one = found[int(place), :1].cpu()
        given: Any = one.view(torch.int16).numpy().view(np.uint16)[0] if case.dtype == "bfloat16" else one.numpy()[0]
        if not check.is_nearest(exact, given, case.dtype):
            return f"place {place}: {one.item()} is not the sum of {len(numbers)} terms"
    return ""

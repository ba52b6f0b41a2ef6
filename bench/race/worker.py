# SPDX-License-Identifier: Apache-2.0
"""A contender's process: reads one order a line, answers one line, and sleeps in between."""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any

import numpy as np

from . import data
from .cases import Case
from .way import Peer, Way

SHOWN = 1 << 22  # of a larger result every n-th element is compared


class Worker:
    def __init__(self, name: str, peer: Peer, place: Any) -> None:
        self.name, self.peer = name, peer
        self.place = place  # where the arrays lie and how time is taken there
        self.arrays: data.Arrays = {}
        self.folder = ""
        self.ways: list[Way] = []

    def prepare(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes the ways of a case and runs each, for its result and a first idea of its time."""
        self.ways = []
        case = Case.from_dict(order["case"])
        if self.folder != order["folder"]:
            self.arrays = {}
            self.arrays, self.folder = self.place.arrays(case, order["folder"]), order["folder"]
        self.peer.set_threads(order["threads"])
        answers = []
        for way in self.peer.ways(case, self.arrays, order["compiled"]):
            answers.append(self.try_way(case, way, order, len(self.ways)))
            self.ways.append(way)
        return {"ways": answers, **self.place.judgement(order, case, self.arrays)}

    def try_way(self, case: Case, way: Way, order: dict[str, Any], number: int) -> dict[str, Any]:
        answer: dict[str, Any] = {"name": way.name}
        try:
            if way.compile:
                way.compile()
            if way.reset:
                way.reset()
            began = time.perf_counter()
            result = way.run()
            self.place.finish(way, result)
            answer["seconds"] = time.perf_counter() - began
            answer["parts"] = []
            for part, array in enumerate(way.result(result)):
                shown, step = self.place.shown(array)
                if part == 0 and self.name == "sow":
                    answer["error"] = self.place.spot_check(case, self.arrays, array)
                file = pathlib.Path(order["out"]) / f"{number}-{part}"
                shown.tofile(file)
                answer["parts"].append({"file": str(file), "dtype": str(shown.dtype), "step": step})
            del result
            if order["alone"] and (answer["seconds"] < 0.15 or way.compiled):  # the first run also allocates and wakes threads
                if answer["seconds"] < 0.01:
                    self.clock(way, 1, 1, True)
                answer["seconds"] = self.clock(way, 1, 1, False)[0][0]
            answer["explain"] = way.explain() if way.explain else ""
        except Exception as error:  # a peer may refuse a case: then it does not run
            answer["error"] = f"{type(error).__name__}: {error}"[:300]
        return answer

    def clock(self, way: Way, runs: int, loops: int, warm: bool) -> list[tuple[float, float]]:
        """Seconds, and seconds of all processors, of each run; several loops for calls too short to time."""
        gc.collect()
        gc.disable()
        found: list[tuple[float, float]] = []
        # Short calls are timed by the thousand, on threads that are there.
        ready = time.perf_counter() + ((self.place.awake if loops == 1 else self.place.awake_short) if warm else 0)
        while len(found) < runs:
            if way.reset:
                way.reset()
            used = time.process_time()
            began = time.perf_counter()
            seconds = self.place.seconds(way, loops)
            if began >= ready:
                found.append((seconds, (time.process_time() - used) / loops))
        gc.enable()
        return found

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "prepare":
            return self.prepare(order)
        if order["do"] == "time":
            times = self.clock(self.ways[order["way"]], order["runs"], order["loops"], order["warm"])
            return {"seconds": statistics.median(time for time, _ in times),
                    "processor": statistics.median(used for _, used in times)}
        if order["do"] == "copy":
            return {"bandwidth": self.place.bandwidth()}
        self.ways, self.arrays, self.folder = [], {}, ""
        gc.collect()
        self.place.drop()
        return {}


class Host:
    """Arrays in the host's memory, and its clock."""

    name = ""
    awake = 20e-3  # seconds of runs that do not count: threads wake, caches fill
    awake_short = 5e-3

    def arrays(self, case: Case, folder: str) -> data.Arrays:
        return data.load(pathlib.Path(folder))

    def judgement(self, order: dict[str, Any], case: Case, arrays: data.Arrays) -> dict[str, Any]:
        return {}  # the parent has the arrays too

    def spot_check(self, case: Case, arrays: data.Arrays, result: Any) -> str:
        return ""

    def finish(self, way: Way, result: Any) -> None:
        """A run ends when its work is done."""

    def shown(self, array: Any) -> tuple[np.ndarray, int]:
        flat = np.ascontiguousarray(array).reshape(-1)
        step = max(1, flat.size // SHOWN)
        return flat[::step], step

    def seconds(self, way: Way, loops: int) -> float:
        call = way.run
        began = time.perf_counter()
        for _ in itertools.repeat(None, loops):
            call()
        return (time.perf_counter() - began) / loops

    def bandwidth(self) -> float:
        raise RuntimeError("the parent measures the host's memory")

    def drop(self) -> None:
        """Freed memory is NumPy's affair."""


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    # Libraries print what they like: the answers have a pipe of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        peer: Any = importlib.import_module(f"{__package__}.peers.{name}_")
        place: Any = Host()
        if sys.argv[3:] == ["cuda"]:
            from .gpu import Gpu

            place = Gpu()
        say({"version": peer.start(threads), "device": place.name})
        gc.collect()
        gc.freeze()  # what a library has imported need not be looked through before every turn
    except Exception as error:
        say({"missing": f"{type(error).__name__}: {error}"[:300]})
        return
    worker = Worker(name, peer, place)
    for line in sys.stdin:
        try:
            say(worker.answer(json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"[:300]})


if __name__ == "__main__":
    main()

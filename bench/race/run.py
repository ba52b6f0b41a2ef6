# SPDX-License-Identifier: Apache-2.0
"""Runs cases: every contender prepares and is checked, then they take turns, round after round."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import check, data
from .cases import Case
from .contender import Contender


@dataclasses.dataclass
class Budget:
    seconds: float  # of timing a case
    fewest: int  # rounds
    most: int
    compiled: bool  # torch.compile takes part


SLOW = 0.4  # seconds beside which waking up is nothing

QUICK = Budget(0.5, 3, 5, False)
DEVICE = Budget(0.15, 3, 7, False)
FULL = Budget(5.0, 5, 21, True)
COMPILED_SIZE = 10_000_000  # updates of the GPU's grid at which torch.compile takes part
GRID = 0.25  # seconds of timing a case of the grid, at most: there are thousands


@dataclasses.dataclass
class Entry:
    """One way of one contender in one case."""

    peer: str
    way: str
    number: int
    first: float = 0.0
    times: list[float] = dataclasses.field(default_factory=list)
    processor: list[float] = dataclasses.field(default_factory=list)  # seconds of all threads together
    error: str = ""
    explain: str = ""

    @property
    def seconds(self) -> float:
        return statistics.median(self.times) if self.times else self.first

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"peer": self.peer, "way": self.way}
        if self.error:
            return {**found, "error": self.error}
        return {**found, "seconds": self.seconds, "least": min(self.times or [self.first]), "runs": len(self.times) or 1,
                "processor": statistics.median(self.processor or [0.0]),
                **({"explain": self.explain} if self.explain else {})}


class Bandwidth:
    """Bytes a second that plain copies on all threads move, reads and writes counted."""

    def __init__(self, threads: int, megabytes: int = 96) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.source = np.array_split(np.ones(megabytes << 17), threads)
        self.target = np.array_split(np.ones(megabytes << 17), threads)
        self.bytes = 2 * sum(part.nbytes for part in self.source)

    def measure(self, runs: int = 3) -> float:
        best = float("inf")
        for _ in range(runs):
            began = time.perf_counter()
            list(self.pool.map(np.copyto, self.target, self.source))
            best = min(best, time.perf_counter() - began)
        return self.bytes / best


class DeviceBandwidth:
    """The same on a GPU, measured by the first contender."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender

    def measure(self) -> float:
        return float(self.contender.ask(60, do="copy").get("bandwidth", 1.0))


class Race:
    def __init__(self, contenders: list[Contender], threads: int, budget: Budget, shared: pathlib.Path,
                 say: Callable[[str], None], device: str = "") -> None:
        self.contenders, self.threads, self.budget, self.shared, self.say = contenders, threads, budget, shared, say
        self.device = device  # the name of the GPU, if the arrays lie there
        self.bandwidth: Bandwidth | DeviceBandwidth = DeviceBandwidth(contenders[0]) if device else Bandwidth(threads)
        self.arrays: data.Arrays = {}
        self.key = ""

    def arrays_of(self, case: Case) -> pathlib.Path:
        folder = self.shared / case.data_key
        if self.key != case.data_key:
            self.ask_all(60, {contender: {"do": "drop"} for contender in self.contenders})
            shutil.rmtree(self.shared, ignore_errors=True)
            self.key = case.data_key
            if self.device:
                return folder  # every contender draws them on the device
            self.arrays = data.make(case)
            data.save(folder, self.arrays)
        return folder

    def ask_all(self, timeout: float, orders: dict[Contender, dict[str, Any]]) -> dict[Contender, dict[str, Any]]:
        """Hands everybody an order, then collects the answers. On a CPU one works at a time."""
        if not self.device:
            return {contender: contender.ask(timeout, **order) for contender, order in orders.items()}
        there = {contender: contender.send(**order) for contender, order in orders.items()}
        return {contender: contender.read(timeout) if there[contender] else {"error": "its process ended"}
                for contender in orders}

    def run(self, case: Case) -> dict[str, Any]:
        began = time.monotonic()
        folder = self.arrays_of(case)
        entries = self.prepare(case, folder)
        prepared = time.monotonic()
        before = self.bandwidth.measure()
        self.time(entries, min(self.budget.seconds, GRID) if is_crossed(case) else self.budget.seconds)
        bandwidth = max(before, self.bandwidth.measure())
        spent = {"prepare": prepared - began, "time": time.monotonic() - prepared}
        return {**judge(case, entries, bandwidth, self.device), "spent": spent}

    def prepare(self, case: Case, folder: pathlib.Path) -> list[Entry]:
        """Everybody's results, checked. On a GPU they are made side by side, so that one may compile while another draws."""
        orders: dict[Contender, dict[str, Any]] = {}
        for contender in self.contenders:
            if case.peers and contender.name not in case.peers:
                continue
            out = self.shared / "results" / contender.name
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            orders[contender] = {"do": "prepare", "case": case.as_dict(), "folder": str(folder), "out": str(out),
                                 "threads": case.threads or self.threads, "compiled": self.compiles(case),
                                 "judge": len(orders) < 2, "alone": not self.device}
        self.say(f"{case.name}: {', '.join(contender.name for contender in orders)} prepare")
        answers = self.ask_all(240, orders)
        judgement = next((answer for answer in answers.values() if "bounds" in answer), {"bounds": "", "of": "value"})
        entries: list[Entry] = []
        expected: list[dict[str, Any]] = []
        for contender, answer in answers.items():
            if "error" in answer:
                entries.append(Entry(contender.name, "", 0, error=answer["error"]))
            for number, way in enumerate(answer.get("ways", [])):
                entry = Entry(contender.name, way["name"], number, way.get("seconds", 0.0), error=way.get("error", ""),
                              explain=way.get("explain", ""))
                entries.append(entry)
                if entry.error:
                    continue
                if expected:
                    entry.error = self.differs(case, expected, way["parts"], judgement)
                    continue
                expected = way["parts"]
                if contender.name == "sow" and not self.device:
                    entry.error = check.spot_check(case, self.arrays, expected[0])
        if self.device:
            self.estimate(entries)
        return entries

    def compiles(self, case: Case) -> bool:
        """Whether torch.compile takes part: on a GPU in a few shapes of one size, because each takes it seconds."""
        if self.device and is_crossed(case):
            return case.x == COMPILED_SIZE and case.dtype == "float32" and case.index == "uniform"
        return self.budget.compiled and not is_crossed(case)

    def differs(self, case: Case, expected: list[dict[str, Any]], found: list[dict[str, Any]], judgement: dict[str, Any]) -> str:
        if self.device:
            return check.differs_on_device(case, expected, found, judgement["bounds"], judgement["of"])
        return check.differs(case, self.arrays, expected, found)

    def estimate(self, entries: list[Entry]) -> None:
        """A first idea of the times, one contender after the other."""
        by_name = {contender.name: contender for contender in self.contenders}
        for entry in entries:
            if entry.error:
                continue
            answer = by_name[entry.peer].ask(60, do="time", way=entry.number, runs=1, loops=1, warm=entry.first < SLOW)
            runs, loops, warm = turn_of(answer.get("seconds", entry.first))
            if loops > 1:  # of one call the device's share was measured, of many the whole is
                answer = by_name[entry.peer].ask(60, do="time", way=entry.number, runs=runs, loops=loops, warm=warm)
            entry.first, entry.error = answer.get("seconds", entry.first), answer.get("error", "")

    def time(self, entries: list[Entry], seconds: float) -> None:
        """Interleaved rounds. Ways that are far behind their own library's best sit out."""
        racing = []
        for entry in entries:
            same = [other.first for other in entries if other.peer == entry.peer and not other.error]
            leading = min((other.first for other in entries if not other.error and other.peer != "sow"), default=0)
            behind = 20e-3 if self.device else 0.2  # seconds from which being far behind is enough
            slow = entry.first > 1.6 * min(same, default=0) or (entry.first > behind and entry.first > 4 * leading)
            if not entry.error and not (slow and entry.peer != "sow"):
                racing.append(entry)
        turns = [turn_of(entry.first) for entry in racing]
        one_round = sum(entry.first * loops * (runs + warm) + 2e-4 for entry, (runs, loops, warm) in zip(racing, turns))
        rounds = max(3 if seconds <= GRID else self.budget.fewest, min(self.budget.most, int(seconds / max(one_round, 1e-6))))
        by_name = {contender.name: contender for contender in self.contenders}
        for _ in range(rounds):
            for entry, (runs, loops, warm) in zip(racing, turns):
                answer = by_name[entry.peer].ask(240, do="time", way=entry.number, runs=runs, loops=loops, warm=warm)
                if "seconds" in answer:
                    entry.times.append(answer["seconds"])
                    entry.processor.append(answer["processor"])
                else:
                    entry.error = answer.get("error", "no answer")


def is_crossed(case: Case) -> bool:
    """Whether it is one of the grid's."""
    return case.group.startswith("grid")


def turn_of(seconds: float) -> tuple[int, int, bool]:
    """(runs, loops of one run, whether a first run is thrown away) that make a turn long enough."""
    if seconds < 50e-6:
        return 3, max(1, int(2e-3 / max(seconds, 1e-7))), True
    if seconds < 60e-3:
        return max(1, min(5, int(10e-3 / seconds))), 1, True
    return 1, 1, False


MODES = ("torch_deterministic",)  # compared by themselves
GOALS_FOR = "H200"  # limits in seconds are for this GPU


def judge(case: Case, entries: list[Entry], bandwidth: float, device: str = "") -> dict[str, Any]:
    """What a case says: the best of each library, the ratio to the best of the others, goals."""
    best: dict[str, Entry] = {}
    # A way that sat out was not the best of its library: its time is one guess, taken otherwise.
    for entry in sorted(entries, key=lambda entry: (not entry.times, entry.seconds)):
        if not entry.error:
            best.setdefault(entry.peer, entry)
    ours = best.get("sow")
    # A mode of a library is no rival beside the library itself.
    others: dict[str | None, float] = {name: entry.seconds for name, entry in best.items() if name not in ("sow", *MODES)}
    first = min(others, key=lambda name: others[name], default=None)
    goals = []
    # Against the best of all, against a library's best way, or against one way of a library.
    rivals: dict[str | None, float] = {f"{entry.peer} {entry.way}": entry.seconds for entry in entries if not entry.error}
    rivals |= others
    for name, times in case.goals:
        rival = first if name == "best" else name
        if ours is not None and rival in rivals:
            ratio = rivals[rival] / ours.seconds
            goals.append({"against": name, "times": times, "reached": ratio, "met": ratio >= times})
    if ours is not None and case.limit and GOALS_FOR in device:
        goals.append({"against": "time", "times": case.limit, "reached": ours.seconds, "met": ours.seconds <= case.limit})
    return {
        "case": case.as_dict(),
        "bandwidth": bandwidth,
        "floor": case.floor_bytes / bandwidth,
        "seconds": {name: entry.seconds for name, entry in best.items()},
        "best_peer": first,
        "ratio": others[first] / ours.seconds if ours is not None and first is not None else None,
        "goals": goals,
        "explain": ours.explain if ours is not None else "",
        "entries": [entry.as_dict() for entry in entries],
    }

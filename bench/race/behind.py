# SPDX-License-Identifier: Apache-2.0
"""What the grid says: how far ahead by shape, type, reduction, size, index and threads, and the list of what is behind."""

from __future__ import annotations

import math
import pathlib
from typing import Any

from . import table
from .peers import TITLES

Result = dict[str, Any]
GOAL = 0.9  # of the best peer's speed: no case should be under it


def of_grid(results: list[Result]) -> list[Result]:
    return [result for result in results if result["case"]["group"].startswith("grid") and result["ratio"]]


def deterministic(result: Result) -> float | None:
    """How many times faster than PyTorch's deterministic mode, where it takes the case."""
    times = result["seconds"]
    return float(times["torch_deterministic"] / times["sow"]) if {"torch_deterministic", "sow"} <= times.keys() else None


def deterministic_words(results: list[Result]) -> str:
    ratios = [ratio for ratio in map(deterministic, of_grid(results)) if ratio]
    if not ratios:
        return ""
    return (f"Beside PyTorch's deterministic mode, where it takes the case: {len(ratios)} cases, "
            f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} times its speed in the geometric mean, "
            f"behind in {sum(ratio < 1 for ratio in ratios)}, lowest {min(ratios):.2f}.")


def mean(results: list[Result]) -> float:
    return math.exp(sum(math.log(result["ratio"]) for result in results) / len(results))


def by(results: list[Result], key: Any) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(key(result["case"]), []).append(result)
    return groups


SIDES = {
    "shape": lambda case: case["group"].partition(", ")[2],
    "reduction": lambda case: "moves" if case["kind"] in ("masked", "gather") else case["reduce"],
    "type": lambda case: case["dtype"],
    "updates": lambda case: f"10^{round(math.log10(case['x']))}",
    "index": lambda case: case["index"],
    "threads": lambda case: str(case["threads"] or "all"),
}


def line(side: str, name: str, members: list[Result]) -> str:
    lowest = min(members, key=lambda result: result["ratio"])
    under = sum(result["ratio"] < GOAL for result in members)
    return f"| {side} | {name} | {len(members)} | {mean(members):.2f} | {under} | {lowest['ratio']:.2f} |"


def summary(results: list[Result]) -> str:
    """A line for everything, and for every value of every side of the grid."""
    found = of_grid(results)
    if not found:
        return ""
    lines = [f"| side | value | cases | geometric mean | under {GOAL:g} | lowest |", "| --- | --- | ---: | ---: | ---: | ---: |",
             line("all", "", found)]
    for side, key in SIDES.items():
        lines += [line(side, name, members) for name, members in by(found, key).items()]
    return "\n".join(lines) + "\n"


def behind(results: list[Result]) -> list[Result]:
    return sorted((result for result in of_grid(results) if result["ratio"] < 1), key=lambda result: result["ratio"])


def listing(results: list[Result]) -> str:
    lines = ["| case | best of the others | its time | sow | ratio | strategy |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for result in behind(results):
        times, peer = result["seconds"], result["best_peer"]
        lines.append(f"| {result['case']['name']} | {TITLES[peer]} | {table.duration(times[peer])} | "
                     f"{table.duration(times['sow'])} | {result['ratio']:.2f} | {table.strategy(result)} |")
    return "\n".join(lines) + "\n"


def write(run: dict[str, Any], folder: pathlib.Path) -> str:
    """Both into the folder; what there is to say about them in a few lines."""
    found = of_grid(run["results"])
    if not found:
        return ""
    (folder / "grid.md").write_text(summary(run["results"]))
    (folder / "behind.md").write_text(listing(run["results"]))
    slow = behind(run["results"])
    words = [f"\nThe grid{' on ' + run['isa'] if run.get('isa') else ''}: {len(found)} cases, {mean(found):.2f} times the best of "
             f"the others in the geometric mean, behind in {len(slow)}, under {GOAL:g} in "
             f"{sum(result['ratio'] < GOAL for result in slow)}: {folder / 'behind.md'}"]
    words += [f"  {result['ratio']:.2f}  {result['case']['name']}  ({TITLES[result['best_peer']]}; {table.strategy(result)})"
              for result in slow[:40]]
    if deterministic_words(found):
        words.insert(1, deterministic_words(found))
    return "\n".join(words + ([f"  and {len(slow) - 40} more"] if len(slow) > 40 else []))


def document(run: dict[str, Any], page: pathlib.Path, machine: str) -> None:
    """Puts the summary between the marks of a page; of a GPU's grid what is behind as well."""
    device = run.get("device", "")
    grid = "the grid on a GPU" if device else "the grid"
    begin, end = f"<!-- {grid} -->\n", f"<!-- end of {grid} -->\n"
    before, rest = page.read_text().split(begin)
    words = machine + "\n\n" + summary(run["results"])
    if device:
        words += "\n![How many times faster sow is than the best of the others, over the grid](pictures/gpu-grid.svg)\n"
        if deterministic_words(run["results"]):
            words += "\n" + deterministic_words(run["results"]) + "\n\n![The same beside PyTorch's deterministic mode](pictures/gpu-grid-deterministic.svg)\n"
        words += "\nWhat is behind:\n\n" + listing(run["results"])
    page.write_text(before + begin + "\n" + words + "\n" + end + rest.split(end)[1])

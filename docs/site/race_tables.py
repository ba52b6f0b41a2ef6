# SPDX-License-Identifier: Apache-2.0
"""Runs of the race read back from the tables of the documentation: python docs/site/race_tables.py draws its pictures anew.

So a picture never says anything but the table beside it. Goals come from the cases, times and floors from the table.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from race import page, pictures, report  # noqa: E402
from race.cases import all_cases  # noqa: E402
from race.device_cases import device_cases  # noqa: E402
from race.peers import TITLES  # noqa: E402

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
NAMES = {title: name for name, title in TITLES.items()}
DOCS = ROOT / "docs"


def seconds(cell: str) -> float | None:
    found = re.fullmatch(r"([\d.]+) (s|ms|µs|ns)", cell)
    return float(found.group(1)) * UNITS[found.group(2)] if found else None


def results(text: str, cases: dict[str, Any]) -> list[dict[str, Any]]:
    """Every row of a race's table whose case still exists."""
    found, head = [], []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("| ") else []
        if cells[:2] == ["case", "floor"]:
            head = cells
        elif not cells:
            head = []
        elif head and cells[0] in cases:
            row = dict(zip(head, cells))
            times = {NAMES[title]: value for title, cell in row.items() if title in NAMES and (value := seconds(cell))}
            others = {name: value for name, value in times.items() if name != "sow"}
            best = min(others, key=lambda name: others[name], default=None)
            case = cases[row["case"]]
            goals = [{"against": against, "times": times_faster, "met": "missed" not in row.get("goal", "")} for against, times_faster in case.goals]
            if case.limit:
                goals.append({"against": "time", "times": case.limit, "met": "missed" not in row.get("goal", "")})
            strategy = row.get("strategy", "")
            found.append({"case": case.as_dict(), "seconds": times, "floor": seconds(row["floor"]) or 0.0, "best_peer": best,
                          "ratio": others[best] / times["sow"] if best and "sow" in times else None, "goals": goals,
                          "explain": "", "entries": [], "strategy": strategy})
    return found


def cpu_run() -> list[dict[str, Any]]:
    """The table of performance.md, and the other groups in the notebook; a name may be in both."""
    every = all_cases(False, 2)
    first = {case.name: case for case in every if case.group == "table"}
    others = {case.name: case for case in every if case.group != "table"}
    here, notebook = (DOCS / "performance.md").read_text(), (DOCS / "lab-notebook.md").read_text()
    return results(here[: here.index("## On a GPU")], first) + results(notebook[: notebook.index("## On a GPU")], others)


def gpu_run() -> list[dict[str, Any]]:
    text = (DOCS / "performance.md").read_text()
    return results(text[text.index("## On a GPU"):], {case.name: case for case in device_cases()})


def about(heading: str) -> str:
    """The line under a heading that says where the table was measured."""
    text = (DOCS / "performance.md").read_text()
    return text[text.index(f"## {heading}"):].split("\n\n")[1].replace("\n", " ").split(" All 36")[0]


def write_pages(folder: pathlib.Path) -> None:
    """The race's page for each run that the documentation has."""
    for name, heading, run in (("race.html", "On two cores", cpu_run()), ("race-gpu.html", "On a GPU", gpu_run())):
        words = about(heading) + " These are the rows that were tuned; other shapes, and where sow is behind, are under Performance."
        other, link = ("race-gpu.html", "on a GPU") if name == "race.html" else ("race.html", "on two cores")
        back = f'<p><a href="index.html">sow</a> · <a href="performance.html">Performance</a> · <a href="{other}">the race {link}</a></p>\n'
        text = page.page(words, run, report.drawn(run, report.growth_pictures))
        (folder / name).write_text(text.replace("<h1>", f"{back}<h1>", 1))


def main() -> None:
    folder = DOCS / "pictures"
    for run, device in ((cpu_run(), ""), (gpu_run(), "gpu")):
        for name, picture in report.drawn(run, report.all_pictures).items():
            (folder / report.file_of(name, device)).write_text(picture)
            print(report.file_of(name, device))


if __name__ == "__main__":
    if not pictures.available():
        raise SystemExit("matplotlib is not installed (scripts/setup python)")
    main()

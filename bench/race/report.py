# SPDX-License-Identifier: Apache-2.0
"""A run on paper: JSON for machines, Markdown for documents, and a page of pictures that needs no network."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

from . import behind, page, pictures, table
from .peers import TITLES

Result = dict[str, Any]

def machine_line(run: dict[str, Any]) -> str:
    machine = run["machine"]
    versions = ", ".join(f"{TITLES[name]} {version}" for name, version in run["versions"].items())
    if run.get("device"):
        return f"{machine['date']}: {run['device']}, copies at {run['bandwidth'] / 1e12:.2f} TB/s. {versions}."
    speed = f", copies at {run['bandwidth'] / 1e9:.1f} GB/s" if run.get("bandwidth") else ""
    return (f"{machine['date']}: {machine['processor']}, {run['threads']} of {machine['processors']} processors, "
            f"{machine['system']}{speed}. {versions}.")


def grouped(results: list[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result["case"]["group"], []).append(result)
    return groups


def growth_pictures(results: list[Result]) -> dict[str, str]:
    """One picture a line of growth: time an element over what grows."""
    found = {}
    for group, members in grouped(results).items():
        along, _, title = group.partition(": ")
        if not title or len(members) < 2:
            continue
        series: dict[str, pictures.Points] = {}
        for result in members:
            case = result["case"]
            updates = 1
            for extent in case["items"]:
                updates *= extent
            if case["kind"] == "rows" and len(case["shape"]) > 1:
                updates *= case["shape"][-1]
            for name, seconds in [*result["seconds"].items(), ("floor", result["floor"])]:
                series.setdefault(name, []).append((case["x"], seconds / updates))
        found[group] = pictures.lines(title, along, series)
    return found


def ratio_pictures(results: list[Result]) -> dict[str, str]:
    raced = [result for result in results if result["ratio"] and result["case"]["group"] == "table"]
    return {"ratio": pictures.ratio_picture(raced), "floor": pictures.floor_picture(raced)}


def heat_pictures(results: list[Result]) -> dict[str, str]:
    """The grid of a GPU at a glance: beside the best of the others, and beside PyTorch's deterministic mode."""
    return {"grid": pictures.heat_picture(results, lambda result: result["ratio"], "the best of the others"),
            "grid, deterministic": pictures.heat_picture(results, behind.deterministic, "PyTorch's deterministic mode")}


def drawn(results: list[Result], which: Callable[[list[Result]], dict[str, str]]) -> dict[str, str]:
    """Pictures by name; none where matplotlib is not installed."""
    return {name: picture for name, picture in which(results).items() if picture} if pictures.available() else {}


def all_pictures(results: list[Result]) -> dict[str, str]:
    return {**ratio_pictures(results), **growth_pictures(results)}


def file_of(picture: str, device: str = "") -> str:
    return ("gpu-" if device else "") + picture.replace(": ", "-").replace(", ", "-").replace(" ", "_").replace("^", "") + ".svg"


def document_heat(run: dict[str, Any], target: pathlib.Path) -> None:
    """The pictures that behind.document names, beside the page."""
    folder = target.parent / "pictures"
    folder.mkdir(exist_ok=True)
    for name, picture in drawn(run["results"], heat_pictures).items():
        (folder / file_of(name, run["device"])).write_text(picture)


def marks(run: dict[str, Any]) -> tuple[str, str]:
    race = "the race on a GPU" if run.get("device") else "the race"
    return f"<!-- {race} -->\n", f"<!-- end of {race} -->\n"


def has_marks(run: dict[str, Any], target: pathlib.Path) -> bool:
    return marks(run)[0] in target.read_text()


def document(run: dict[str, Any], target: pathlib.Path) -> None:
    """Puts the table of a run between the marks of a page, and its pictures beside it."""
    device = run.get("device", "")
    begin, end = marks(run)
    words = target.read_text()
    before, rest = words.split(begin)
    after = rest.split(end)[1]
    folder = target.parent / "pictures"
    folder.mkdir(exist_ok=True)
    parts = [machine_line(run), table.markdown([r for r in run["results"] if r["case"]["group"] == "table"])]
    others = [r for r in run["results"] if r["case"]["group"] != "table"]
    for name, picture in drawn(run["results"], all_pictures).items():
        (folder / file_of(name, device)).write_text(picture)
        parts.append(f"![{name}](pictures/{file_of(name, device)})\n")
    if others:
        parts.append("Along the lines of the pictures, and for other types, indices and values:\n\n" + table.markdown(others))
    target.write_text(before + begin + "\n" + "\n\n".join(parts) + "\n" + end + after)


def write(run: dict[str, Any], folder: pathlib.Path) -> None:
    results = run["results"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "race.json").write_text(json.dumps(run, indent=1))
    (folder / "race.md").write_text(machine_line(run) + "\n\n" + table.markdown(results))
    for name, picture in drawn(results, all_pictures).items():
        (folder / file_of(name)).write_text(picture)
    heat = drawn(results, heat_pictures) if run.get("device") else {}
    for name, picture in heat.items():
        (folder / file_of(name, run["device"])).write_text(picture)
    (folder / "race.html").write_text(page.page(machine_line(run), results, drawn(results, growth_pictures), heat))

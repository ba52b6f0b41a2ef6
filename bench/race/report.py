"""A run on paper: JSON for machines, Markdown for documents, and a page of pictures that needs no network."""

from __future__ import annotations

import json
import pathlib
from html import escape
from typing import Any

from . import svg, table
from .peers import TITLES

Result = dict[str, Any]
NAMES = {**TITLES, "floor": "floor"}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sow: the race</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; font-size: 13px; }}
th, td {{ padding: 2px 10px; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
tr.met td:first-child {{ border-left: 4px solid #1a7f37; }}
tr.missed td:first-child {{ border-left: 4px solid #d9480f; }}
figure {{ display: inline-block; margin: 1rem 0.5rem; }}
pre {{ background: #f6f8fa; padding: 0.6rem; overflow-x: auto; }}
</style></head><body>
<h1>The race</h1>
<p>{machine}</p>
<p>Each library in a process of its own, in its fastest way of saying the case; turns interleaved, medians.
The floor is the fewest bytes a case must move over the speed of a plain copy beside it. Our results are the exact
sums, the same bits on any number of threads, with every index checked.</p>
{pictures}
<h2>Every case</h2>
{table}
<h2>How sow did each</h2>
{plans}
</body></html>
"""


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
        series: dict[str, svg.Points] = {}
        for result in members:
            case = result["case"]
            updates = 1
            for extent in case["items"]:
                updates *= extent
            if case["kind"] == "rows" and len(case["shape"]) > 1:
                updates *= case["shape"][-1]
            for name, seconds in [*result["seconds"].items(), ("floor", result["floor"])]:
                series.setdefault(name, []).append((case["x"], seconds / updates))
        found[group] = svg.lines(title, along, "seconds an element", series, NAMES)
    return found


def ratio_pictures(results: list[Result]) -> dict[str, str]:
    raced = [result for result in results if result["ratio"] and result["case"]["group"] == "table"]
    ratios = []
    for result in raced:
        goals = [g["times"] for g in result["goals"] if g["against"] == "best"]
        met = all(g["met"] for g in result["goals"])
        ratios.append((result["case"]["name"], result["ratio"], goals[0] if goals else None, "#1a7f37" if met else "#d9480f"))
    floors = [(result["case"]["name"], result["floor"] / result["seconds"]["sow"], None, "#4263eb")
              for result in raced if result["case"]["floor_bytes"] > 1 << 20]
    return {
        "ratio": svg.bars("times faster than the best of the others (black: the goal)", ratios, "1"),
        "floor": svg.bars("fraction of the floor that sow reaches", floors, "copy"),
    }


def pictures(results: list[Result]) -> dict[str, str]:
    return {name: picture for name, picture in {**ratio_pictures(results), **growth_pictures(results)}.items() if picture}


def html_table(results: list[Result]) -> str:
    peers = table.peers_of(results)
    rows = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in table.header(results)) + "</tr>"]
    for result in results:
        goals = result["goals"]
        style = "" if not goals else "met" if all(g["met"] for g in goals) else "missed"
        rows.append(f'<tr class="{style}">' + "".join(f"<td>{escape(cell)}</td>" for cell in table.row(result, peers)) + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def file_of(picture: str, device: str = "") -> str:
    return ("gpu-" if device else "") + picture.replace(": ", "-").replace(" ", "_").replace("^", "") + ".svg"


def document(run: dict[str, Any], page: pathlib.Path) -> None:
    """Puts the table of a run between the marks of a page, and its pictures beside it."""
    device = run.get("device", "")
    race = "the race on a GPU" if device else "the race"
    begin, end = f"<!-- {race} -->\n", f"<!-- end of {race} -->\n"
    words = page.read_text()
    before, rest = words.split(begin)
    after = rest.split(end)[1]
    folder = page.parent / "pictures"
    folder.mkdir(exist_ok=True)
    parts = [machine_line(run), table.markdown([r for r in run["results"] if r["case"]["group"] == "table"])]
    others = [r for r in run["results"] if r["case"]["group"] != "table"]
    for name, picture in pictures(run["results"]).items():
        (folder / file_of(name, device)).write_text(picture)
        parts.append(f"![{name}](pictures/{file_of(name, device)})\n")
    if others:
        parts.append("Along the lines of the pictures, and for other types, indices and values:\n\n" + table.markdown(others))
    page.write_text(before + begin + "\n" + "\n\n".join(parts) + "\n" + end + after)


def write(run: dict[str, Any], folder: pathlib.Path) -> None:
    results = run["results"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "race.json").write_text(json.dumps(run, indent=1))
    (folder / "race.md").write_text(machine_line(run) + "\n\n" + table.markdown(results))
    drawn = pictures(results)
    for name, picture in drawn.items():
        (folder / file_of(name)).write_text(picture)
    plans = "".join(f"<h3>{escape(result['case']['name'])}</h3><pre>{escape(result['explain'])}</pre>"
                    for result in results if result["explain"])
    (folder / "race.html").write_text(PAGE.format(
        machine=escape(machine_line(run)), table=html_table(results), plans=plans,
        pictures="".join(f"<figure>{picture}</figure>" for picture in drawn.values())))

# SPDX-License-Identifier: Apache-2.0
"""The table of a run, in plain text, Markdown or with colours where rich is there."""

from __future__ import annotations

from typing import Any

from .peers import TITLES

Result = dict[str, Any]


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def strategy(result: Result) -> str:
    """The last strategy that explain names: out of place the first one is the copy."""
    names = [line.split()[1].rstrip(":") for line in result["explain"].splitlines() if line.strip().startswith("strategy")]
    return names[-1] if names else ""


def rival(against: str) -> str:
    """A library, or one way of it."""
    name, _, way = against.partition(" ")
    return f"{TITLES[name]} {way}".strip()


def goal(result: Result) -> str:
    goals = result["goals"]
    if not goals:
        return ""
    wanted = ", ".join(
        duration(g["times"]) if g["against"] == "time" else
        f"{g['times']:g}" + ("" if g["against"] == "best" else f" {rival(g['against'])}") for g in goals)
    return f"{wanted} {'met' if all(g['met'] for g in goals) else 'missed'}"


def peers_of(results: list[Result]) -> list[str]:
    return [name for name in TITLES if name != "sow" and any(name in result["seconds"] for result in results)]


def header(results: list[Result]) -> list[str]:
    return ["case", "floor", *[TITLES[name] for name in peers_of(results)], "sow", "ratio", "goal", "strategy"]


def row(result: Result, peers: list[str]) -> list[str]:
    times = result["seconds"]
    ratio = f"{result['ratio']:.2f}" if result["ratio"] else ""
    return [result["case"]["name"], duration(result["floor"]), *[duration(times.get(name)) for name in peers],
            duration(times.get("sow")), ratio, goal(result), strategy(result)]


def markdown(results: list[Result]) -> str:
    head = header(results)
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 3) + " --- | --- |"]
    lines += ["| " + " | ".join(row(result, peers_of(results))) + " |" for result in results]
    return "\n".join(lines) + "\n"


def plain(results: list[Result]) -> str:
    rows = [header(results)] + [row(result, peers_of(results)) for result in results]
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
    last = len(widths) - 2
    return "\n".join(
        "  ".join(cell.ljust(width) if column == 0 or column >= last else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
        for line in rows)


def show(results: list[Result]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(plain(results))
        return
    console = Console()
    if not console.is_terminal or console.width < 120:
        print(plain(results))
        return
    table = Table(box=None, pad_edge=False)
    for column, name in enumerate(header(results)):
        table.add_column(name, justify="left" if column == 0 else "right")
    for result in results:
        cells = row(result, peers_of(results))
        style = "red" if "missed" in cells[-2] else "green" if "met" in cells[-2] else ""
        table.add_row(*cells, style=style)
    console.print(table)

# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run by matplotlib, which only development needs: one style, for light and dark, values on hover.

Colours are named by placeholders that the finished SVG has as variables, with a set for each scheme of the reader.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any

from .peers import TITLES

Result = dict[str, Any]
Points = list[tuple[float, float]]
# placeholder: (variable, light, dark)
COLOURS = {
    "#010101": ("ink", "#1f2328", "#e6edf3"), "#020202": ("muted", "#6e7781", "#8d96a0"), "#030303": ("grid", "#d8dee4", "#30363d"),
    "#040404": ("ahead", "#2b8a3e", "#51cf66"), "#050505": ("behind", "#d9480f", "#ff922b"), "#060606": ("even", "#868e96", "#868e96"),
    "#070707": ("torch", "#d9480f", "#ff922b"), "#080808": ("numpy", "#3b5bdb", "#748ffc"), "#090909": ("jax", "#9c36b5", "#da77f2"),
    "#0a0a0a": ("paddle", "#0b7285", "#3bc9db"), "#0b0b0b": ("tensorflow", "#a57600", "#fcc419"), "#0c0c0c": ("cupy", "#c2255c", "#f783ac"),
    "#0d0d0d": ("part", "#3b5bdb", "#748ffc"),
}
INK, MUTED, GRID, AHEAD, BEHIND, EVEN, PART = "#010101", "#020202", "#030303", "#040404", "#050505", "#060606", "#0d0d0d"
LINE = {"sow": AHEAD, "floor": MUTED, **{variable: mark for mark, (variable, _, _) in COLOURS.items() if variable in TITLES}}


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def family(case: dict[str, Any]) -> str:
    """The part of a picture that a case belongs to."""
    if case["kind"] == "diagonal":
        return "regular places"
    if case["group"] == "table" and math.prod(case["items"]) <= 1000:
        return "small calls"
    if case["kind"] == "masked":
        return "masks"
    if case["kind"] == "along":
        return "along an axis"
    if case["backward"]:
        return "rows, forward and backward"
    return "whole rows" if len(case["shape"]) > 1 else "single elements"


def colour(ratio: float) -> str:
    """Green is for what is ahead alone; what is within 5% of 1 is neither ahead nor behind."""
    return AHEAD if ratio >= 1.05 else EVEN if ratio > 0.95 else BEHIND


def times(value: float) -> str:
    return f"{value:.0f}×" if value >= 9.95 else f"{value:.1f}×" if value >= 1.995 else f"{value:.2f}×"


def counted(value: float) -> str:
    """1k, 10M: a number of things."""
    for letter, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def timed(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= scale * 0.9995:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-12:.3g} ps"


def figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "sow", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
        "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": GRID, "xtick.color": MUTED, "ytick.color": INK,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "axes.titlelocation": "left", "axes.titlecolor": INK,
        "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False})
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def finish(drawn: Any, hover: dict[str, str]) -> str:
    """The SVG with its colours as variables and the words of each mark on hover."""
    from matplotlib import pyplot

    out = io.StringIO()
    drawn.savefig(out, format="svg", bbox_inches="tight", pad_inches=0.05, metadata={"Date": None, "Creator": "sow"})
    pyplot.close(drawn)
    text = out.getvalue()
    text = text[text.index("<svg"):]
    for mark, (variable, _, _) in COLOURS.items():
        text = text.replace(mark, f"var(--{variable})")
    text = text.replace("'DejaVu Sans'", "system-ui, 'Segoe UI', 'DejaVu Sans'").replace("DejaVu Sans, ", "")
    for name, words in hover.items():
        escaped = words.replace("&", "&amp;").replace("<", "&lt;")
        text = text.replace(f'<g id="{name}">', f'<g id="{name}"><title>{escaped}</title>')
    light, dark = (" ".join(f"--{names[0]}: {names[which]};" for names in COLOURS.values()) for which in (1, 2))
    style = f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    text = re.sub(r"(<svg[^>]*>)", lambda found: found.group(1) + style, text, count=1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def bars(title: str, results: list[Result], value: Any, unit: Any, words: Any, paint: Any = colour, goal: Any = None,
         legend: str = "") -> str:
    """A horizontal bar for each case from 1 on a logarithmic axis, in groups; hover says more."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(family(result["case"]), []).append(result)
    if not groups:
        return ""
    rows = sum(len(members) for members in groups.values()) + len(groups)
    drawn, axes = figure(7.8, 0.75 + 0.205 * rows)
    hover: dict[str, str] = {}
    labels, heads, at = [], [], 0.0
    values = [value(result) for result in results]
    low, high = min([*values, 1.0]), max([*values, 1.0])
    for name, members in groups.items():
        labels.append((at, name))
        heads.append(name)
        at += 1
        for result in sorted(members, key=value, reverse=True):
            found = value(result)
            bar = axes.barh(at, max(found, 1.0) - min(found, 1.0), left=min(found, 1.0), height=0.68, color=paint(found))
            bar[0].set_gid(f"bar-{len(hover)}")
            hover[f"bar-{len(hover)}"] = words(result)
            axes.text(max(found, 1.0) * 1.03, at, unit(found), va="center", fontsize=8, color=INK)
            wanted = goal(result) if goal else None
            if wanted:
                axes.plot([wanted, wanted], [at - 0.42, at + 0.42], color=INK, linewidth=1.6)
            labels.append((at, result["case"]["name"]))
            at += 1
    axes.set_xscale("log")
    axes.set_ylim(at - 0.4, -0.7)
    axes.set_xlim(low / 1.15, high * 1.45)
    axes.axvline(1, color=INK, linewidth=0.9)
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low / 1.15 <= tick <= high * 1.45]
    axes.set_xticks(ticks, [unit(tick) if unit is not times else f"{tick:g}×" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks([place for place, _ in labels], [name for _, name in labels], fontsize=8)
    for label in axes.get_yticklabels():
        if label.get_text() in heads:
            label.set(fontweight="bold", color=MUTED)
    axes.tick_params(length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    drawn.suptitle(title, x=0.01, ha="left", fontsize=10, color=INK)
    if legend:
        drawn.text(0.01, -0.01, legend, color=MUTED, fontsize=8.5, va="top")
    return finish(drawn, hover)


def ratio_words(result: Result) -> str:
    best = result["best_peer"]
    return (f"{result['case']['name']}: sow {timed(result['seconds']['sow'])}, {TITLES[best]} {timed(result['seconds'][best])}, "
            f"{times(result['ratio'])}" + (f"; the floor is {timed(result['floor'])}" if result["floor"] else ""))


def ratio_picture(results: list[Result]) -> str:
    raced = [result for result in results if result["ratio"]]
    others = [TITLES[name] for name in TITLES if name != "sow" and any(name in result["seconds"] for result in raced)]

    def goal(result: Result) -> float | None:
        return next((found["times"] for found in result["goals"] if found["against"] == "best"), None)

    wanted = any(goal(result) for result in raced)
    return bars(f"How many times faster sow is than the best of {', '.join(others)}", raced, lambda result: result["ratio"], times,
                ratio_words, goal=goal,
                legend="green: faster; grey: within 5%; orange: slower" + ("; black mark: the goal" if wanted else ""))


def floor_picture(results: list[Result]) -> str:
    large = [result for result in results if result["case"]["floor_bytes"] > 1 << 20 and result["floor"] and "sow" in result["seconds"]]

    def part(result: Result) -> float:
        return float(result["floor"] / result["seconds"]["sow"])

    return bars("Speed beside a plain copy of the bytes a case must move (100% is the floor)", large, part,
                lambda found: f"{100 * found:.0f}%",
                lambda result: f"{result['case']['name']}: {timed(result['seconds']['sow'])}, a copy takes {timed(result['floor'])}",
                paint=lambda found: PART)


def change_of(case: dict[str, Any]) -> str:
    """What a case of the grid changes from its middle, sums of float32 by uniform keys: the column of a heat map."""
    size = f"10^{round(math.log10(case['x']))}"
    words = [case["reduce"] if case["reduce"] not in ("add", "assign") or (case["reduce"] == "assign" and case["kind"] not in ("masked", "gather"))
             else "", case["dtype"] if case["dtype"] != "float32" else "", case["index"] if case["index"] != "uniform" else ""]
    return " ".join([size, *filter(None, words)])


def heat_picture(results: list[Result], ratio: Any, against: str) -> str:
    """A cell for every shape and change: the deeper, the further from 1; green is for what is ahead alone."""
    cells: dict[tuple[str, str], Result] = {}
    for result in results:
        if result["case"]["group"].startswith("grid") and ratio(result):
            cells[result["case"]["group"].partition(", ")[2], change_of(result["case"])] = result
    if not cells:
        return ""
    rows = list(dict.fromkeys(shape for shape, _ in cells))
    # Sizes first, then what else is changed.
    columns = sorted({change for _, change in cells}, key=lambda change: (" " in change, change.partition(" ")[2], change))
    drawn, axes = figure(1.9 + 0.36 * len(columns), 1.1 + 0.24 * len(rows))
    hover: dict[str, str] = {}
    for (shape, change), result in cells.items():
        x, y, found = columns.index(change), rows.index(shape), float(ratio(result))
        depth = 0.25 + 0.75 * min(abs(math.log(found)) / math.log(8), 1.0)
        box = axes.barh(y, 0.94, left=x - 0.47, height=0.9, color=colour(found), alpha=depth if colour(found) != EVEN else 0.35)
        box[0].set_gid(f"cell-{len(hover)}")
        hover[f"cell-{len(hover)}"] = f"{result['case']['name']}: {times(found)}, sow {timed(result['seconds']['sow'])}"
        axes.text(x, y, f"{found:.0f}" if found >= 9.95 else f"{found:.1f}", ha="center", va="center", fontsize=6.5, color=INK)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=7.5)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    drawn.suptitle(f"How many times faster sow is than {against}, over the grid", x=0.01, ha="left", fontsize=10, color=INK)
    drawn.text(0.01, -0.01, "green: faster; grey: within 5%; orange: slower; the deeper, the further from 1", color=MUTED, fontsize=8.5,
               va="top")
    return finish(drawn, hover)


ALONG = {"size": "elements", "row length": "elements of a row", "places": "places", "threads": "threads"}


def ticks_between(low: float, high: float) -> list[float]:
    """Round values on a logarithmic axis: powers of ten, and those between them where fewer than three would be left."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5)):
        ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(ticks) >= 3:
            break
    return ticks


def lines(title: str, along: str, series: dict[str, Points]) -> str:
    """Time an element over what grows, both logarithmic, each library named at its line's end."""
    series = {name: sorted((x, y) for x, y in points if x > 0 and y > 0) for name, points in series.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    drawn, axes = figure(6.4, 3.6)
    hover: dict[str, str] = {}
    label = ALONG.get(along, along)
    for name, points in series.items():
        xs, ys = zip(*points)
        axes.plot(xs, ys, color=LINE.get(name, MUTED), linewidth=2.4 if name == "sow" else 1.3, linestyle="--" if name == "floor" else "-")
        for x, y in points:
            dot = axes.plot([x], [y], "o", color=LINE.get(name, MUTED), markersize=4.5 if name == "sow" else 3.5)[0]
            dot.set_gid(f"dot-{name}-{len(hover)}")
            hover[f"dot-{name}-{len(hover)}"] = f"{TITLES.get(name, name)}: {counted(x)} {label}, {timed(y)} an element"
    axes.set_xscale("log")
    axes.set_yscale("log")
    every = sorted({x for points in series.values() for x, _ in points})
    shown = every if len(every) <= 8 else every[:: math.ceil(len(every) / 8)]
    axes.set_xticks(shown, [counted(x) for x in shown])
    values = [y for points in series.values() for _, y in points]
    ticks = ticks_between(min(values) / 1.6, max(values) * 1.6)
    axes.set_yticks(ticks, [timed(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_title(f"{title}: time an element (lower is better)")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    name_ends(axes, series)
    return finish(drawn, hover)


def name_ends(axes: Any, series: dict[str, Points]) -> None:
    """The names right of the lines, moved apart where they would lie over each other."""
    bottom, top = (math.log10(limit) for limit in axes.get_ylim())
    step = (top - bottom) / 17
    # Of the lines' ends from the lowest up: each at its place or a step above the one before.
    ends = sorted((math.log10(points[-1][1]), name) for name, points in series.items())
    at = -math.inf
    for y, name in ends:
        at = max(y, at + step)
        part = (at - bottom) / (top - bottom)
        axes.text(1.02, part, TITLES.get(name, name), transform=axes.transAxes, color=LINE.get(name, MUTED), va="center", fontsize=9,
                  fontweight="bold" if name == "sow" else "normal")

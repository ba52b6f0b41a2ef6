"""Pictures of a run as SVG, written by hand so that a report needs no library and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

COLOURS = {"sow": "#1a7f37", "torch": "#d9480f", "numpy": "#4263eb", "jax": "#9c36b5", "paddle": "#0b7285",
           "tensorflow": "#a57600", "cupy": "#c2255c", "floor": "#868e96"}
STYLE = "font-family:system-ui,sans-serif;font-size:12px"
Points = list[tuple[float, float]]


def text(x: float, y: float, words: str, anchor: str = "start", fill: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def wrap(width: float, height: float, parts: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" style="{STYLE}"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>")


def short(value: float) -> str:
    for unit, scale in (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9)):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.1e}"


class Scale:
    """A logarithmic axis."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        self.low = math.log10(min(values))
        self.high = max(math.log10(max(values)), self.low + 0.3)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        tens = [10.0**power for power in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]
        if len(tens) >= 2:
            return tens
        return [10**self.low, 10 ** ((self.low + self.high) / 2), 10**self.high]


def lines(title: str, across: str, up: str, series: dict[str, Points], titles: dict[str, str]) -> str:
    """Lines over two logarithmic axes, named at their right ends."""
    width, height, left, right, top, bottom = 620.0, 360.0, 70.0, 500.0, 40.0, 310.0
    series = {name: [(x, y) for x, y in points if x > 0 and y > 0] for name, points in series.items()}
    series = {name: sorted(points) for name, points in series.items() if points}
    if not series:
        return ""
    xs = Scale([x for points in series.values() for x, _ in points], left, right)
    ys = Scale([y for points in series.values() for _, y in points], bottom, top)
    parts = [text(left, 22, title, fill="#000")]
    for tick in xs.ticks():
        parts += [line(xs(tick), top, xs(tick), bottom, "#eee"), text(xs(tick), bottom + 16, f"{tick:g}", "middle")]
    for tick in ys.ticks():
        parts += [line(left, ys(tick), right, ys(tick), "#eee"), text(left - 6, ys(tick) + 4, short(tick), "end")]
    parts += [text((left + right) / 2, height - 12, across, "middle"), text(8, top - 6, up)]
    ends: list[float] = []
    for name, points in sorted(series.items(), key=lambda item: ys(item[1][-1][1])):
        colour = COLOURS.get(name, "#555")
        path = " ".join(f"{xs(x):.1f},{ys(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if name == "floor" else ""
        bold = 2.5 if name == "sow" else 1.5
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{bold}"{dash}/>')
        parts += [f'<circle cx="{xs(x):.1f}" cy="{ys(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        at = max(ys(points[-1][1]) + 4, (ends[-1] + 14) if ends else 0)
        ends.append(at)
        parts.append(text(xs(points[-1][0]) + 8, at, titles.get(name, name), fill=colour))
    return wrap(width, height, parts)


def bars(title: str, rows: Sequence[tuple[str, float, float | None, str]], mark: str) -> str:
    """One horizontal bar a row on a logarithmic axis: (name, value, goal, colour)."""
    rows = [row for row in rows if row[1] > 0]
    if not rows:
        return ""
    width, left, right, step = 860.0, 330.0, 780.0, 18.0
    height = 60 + step * len(rows)
    values = [value for _, value, _, _ in rows] + [goal for _, _, goal, _ in rows if goal] + [1.0]
    scale = Scale([min(values) / 1.3, max(values)], left, right)
    parts = [text(10, 20, title, fill="#000"), line(scale(1), 30, scale(1), height - 20, "#999")]
    parts.append(text(scale(1), height - 6, mark, "middle"))
    for number, (name, value, goal, colour) in enumerate(rows):
        y = 36 + step * number
        begin, end = sorted((scale(1), scale(value)))
        parts.append(text(left - 8, y + 10, name, "end"))
        parts.append(f'<rect x="{begin:.1f}" y="{y:.1f}" width="{max(end - begin, 1):.1f}" height="12" fill="{colour}"/>')
        parts.append(text(max(end, scale(1)) + 5, y + 10, f"{value:.2g}"))
        if goal:
            parts.append(line(scale(goal), y - 2, scale(goal), y + 14, "#000", 2))
    return wrap(width, height, parts)

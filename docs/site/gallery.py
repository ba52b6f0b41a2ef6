# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the gallery: python docs/site/gallery.py. What they show is what sow computes.

Each is a small scatter: the source above, the destination below, an arrow for every value that travels.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import sow  # noqa: E402

from race.pictures import AHEAD, BEHIND, GRID, INK, MUTED, PART, figure, finish  # noqa: E402

SIZE, GAP = 1.0, 0.18
Cell = tuple[float, float]


class Stage:
    """A picture without axes, in cells."""

    def __init__(self, width: float, height: float) -> None:
        self.drawn, self.axes = figure(0.56 * width, 0.56 * height)
        self.axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        self.axes.axis("off")

    def grid(self, values: np.ndarray, x: float, y: float, name: str, paint: Any = lambda at: GRID,
             below: bool = False) -> dict[tuple[int, ...], Cell]:
        """Draws a matrix (or a row) and returns the middle of each cell."""
        from matplotlib.patches import FancyBboxPatch

        rows = values if values.ndim == 2 else values[None]
        middles = {}
        under = y + len(rows) * (SIZE + GAP) + 0.12
        self.axes.text(x, under if below else y - 0.28, name, color=MUTED, fontsize=9, va="top" if below else "bottom")
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                at = (r, c) if values.ndim == 2 else (c,)
                left, top = x + c * (SIZE + GAP), y + r * (SIZE + GAP)
                self.axes.add_patch(FancyBboxPatch((left + 0.06, top + 0.06), SIZE - 0.12, SIZE - 0.12, boxstyle="round,pad=0.05",
                                                   facecolor="none", edgecolor=paint(at), linewidth=1.3 if paint(at) != GRID else 0.9))
                self.axes.text(left + SIZE / 2, top + SIZE / 2, value if isinstance(value, str) else f"{value:g}", ha="center", va="center", fontsize=9, color=INK)
                middles[at] = (left + SIZE / 2, top + SIZE / 2)
        return middles

    def arrow(self, start: Cell, end: Cell, colour: str = AHEAD) -> None:
        bend = 0.0 if abs(start[0] - end[0]) < 0.1 else 0.08
        self.axes.annotate("", (end[0], end[1] - SIZE / 2), (start[0], start[1] + SIZE / 2),
                           arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "alpha": 0.75, "shrinkA": 2, "shrinkB": 2,
                                       "connectionstyle": f"arc3,rad={bend}"})

    def words(self, x: float, y: float, text: str, colour: str = MUTED) -> None:
        self.axes.text(x, y, text, color=colour, fontsize=9, va="center")

    def finish(self) -> str:
        return finish(self.drawn, {})


def image_tokens() -> str:
    tokens = np.array([["<s>", "img", "img", "cat"], ["<s>", "a", "dog", "img"]])
    embedded, image = np.arange(8, dtype="f4").reshape(2, 4), np.array([70, 80, 90], "f4")
    merged = sow.masked_scatter(embedded, tokens == "img", image)
    stage = Stage(13.2, 7.4)
    stage.grid(tokens, 0.3, 1.0, "tokens: img is a placeholder", lambda at: AHEAD if tokens[at] == "img" else GRID)
    source = stage.grid(image, 6.6, 1.0, "rows of the image encoder (one number each here)")
    target = stage.grid(merged, 3.4, 4.1, "masked_scatter(embedded, tokens == img, image)", lambda at: AHEAD if tokens[at] == "img" else GRID, True)
    for start, end in zip(source.values(), [target[at] for at in zip(*np.nonzero(tokens == "img"))]):
        stage.arrow(start, end)
    return stage.finish()


def kv_cache() -> str:
    cache, lengths, fresh = np.zeros((3, 6), "f4"), np.array([3, 1, 4]), np.array([7, 8, 9], "f4")
    for row, length in enumerate(lengths):
        cache[row, :length] = row + 1
    after = sow.index_put(cache, (np.arange(3), lengths), fresh)
    stage = Stage(13.4, 6.6)
    source = stage.grid(fresh, 8.6, 1.0, "this step's rows, one a sequence")
    new = {(row, int(length)) for row, length in enumerate(lengths)}
    target = stage.grid(after, 0.9, 2.5, "index_put_(cache, (sequence, length), rows)", lambda at: AHEAD if at in new else GRID, True)
    for row, start in enumerate(source.values()):
        end = target[row, int(lengths[row])]
        stage.axes.annotate("", (end[0] + 0.5, end[1]), (start[0], start[1] + SIZE / 2),
                            arrowprops={"arrowstyle": "-|>", "color": AHEAD, "linewidth": 1.1, "connectionstyle": "angle3,angleA=-90,angleB=0"})
    return stage.finish()


def meeting() -> str:
    index, source = np.array([0, 2, 2, 5, 0]), np.array([1, 2, 3, 4, 5], "f4")
    stage = Stage(8.8, 5.4)
    above = stage.grid(source, 0.9, 1.0, "values, for places 0 2 2 5 0")
    below = stage.grid(sow.scatter_add(np.zeros(6, "f4"), 0, index, source), 0.4, 3.4, "scatter_add: what meets is summed, exactly",
                       lambda at: AHEAD if at[0] in index else GRID, True)
    for start, key in zip(above.values(), index):
        stage.arrow(start, below[int(key),])
    return stage.finish()


def graph() -> str:
    """Messages along edges, and what arrives."""
    places = {0: (1.2, 1.2), 1: (4.2, 1.4), 2: (2.6, 3.6), 3: (5.8, 3.6)}
    sender, receiver = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 0, 1, 2])
    nodes = np.array([1, 2, 3, 4], "f4")
    arrived = sow.index_add(np.zeros(4, "f4"), 0, receiver, nodes[sender])
    stage = Stage(13.0, 5.4)
    from matplotlib.patches import Circle

    for a, b in zip(sender, receiver):
        (x1, y1), (x2, y2) = places[int(a)], places[int(b)]
        stage.axes.annotate("", (x2, y2), (x1, y1), arrowprops={"arrowstyle": "-|>", "color": AHEAD, "linewidth": 1.2, "shrinkA": 13, "shrinkB": 13,
                                                                "connectionstyle": "arc3,rad=0.12"})
    for node, (x, y) in places.items():
        stage.axes.add_patch(Circle((x, y), 0.5, facecolor="none", edgecolor=PART, linewidth=1.4))
        stage.axes.text(x, y, f"{nodes[node]:g}", ha="center", va="center", color=INK, fontsize=9)
    stage.grid(nodes[sender], 6.2 + 0.4, 1.1, "messages: index_select(nodes, 0, sender)")
    stage.grid(arrived, 6.2 + 0.4, 3.4, "index_add(zeros, 0, receiver, messages)", lambda at: AHEAD if at[0] in receiver else GRID)
    return stage.finish()


def histogram() -> str:
    """How far a float32 bin counts, by ones, one after the other and exactly."""
    drawn, axes = figure(6.2, 2.9)
    step = 4_000_000
    counts = np.arange(2, 9) * step
    one, first = np.broadcast_to(np.float32(1), step), np.zeros(step, np.int64)
    running, plain = np.zeros(1, "f4"), []
    for count in range(1, 9):
        np.add.at(running, first, one)
        plain += [float(running[0])] if count * step in counts else []
    exact = [float(sow.scatter_add(np.zeros(1, "f4"), 0, np.broadcast_to(np.int64(0), count), np.broadcast_to(np.float32(1), count))[0])
             for count in counts.tolist()]
    axes.plot(counts, exact, color=AHEAD, linewidth=2.4, marker="o")
    axes.plot(counts, plain, color=BEHIND, linewidth=1.4, marker="o")
    axes.text(counts[-1] + 6e5, exact[-1], "sow", color=AHEAD, va="center", fontweight="bold")
    axes.text(counts[-1] + 6e5, plain[-1], "np.add.at", color=BEHIND, va="center")
    axes.set_xticks(counts, [f"{count // 1_000_000}M" for count in counts])
    axes.set_yticks([1e7, 2e7, 3e7], ["10M", "20M", "30M"])
    axes.set(xlabel="events in one bin", title="What a float32 bin has counted", xlim=(7e6, 3.8e7))
    axes.grid(color=GRID, linewidth=0.6)
    return finish(drawn, {})


def elements() -> str:
    """Two triangles that share an edge: their matrices meet in four places."""
    first, second = np.array([0, 1, 2]), np.array([1, 3, 2])
    local = np.array([[2, -1, -1], [-1, 1, 0], [-1, 0, 1]], "f4")
    pairs = np.concatenate([np.stack(np.meshgrid(t, t, indexing="ij"), -1).reshape(-1, 2) for t in (first, second)])
    matrix = sow.scatter_nd(pairs, np.concatenate([local.ravel()] * 2), (4, 4))
    stage = Stage(14.6, 6.2)
    points = np.array([[0.6, 1.2], [3.4, 1.2], [0.6, 4.0], [3.4, 4.0]])
    for triangle in (first, second):
        stage.axes.fill(points[triangle, 0], points[triangle, 1], facecolor="none", edgecolor=PART, linewidth=1.4)
    for node, (x, y) in enumerate(points):
        stage.axes.text(x, y + (0.35 if node > 1 else -0.3), str(node), ha="center", va="center", color=INK, fontsize=9)
    shared = {(r, c) for r in (1, 2) for c in (1, 2)}
    stage.grid(local, 5.0, 1.2, "3 x 3 of each triangle")
    stage.grid(matrix, 9.6, 1.2, "scatter_nd(pairs, entries, (4, 4))", lambda at: AHEAD if at in shared else GRID)
    return stage.finish()


def masks() -> str:
    mask = np.array([[True, False, True, False], [False, True, False, True]])
    value = np.array([1, 2, 3, 4], "f4")
    stage = Stage(10.4, 6.4)
    stage.grid(np.where(mask, "T", "·"), 0.3, 1.0, "mask", lambda at: AHEAD if mask[at] else GRID)
    source = stage.grid(value, 5.4, 1.0, "values, in order")
    target = stage.grid(sow.masked_scatter(np.zeros((2, 4), "f4"), mask, value), 3.0, 3.7, "masked_scatter(zeros, mask, values)", lambda at: AHEAD if mask[at] else GRID, True)
    for start, at in zip(source.values(), zip(*np.nonzero(mask))):
        stage.arrow(start, target[at])
    return stage.finish()


def diagonal() -> str:
    line = np.array([1, 2, 3], "f4")
    stage = Stage(7.4, 7.2)
    source = stage.grid(line, 1.9, 1.0, "source")
    target = stage.grid(sow.diagonal_scatter(np.zeros((3, 4), "f4"), line, 1), 0.8, 2.9, "diagonal_scatter(x, source, offset=1)",
                        lambda at: AHEAD if at[1] == at[0] + 1 else GRID, True)
    for r, start in enumerate(source.values()):
        stage.arrow(start, target[r, r + 1])
    return stage.finish()


PICTURES = {"image-tokens": image_tokens, "kv-cache": kv_cache, "graph": graph, "histogram": histogram, "elements": elements,
            "meeting": meeting, "masks": masks, "diagonal": diagonal}


def main() -> None:
    for name, draw in PICTURES.items():
        (ROOT / "docs" / "pictures" / f"gallery-{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()

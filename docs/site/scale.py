# SPDX-License-Identifier: Apache-2.0
"""The model of docs/scale.md on paper, and its picture: python docs/site/scale.py. Every piece was measured or says that it is assumed."""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from race.pictures import AHEAD, BEHIND, GRID, MUTED, PART, counted, figure, finish, timed  # noqa: E402

ROW = 64 * 4          # bytes
UPDATES = 2**20       # on each GPU
ROWS = 2**17          # of the destination, on each GPU
LINK = 50e9           # bytes a second that a GPU sends: 400 Gbit/s, assumed
MESSAGE = 2e-6        # seconds for each of the messages to every other GPU, assumed
FOLD = 0.74e-3 / 2**23  # seconds a row of 64 float32: 8M rows in 0.74 ms on an H200, measured 2026-11-15
GROUP = 50e-3 / 2**20   # seconds a key: sorting 2^20 keys on one core of a host (AMD EPYC), measured 2026-11-18


def away(gpus: int) -> float:
    """The part of everything that lies on another GPU."""
    return (gpus - 1) / gpus


def held(gpus: int) -> float:
    """Rows of an index whose keys have travelled: what goes over the link, its messages, the fold of what arrives."""
    return UPDATES * ROW * away(gpus) / LINK + (gpus - 1) * MESSAGE + UPDATES * FOLD


def new(gpus: int) -> float:
    """The same with its keys: grouped on the host, counted and sent."""
    return held(gpus) + UPDATES * GROUP + UPDATES * 8 * away(gpus) / LINK + 2 * (gpus - 1) * MESSAGE


def gathered(gpus: int) -> float:
    """Every GPU receives the whole destination, as DTensor's own rules do, and folds all updates."""
    return (gpus - 1) * (ROWS * ROW + UPDATES * (ROW + 8)) / LINK + gpus * UPDATES * FOLD


def reduced(gpus: int) -> float:
    """A ring's all-reduce of dense partial sums, which rounds at every step."""
    return 2 * gpus * ROWS * ROW * away(gpus) / LINK + 2 * (gpus - 1) * MESSAGE + UPDATES * FOLD


WAYS = {"sow, held index": (held, AHEAD), "sow, new index": (new, PART), "all-reduce of dense sums": (reduced, MUTED),
        "gather of everything": (gathered, BEHIND)}
GPUS = [2**power for power in range(1, 11)]


def draw() -> str:
    drawn, axes = figure(6.4, 3.6)
    hover = {}
    for name, (way, colour) in WAYS.items():
        times = [way(gpus) for gpus in GPUS]
        axes.plot(GPUS, times, color=colour, linewidth=2.4 if name.startswith("sow") else 1.3)
        for gpus, time in zip(GPUS, times):
            dot = axes.plot([gpus], [time], "o", color=colour, markersize=4.5)[0]
            dot.set_gid(f"dot-{len(hover)}")
            hover[f"dot-{len(hover)}"] = f"{name}: {gpus} GPUs, {timed(time)}"
        axes.text(1.02, times[-1], name, transform=axes.get_yaxis_transform(), color=colour, va="center", fontsize=9,
                  fontweight="bold" if name.startswith("sow") else "normal")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(GPUS, [counted(gpus) if gpus < 1000 else f"{gpus:,}" for gpus in GPUS])
    ticks = [10.0**power for power in range(-3, 2)]
    axes.set_yticks(ticks, [timed(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("GPUs, each with 131,072 rows of 64 float32 and 1,048,576 updates for any of them")
    axes.set_title("On paper: a sum into rows that are cut over GPUs (lower is better)")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return finish(drawn, hover)


def main() -> None:
    (ROOT / "docs" / "pictures" / "scale.svg").write_text(draw())
    for gpus in (8, 64, 1024):
        print(gpus, {name: timed(way(gpus)) for name, (way, _) in WAYS.items()})


if __name__ == "__main__":
    main()

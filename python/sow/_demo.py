# SPDX-License-Identifier: Apache-2.0
"""`sow demo`: each operation with a picture of the array before and after it."""

import os
import re
import shutil
import sys
from typing import Any

from . import Index, Tensor, arange, explain, ones, tensor, zeros
from . import _core as sow

MARK, DIM, BOLD, END = "\033[1;32m", "\033[2m", "\033[1m", "\033[0m"

Scene = tuple[str, str, Tensor, tuple[Any, ...], dict[str, Any]]


def scenes() -> list[Scene]:
    """(operation, what it does, destination, arguments, keywords)"""
    mask = tensor([[True, False, True, False], [False, True, False, True]])
    return [
        ("masked_scatter", "values go, in order, to the trues of a mask",
         zeros([2, 4]), (mask, arange(1.0, 5.0)), {}),
        ("put_along_axis", "indices along an axis; what meets is added",
         zeros([2, 5]), (tensor([[0, 0, 3], [4, 1, 4]]), 1.0, 1), {}),
        ("scatter", "one number, or as many as there are indices",
         zeros([3, 5]), (0, tensor([[1, 2], [0, 1]]), 2.0), {}),
        ("scatter_reduce", "the maximum of what meets, the old value left out",
         ones([6]), (0, tensor([0, 0, 3, 3]), tensor([-1.0, -2.0, 5.0, 4.0]), "amax"), {"include_self": False}),
        ("diagonal_scatter", "a diagonal, here one above the main one",
         zeros([4, 4]), (tensor([1.0, 2.0, 3.0]),), {"offset": 1}),
        ("index_add", "whole rows, added where their index says",
         zeros([4, 3]), (0, tensor([3, 1, 3]), ones([3, 3])), {}),
        ("index_put", "one index an axis",
         zeros([3, 4]), ((tensor([0, 1, 2]), tensor([3, 1, 0])), tensor([7.0, 8.0, 9.0])), {}),
        ("tensor_scatter_nd_update", "coordinates in rows",
         zeros([3, 4]), (tensor([[0, 1], [2, 3]]), tensor([5.0, 6.0])), {}),
        ("slice_scatter", "every other column",
         zeros([2, 6]), (ones([2, 3]),), {"dim": 1, "step": 2}),
        ("fill_diagonal", "the main diagonal", zeros([3, 5]), (1.0,), {}),
    ]


def number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def picture(array: Tensor, old: Tensor | None = None, colour: bool = False) -> list[str]:
    """The rows of a matrix; what differs from `old` is marked."""
    rows = array.tolist() if array.ndim == 2 else [array.tolist()]
    olds = rows if old is None else old.tolist() if old.ndim == 2 else [old.tolist()]
    lines = []
    for row, old_row in zip(rows, olds):
        cells = []
        for value, before in zip(row, old_row):
            text = number(value)
            if value == before:
                cells.append(f" {DIM}{text:>2}{END} " if colour else f" {text:>2} ")
            else:
                cells.append(f" {MARK}{text:>2}{END} " if colour else f"[{text:>2}]")
        lines.append("".join(cells))
    return lines


def show(scene: Scene, colour: bool) -> None:
    name, says, x, arguments, keywords = scene
    before, after = picture(x, colour=colour), picture(getattr(sow, name)(x, *arguments, **keywords), x, colour)
    print(f"\n{BOLD}{name}{END}: {says}" if colour else f"\n{name}: {says}")
    middle = len(before) // 2
    for line, (left, right) in enumerate(zip(before, after)):
        gap = " -> " if line == middle else "    "
        visible = len(re.sub("\033\\[[0-9;]*m", "", left))
        print("   " + left + " " * max(0, 24 - visible) + gap + right)


def main(only: list[str]) -> int:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    chosen = [scene for scene in scenes() if not only or scene[0] in only]
    if not chosen:
        print("no such picture; there are: " + ", ".join(scene[0] for scene in scenes()), file=sys.stderr)
        return 1
    for scene in chosen:
        show(scene, colour)
    if not only:
        exactness()
        plan()
    return 0


def exactness() -> None:
    terms = tensor([1e20, 1.0, -1e20, 1.0])
    total = zeros([1]).scatter_add(0, zeros([4], "int64"), terms)
    print(f"\nSums are exact: 1e20 + 1 - 1e20 + 1 = {total.item():g}, in any order, on any number of threads.")


def plan() -> None:
    held = Index(arange(0, 1000), size=1000)
    text = explain("index_add", zeros([1000, 64]), 0, held, ones([1000, 64]))
    width = shutil.get_terminal_size().columns
    print("\nAsk how a call would be done: sow.explain(sow.index_add, x, 0, index, source)")
    for line in text.splitlines():
        print("   " + line[: max(20, width - 4)])

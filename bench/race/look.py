# SPDX-License-Identifier: Apache-2.0
"""How the command `sow` speaks: the same rows of name and value, the same colours, wherever it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

NAME = 14  # columns of a row's name
STYLES = {"bold": "1", "dim": "2", "good": "32", "bad": "31"}


def coloured(stream: TextIO) -> bool:
    """Colours are for people: never in files and pipes, nor where NO_COLOR says so."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def paint(words: str, style: str, stream: TextIO = sys.stdout) -> str:
    return f"\033[{STYLES[style]}m{words}\033[0m" if words and coloured(stream) else words


def heading(words: str, stream: TextIO = sys.stdout) -> None:
    print(paint(words, "bold", stream), file=stream)


def row(name: str, value: str) -> str:
    return paint(f"{name:<{NAME}}", "dim") + value


def rows(pairs: Iterable[tuple[str, str]]) -> None:
    for name, value in pairs:
        print(row(name, value))


def note(words: str) -> None:
    """Beside the results, to whoever watches."""
    print(words, file=sys.stderr, flush=True)


def ratio(times: float) -> str:
    """How a time compares, in words: 0.14 is not "0.14 times faster" but "7.1 times slower"."""
    if 0.995 <= times <= 1.005:
        return "as fast as"
    return f"{times:.3g} times faster than" if times > 1 else f"{1 / times:.3g} times slower than"


def seconds(count: float) -> str:
    return f"{count:.0f} s" if count < 90 else f"{count / 60:.0f} min"

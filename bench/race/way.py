# SPDX-License-Identifier: Apache-2.0
"""One way of saying a case in one library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .cases import Case
from .data import Arrays


@dataclasses.dataclass
class Way:
    """`run` does the work and, on a CPU, waits for it. What it changes, `reset` brings back, outside of the clock."""

    name: str
    run: Callable[[], Any]
    result: Callable[[Any], Sequence[np.ndarray]]  # of what run returned: plain arrays to compare
    reset: Callable[[], None] | None = None
    compiled: bool = False  # its first run compiles, whatever the second takes
    compile: Callable[[], Any] | None = None  # before its first run, where that can be told apart
    explain: Callable[[], str] | None = None
    wait: Callable[[Any], Any] | None = None  # on a GPU: for libraries whose work events do not see


class Peer(Protocol):
    """A module of bench/race/peers."""

    def start(self, threads: int) -> str: ...  # the version

    def set_threads(self, threads: int) -> None: ...

    def ways(self, case: Case, arrays: Arrays, compiled: bool) -> list[Way]: ...

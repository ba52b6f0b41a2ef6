# SPDX-License-Identifier: Apache-2.0
"""Thread limits that end with a block."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType

from . import _core


class thread_limit(contextlib.ContextDecorator):
    """Use at most `count` threads in operations of this thread: a context manager and a decorator. Limits nest, and
    the smallest holds; other threads do not notice, and no result depends on it.

    >>> with sow.thread_limit(1):
    ...     print(sow.get_num_threads())
    1
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = threading.local()
        _core._ThreadLimit(count)  # refuses a wrong number here and not where the block begins

    def __enter__(self) -> thread_limit:
        stack = self._held.__dict__.setdefault("stack", [])
        stack.append(_core._ThreadLimit(self._count))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._held.stack.pop()


class threads(thread_limit):
    """thread_limit by a shorter name.

    >>> with sow.threads(1):
    ...     print(sow.get_num_threads())
    1
    """

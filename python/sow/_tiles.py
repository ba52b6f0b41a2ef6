# SPDX-License-Identifier: Apache-2.0
"""How much of each axis is worked on at a time, for a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from . import _core


@contextlib.contextmanager
def tiles(*shape: int | Sequence[int]) -> Iterator[None]:
    """As set_tile_shape, for this thread inside of the block.

    >>> with sow.tiles(2, 2):
    ...     sow.index_add(np.zeros((4, 4), "f4"), 0, [1, 3], np.ones((2, 4), "f4")).sum()
    np.float32(8.0)
    """
    _core._enter_tiles(shape[0] if len(shape) == 1 else shape)
    try:
        yield
    finally:
        _core._leave_tiles()

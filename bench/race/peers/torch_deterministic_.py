# SPDX-License-Identifier: Apache-2.0
"""PyTorch in its deterministic mode: the same ways, of which it refuses some."""

# mypy: ignore-errors
from __future__ import annotations

import torch

from . import torch_
from .torch_ import set_threads, ways

__all__ = ["set_threads", "start", "ways"]


def start(threads: int) -> str:
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # would be timed as well, and no result needs it
    return torch_.start(threads)

# SPDX-License-Identifier: Apache-2.0
"""sow inside PyTorch: `sow.index_add(x, 0, i, s)` is recorded, compiled, exported and batched by torch.

Nothing here needs to be called for that: the plain names of sow find it when a tensor needs it.
`patched()` and `enable()` put sow under torch's own names, `report()` says what was taken over.
"""

from __future__ import annotations

import torch as _torch

if not hasattr(_torch.library, "register_vmap"):
    raise ImportError(f"sow.torch needs torch 2.5 or newer, not {_torch.__version__}: plain tensors are taken, but "
                      "none that require a gradient; pass detach() of them")

from .. import _frameworks
from ._graph import dispatch as _dispatch
from ._patch import enable, patched, report

__all__ = ["enable", "patched", "register", "report"]


def register() -> None:
    """Registers every operation as torch.ops.sow.*, which else happens when one is first traced: for programs
    that torch.export saved elsewhere.

    >>> sow.torch.register()
    """
    from ._library import define_all

    define_all()

_frameworks.register("torch", _dispatch, _torch.is_grad_enabled)

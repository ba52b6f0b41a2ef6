# SPDX-License-Identifier: Apache-2.0
"""The device the tests of cuda/ run on, and the libraries that have arrays there."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sow

import peers

torch, cupy, jax = peers.torch, peers.cupy, peers.jax
HERE = torch is not None and torch.cuda.is_available() and sow.cuda.available()
DEVICE = "cuda" if HERE else "cpu"
needs_device = pytest.mark.skipif(not HERE, reason=f"there is no CUDA device here: {sow.cuda.status()}")


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    make: Callable[[np.ndarray], Any]
    read: Callable[[Any], np.ndarray]
    pointer: Callable[[Any], int]
    type: type
    in_place: bool = True

    def __repr__(self):
        return self.name


def all_kinds():
    if not HERE:
        return []
    kinds = [
        Kind("torch", lambda a: torch.from_numpy(np.array(a)).cuda(), lambda x: x.cpu().numpy(), lambda x: x.data_ptr(),
             torch.Tensor),
        Kind("sow", lambda a: sow.tensor(a).to("cuda"), lambda x: x.to("cpu").numpy(),
             lambda x: torch.from_dlpack(x).data_ptr(), sow.Tensor),
    ]
    if cupy is not None:
        kinds.append(Kind("cupy", cupy.array, lambda x: x.get(), lambda x: x.data.ptr, cupy.ndarray))
    if jax is not None and any(d.platform == "gpu" for d in jax.devices()):
        gpu = next(d for d in jax.devices() if d.platform == "gpu")
        kinds.append(Kind("jax", lambda a: jax.device_put(np.array(a), gpu), np.asarray,
                          lambda x: x.unsafe_buffer_pointer(), jax.Array, in_place=False))
    return kinds


KINDS = all_kinds()
WRITABLE = [kind for kind in KINDS if kind.in_place]


def on_device(*arrays):
    """NumPy arrays as tensors of torch on the device."""
    return [torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE) for array in arrays]

# SPDX-License-Identifier: Apache-2.0
"""Each kind of array that is here: how to make one from NumPy, how to read it, whether it is written in place."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import sow

import peers


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    make: Callable[[np.ndarray], Any]
    read: Callable[[Any], np.ndarray]
    type: type
    in_place: bool = True
    on_host: bool = True

    def __repr__(self):
        return self.name


def all_kinds():
    kinds = [
        Kind("numpy", np.array, np.asarray, np.ndarray),
        Kind("sow", sow.tensor, lambda x: x.numpy(), sow.Tensor),
    ]
    if peers.torch:
        kinds.append(Kind("torch", lambda a: peers.torch.from_numpy(np.array(a)), lambda x: x.numpy(),
                          peers.torch.Tensor))
    if peers.jax:
        kinds.append(Kind("jax", peers.jax.numpy.array, np.asarray, peers.jax.Array, in_place=False))
    if peers.paddle:
        kinds.append(Kind("paddle", peers.paddle.to_tensor, lambda x: x.numpy(), peers.paddle.Tensor))
    if peers.cupy:
        kinds.append(Kind("cupy", peers.cupy.array, lambda x: x.get(), peers.cupy.ndarray, on_host=False))
    return kinds


KINDS = all_kinds()
ON_HOST = [kind for kind in KINDS if kind.on_host]
ON_DEVICE = [kind for kind in KINDS if not kind.on_host]
WRITABLE = [kind for kind in KINDS if kind.in_place]

# SPDX-License-Identifier: Apache-2.0
"""Unsigned integers and reductions by bits on the device leave the bytes that they leave on the CPU."""

import numpy as np
import pytest

import sow

from gpu_device import DEVICE, needs_device

pytestmark = needs_device
REDUCES = ("add", "mul", "amax", "amin", "mean", "bitwise_and", "bitwise_or", "bitwise_xor")


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize(("items", "places", "width"), [(50, 7, 1), (100_000, 1000, 1), (100_000, 50_000, 1), (20_000, 300, 32)])
def test_reductions(dtype, items, places, width):
    random, limits = np.random.default_rng(items), np.iinfo(dtype)
    shape = (places,) if width == 1 else (places, width)
    x, src = (random.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in (shape, (items, *shape[1:])))
    index = random.integers(0, places, items)
    near = [sow.asarray(a) for a in (x, index, src)]
    far = [tensor.to(DEVICE) for tensor in near]
    for reduce in REDUCES:
        for include_self in (True, False):
            found, expected = (sow.index_reduce(a, 0, i, s, reduce, include_self) for a, i, s in (far, near))
            assert found.to("cpu").numpy().tobytes() == expected.numpy().tobytes(), reduce


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8"])
def test_elementwise(dtype):
    random, limits = np.random.default_rng(1), np.iinfo(dtype)
    near = [sow.asarray(random.integers(0, limits.max, 1000, dtype, endpoint=True)) for _ in range(2)]
    far = [tensor.to(DEVICE) for tensor in near]
    for call in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a % b, lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: ~a,
                 lambda a, b: a.cast("f4"), lambda a, b: a.cast("f2"), lambda a, b: a.cast("i8"), lambda a, b: a > 40_000):
        assert call(*far).to("cpu").numpy().tobytes() == call(*near).numpy().tobytes()

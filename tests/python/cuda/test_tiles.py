# SPDX-License-Identifier: Apache-2.0
"""Tiles bound what a call on the device works on at a time, and change no bit there."""

import numpy as np
import pytest

import sow

from gpu_device import needs_device, on_device

pytestmark = needs_device


def test_tiles_change_no_bit():
    random = np.random.default_rng(3)
    for _ in range(40):
        shape, axis = tuple(int(n) for n in random.integers(1, 40, 3)), int(random.integers(3))
        given = [*shape]
        given[axis] = int(random.integers(0, 200))
        x = random.standard_normal(shape).astype("f4")
        source = (random.standard_normal(given) * 2.0 ** random.integers(-20, 20, given)).astype("f4")
        where, keys = random.integers(-shape[axis], shape[axis], given), random.integers(0, shape[axis], given[axis])
        tile = tuple(int(n) for n in random.integers(1, 30, 3))
        for reduce in ("assign", "add", "mul", "amax", "mean"):
            a, b, c = on_device(x, where, source)
            k, = on_device(keys)
            for _ in range(3):  # a call that comes again is known by its layouts
                whole = sow.put_along_axis(a, b, c, axis, reduce), sow.index_reduce(a, axis, k, c, reduce)
            with sow.tiles(tile):
                cut = sow.put_along_axis(a, b, c, axis, reduce), sow.index_reduce(a, axis, k, c, reduce)
            for one, other in zip(whole, cut):
                assert one.cpu().numpy().tobytes() == other.cpu().numpy().tobytes(), (shape, tile, axis, reduce)
            assert whole[0].cpu().numpy().tobytes() == sow.put_along_axis(x, where, source, axis, reduce).tobytes()
        picked = sow.take_along_axis(a, b, axis)
        with sow.tiles(tile):
            assert (sow.take_along_axis(a, b, axis) == picked).all()


def test_explain_tells_the_tiles_of_the_device():
    x, keys, source = on_device(np.zeros((100, 64), "f4"), np.arange(100), np.ones((100, 64), "f4"))
    with sow.tiles(10, 32):
        said = sow.explain(sow.index_add_, x, 0, keys, source)
        assert "[10, 32] at a time, 20 in all" in said and "workspace" in said
        assert not x.any()
    with sow.tiles(1, 2, 3), pytest.raises(ValueError, match="has 3 axes, the destination"):
        sow.index_add_(x, 0, keys, source)

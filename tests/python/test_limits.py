# SPDX-License-Identifier: Apache-2.0
"""Tiles and memory limits: what they bound, and that they change no bit."""

import threading

import numpy as np
import pytest

import sow

TYPES = ("float32", "float64", "float16", "int32", "complex64", "bool")


def random_calls(random):
    """Calls of many kinds on small arrays, as (function, arguments) with a destination of rank 3."""
    dtype = random.choice(TYPES)
    shape = tuple(int(n) for n in random.integers(1, 9, 3))

    def array(shape):
        out = random.standard_normal(shape) * 2.0 ** random.integers(-12, 12, shape)
        return (out > 0) if dtype == "bool" else out.astype(dtype)

    x, axis = array(shape), int(random.integers(3))
    count = int(random.integers(0, 30))
    reduce = random.choice(["assign", "add", "mul"] if dtype in ("bool", "complex64") else ["assign", "add", "mul", "amax", "amin", "mean"])
    given = list(shape)
    given[axis] = count
    keys = random.integers(-shape[axis], shape[axis], count)
    yield sow.index_reduce, (x, axis, keys, array(given), reduce, bool(random.random() < 0.5))
    where = random.integers(-shape[axis], shape[axis], given)
    yield sow.put_along_axis, (x, where, array(given), axis, reduce)
    yield sow.take_along_axis, (x, where, axis)
    yield sow.index_select, (x, axis, keys)
    spread = np.where(random.random(given) < 0.2, shape[axis], where)
    yield lambda *args: sow.scatter_reduce(*args, bounds="drop"), (x, axis, spread, array(given), "add")
    yield lambda *args: sow.scatter_add(*args, bounds="clip"), (x, axis, spread, array(given))
    yield sow.masked_fill, (x, random.random(shape) < 0.5, 0)
    yield sow.tensor_scatter_nd_add, (x, np.stack([random.integers(0, n, 20) for n in shape], -1), array(20))


def test_tiles_change_no_bit():
    random = np.random.default_rng(1)
    cut = 0
    for _ in range(150):
        for function, arguments in random_calls(random):
            expected = function(*arguments)
            tile = tuple(int(n) for n in random.integers(1, 6, 3))
            with sow.tiles(tile):
                got = function(*arguments)
                cut += "at a time" in sow.explain(function, *arguments)
            assert got.tobytes() == expected.tobytes(), (function, tile)
    assert cut > 300


def test_limits_change_no_bit_and_are_kept():
    random = np.random.default_rng(2)
    x, keys = np.zeros((3000, 8), "f4"), random.integers(0, 3000, 40000)
    source = (random.standard_normal((40000, 8)) * 2.0 ** random.integers(-30, 30, (40000, 8))).astype("f4")
    calls = [(sow.index_add, (x, 0, keys, source)), (sow.index_reduce, (x, 0, keys, source, "mul")),
             (sow.scatter_reduce, (x[:, 0].copy(), 0, keys, source[:, 0].copy(), "mean"))]
    for function, arguments in calls:
        expected = function(*arguments)
        try:
            for limit in (1 << 22, 1 << 18, 1 << 16):
                sow.limit_memory(limit)
                assert function(*arguments).tobytes() == expected.tobytes()
                said = sow.explain(function, *arguments)
                spent = [int(line.split()[1]) for line in said.splitlines() if line.startswith("  workspace")]
                assert spent and max(spent) <= limit, said
        finally:
            sow.limit_memory(None)
    for _ in range(100):
        for function, arguments in random_calls(random):
            expected = function(*arguments)
            sow.limit_memory(64)
            try:
                got = function(*arguments)
            finally:
                sow.limit_memory(0)
            assert got.tobytes() == expected.tobytes()


def test_a_tile_shape_is_told_by_explain_and_ends_with_its_block():
    x, index, source = np.zeros((100, 64), "f4"), np.arange(100), np.ones((100, 64), "f4")
    with sow.tiles(10, 32):
        said = sow.explain(sow.index_add, x, 0, index, source)
        with sow.tiles([50, 64]):
            assert "[50, 64] at a time, 2 in all" in sow.explain(sow.index_add_, x, 0, index, source)
    assert "[10, 32] at a time, 20 in all" in said
    assert "at a time" not in sow.explain(sow.index_add, x, 0, index, source)
    assert not x.any()


def test_a_call_that_comes_again_keeps_to_tiles_and_limits():
    x, index, source = np.zeros((4, 4), "f4"), np.array([1, 2]), np.ones((2, 4), "f4")
    for _ in range(5):
        sow.index_add(x, 0, index, source)
        sow.index_add_(x, 0, index, source)
    for function in (sow.index_add, sow.index_add_):
        with sow.tiles(1, 2, 3), pytest.raises(ValueError, match="has 3 axes, the destination"):
            function(x, 0, index, source)
    with sow.tiles(2, 2):
        for _ in range(3):
            sow.index_add_(x, 0, index, source)
    assert x.tolist() == [[0] * 4, [8] * 4, [8] * 4, [0] * 4]


def test_tiles_belong_to_a_thread_unless_set_for_all():
    seen = []

    def look():
        seen.append(sow._core._tile_shape())

    with sow.tiles(3, 3):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    sow.set_tile_shape(4, 16, 32)
    try:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with pytest.raises(ValueError, match=r"the tile shape \[4, 16, 32\] has 3 axes, the destination \[3\] has 1"):
            sow.index_add(np.zeros(3, "f4"), 0, [1], np.ones(1, "f4"))
    finally:
        sow.set_tile_shape(None)
    assert seen == [(), (4, 16, 32)]


def test_a_bad_key_writes_nothing_in_any_tile():
    x = np.zeros((6, 4), "f4")
    with sow.tiles(2, 2), pytest.raises(IndexError, match=r"index 6 at position \[2\] is out of range for axis 0 of size 6"):
        sow.index_add_(x, 0, [0, 1, 6], np.ones((3, 4), "f4"))
    assert not x.any()


@pytest.mark.parametrize("shape", [(0, 2), (2, -1)])
def test_a_tile_holds_one_element_at_least(shape):
    with pytest.raises(ValueError, match="a tile must hold one element at least"), sow.tiles(shape):
        pass
    with pytest.raises(ValueError, match="a tile must hold one element at least"):
        sow.set_tile_shape(*shape)


def test_a_limit_is_no_negative_number():
    with pytest.raises(ValueError, match="limit_memory: -1 bytes"):
        sow.limit_memory(-1)

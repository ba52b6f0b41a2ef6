# SPDX-License-Identifier: Apache-2.0
"""What arguments may be: lists, integers of every type, bounds without wrapping, types that are only moved, both axes."""

import numpy as np
import pytest

import sow

import peers

torch, ml_dtypes = peers.torch, peers.ml_dtypes


def test_lists_take_the_destinations_type():
    assert sow.index_add(np.zeros(3), 0, [0, 1], [1.0, 0.1]).tolist() == [1.0, 0.1, 0.0]
    assert sow.scatter(np.zeros(2, "i4"), 0, [1], [3]).dtype == np.int32
    assert sow.where(np.array([True, False]), np.array([0.1, 2.0]), [5, 0.3]).tolist() == [0.1, 0.3]
    assert (sow.tensor([0.1], "float64") == [0.1]).tolist() == [True]
    with pytest.raises(TypeError, match="index_add: the scalar 1.5 does not fit int64"):
        sow.index_add(np.zeros(3, "i8"), 0, [0, 1], [1.5, 2.0])
    with pytest.raises(TypeError, match="mask"):
        sow.masked_fill(np.zeros(2), [0, 1], 1.0)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_an_index_may_be_of_any_integer_type(dtype):
    keys = np.array([0, 2, 2], dtype)
    x, rows = np.zeros((3, 2)), np.ones((3, 2))
    assert sow.index_add(x, 0, keys, rows).tolist() == [[1, 1], [0, 0], [2, 2]]
    assert sow.index_select(np.arange(3), 0, keys).tolist() == [0, 2, 2]
    assert sow.put_along_axis(np.zeros(3), keys, 1.0, 0).tolist() == [1, 0, 2]
    assert sow.index_put(np.zeros(3), (keys,), 1.0).tolist() == [1, 0, 1]
    assert sow.gather_nd(np.arange(3), keys[:, None]).tolist() == [0, 2, 2]
    if dtype[0] == "i":
        assert sow.index_select(np.arange(3), 0, np.array([-1], dtype)).tolist() == [2]
    else:
        most = np.array([np.iinfo(dtype).max], dtype)
        with pytest.raises(IndexError, match="out of range"):
            sow.index_select(np.arange(3), 0, most)
        assert sow.index_select(np.arange(1, 4), 0, most, bounds="drop").tolist() == [0]
        assert sow.index_select(np.arange(1, 4), 0, most, bounds="clip").tolist() == [3]


def test_bounds_that_do_not_wrap():
    keys, ones = np.array([-1, 0, 2, 9]), np.ones(4)
    assert sow.index_add(np.zeros(3), 0, keys, ones, bounds="drop").tolist() == [1, 0, 2]
    assert sow.index_add(np.zeros(3), 0, keys, ones, bounds="drop_unwrapped").tolist() == [1, 0, 1]
    assert sow.index_add(np.zeros(3), 0, keys, ones, bounds="clip_unwrapped").tolist() == [2, 0, 2]
    assert sow.gather(np.arange(1, 4), 0, keys[:3], bounds="drop_unwrapped").tolist() == [0, 1, 3]
    x = np.zeros(3)
    for i in range(4):  # also where a call is made again by its recipe
        with pytest.raises(IndexError, match=r"index_add_: index -1 at position \[0\] is negative"):
            sow.index_add_(x, 0, keys[:2], ones[:2], bounds="error_unwrapped")
        assert x.tolist() == [i, 0, 0]
        sow.index_add_(x, 0, keys[1:2], ones[:1], bounds="error_unwrapped")
    held = sow.Index([-1, 0], size=3, bounds="drop_unwrapped")
    assert sow.index_add(np.zeros(3), 0, held, [1.0, 2.0]).tolist() == [2, 0, 0]
    step = sow.jit(lambda a, k, s: sow.index_add(a, 0, k, s, bounds="drop_unwrapped"))
    assert step(np.zeros(3), keys, ones).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="known: error, drop, clip, promise, error_unwrapped"):
        sow.index_add(x, 0, keys, ones, bounds="wrap")


def test_axis_and_dim_are_one():
    x, keys = np.zeros((2, 3)), np.array([[0], [2]])
    a = sow.put_along_axis(x, keys, 1.0, axis=1)
    assert a.tolist() == sow.put_along_axis(x, keys, 1.0, dim=1).tolist()
    assert sow.gather(a, dim=1, index=keys).tolist() == sow.gather(a, axis=1, index=keys).tolist() == [[1], [1]]
    assert sow.tensor(a).sum(dim=1).tolist() == [1.0, 1.0]
    with pytest.raises(TypeError):
        sow.gather(a, axis=1, dim=1, index=keys)


MOVED = [np.arange(5).astype("M8[s]"), np.arange(5).astype("m8[D]")]
if ml_dtypes:
    MOVED += [np.arange(5).astype(t) for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]


@pytest.mark.parametrize("x", MOVED, ids=[str(x.dtype) for x in MOVED])
def test_types_that_are_only_moved(x):
    keys, mask = np.array([4, 0]), np.array([True, False, False, True, False])

    def expect(found, expected):
        assert found.dtype == x.dtype and found.tobytes() == expected.tobytes()

    for _ in range(3):  # the third call of a kind may go by a recipe
        expect(sow.index_select(x, 0, keys), x[keys])
        expect(sow.gather(x, 0, keys), x[keys])
        expect(sow.masked_select(x, mask), x[mask])
        copy = x.copy()
        copy[keys] = x[1:3]
        expect(sow.index_copy(x, 0, keys, x[1:3]), copy)
        expect(sow.scatter(x, 0, keys, x[1:3]), copy)
        expect(sow.put_along_axis(x, keys, x[1:3], 0, "assign"), copy)
        expect(sow.index_put(x, (keys,), x[1:3]), copy)
        cache = x.copy()
        assert sow.index_copy_(cache, 0, keys, x[1:3]) is cache
        expect(cache, copy)
        expect(sow.masked_scatter(x, mask, x[:2].copy()), np.concatenate([x[:1], x[1:3], x[1:2], x[4:]]))
        expect(sow.masked_fill(x, mask, 0), np.where(mask, np.zeros(5, x.dtype), x))
        expect(sow.reshape(x, [5, 1]), x.reshape(5, 1))
    with pytest.raises(TypeError, match=f"{x.dtype.name[:5]}.*does not compute|does not compute"):
        sow.index_reduce(x, 0, keys, x[1:3], "mean")
    with pytest.raises(TypeError, match="it must be"):
        sow.index_copy(x, 0, keys, np.zeros(2, "i1"))
    with pytest.raises(TypeError, match="does not compute"):
        sow.index_add(x, 0, keys, x[1:3])
    with pytest.raises(TypeError, match="give an array of that type"):
        sow.index_fill(x, 0, keys, 3)


@pytest.mark.skipif(torch is None, reason="torch is not here")
def test_a_cache_of_float8_is_written_like_any_other():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        cache = torch.zeros(6, 4, dtype=torch.uint8).view(dtype)
        rows = torch.randn(2, 4).to(dtype)
        assert sow.index_copy_(cache, 0, torch.tensor([4, 1]), rows) is cache
        assert cache[4].view(torch.uint8).equal(rows[0].view(torch.uint8))
        found = sow.index_select(cache, 0, torch.tensor([1]))
        assert found.dtype == dtype and found[0].view(torch.uint8).equal(rows[1].view(torch.uint8))
        with pytest.raises(TypeError, match=str(dtype)[6:]):
            sow.index_reduce(cache, 0, torch.tensor([1]), rows[:1], "mean")
    keys = torch.tensor([1, 1], dtype=torch.uint16)
    assert sow.index_add(torch.zeros(2), 0, keys, torch.ones(2)).tolist() == [0, 2]

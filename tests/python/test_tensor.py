# SPDX-License-Identifier: Apache-2.0
"""sow.Tensor: factories, indexing as NumPy does it, printing, DLPack."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sow

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def test_factories():
    assert sow.zeros([2, 3]).shape == (2, 3) and sow.zeros(4, "int8").dtype == sow.int8
    assert sow.ones([2], bool).tolist() == [True, True]
    assert sow.full([2], 2.5).dtype == sow.float32 and sow.full([2], 7).dtype == sow.int64
    assert sow.full((), 1j).item() == 1j
    assert sow.arange(3).tolist() == [0, 1, 2] and sow.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert sow.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75] and sow.arange(3, 1).tolist() == []
    assert sow.arange(2**60, 2**60 + 2).tolist() == [2**60, 2**60 + 1]
    assert sow.tensor([1, 2], "float16").dtype == np.float16
    assert sow.tensor(np.arange(3), dtype=np.float64).tolist() == [0, 1, 2]
    for call in (lambda: sow.zeros([-1]), lambda: sow.arange(0, 1, 0), lambda: sow.zeros(3, device="moon"),
                 lambda: sow.arange(float("nan"))):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: sow.zeros("ab"), lambda: sow.zeros(2.5), lambda: sow.zeros(3, "float99"),
                 lambda: sow.tensor([0.5], "int32"), lambda: sow.rand(3, "int32")):
        with pytest.raises(TypeError):
            call()


def test_tensor_copies_and_asarray_does_not():
    x = np.zeros(3)
    copied, shared = sow.tensor(x), sow.asarray(x)
    x[0] = 1
    assert copied.tolist() == [0, 0, 0] and shared.tolist() == [1, 0, 0]


def test_random_numbers_depend_on_the_seed_alone():
    sow.seed(5)
    first = [sow.rand([3]).tolist(), sow.randn([3]).tolist()]
    sow.seed(5)
    assert first == [sow.rand([3]).tolist(), sow.randn([3]).tolist()]
    assert sow.rand([4], seed=1).tolist() == sow.rand([4], seed=1).tolist() != sow.rand([4], seed=2).tolist()
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        uniform = np.array(sow.rand([20000], dtype, seed=3).tolist())
        assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    normal = sow.randn([20000], "float64", seed=4).numpy()
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_types(name):
    x = sow.zeros([2], name)
    assert x.dtype == name == np.dtype(name) and x.dtype == getattr(sow, "bool_" if name == "bool" else name)
    assert x.dtype != "float99" and x.dtype is sow.ones([1], name).dtype
    assert x.numpy().dtype == name and x.dtype.itemsize == np.dtype(name).itemsize
    assert hash(x.dtype) == hash(sow.zeros([1], name).dtype) and str(x.dtype) == name


def test_attributes():
    x = sow.zeros([2, 3]).T
    assert (x.shape, x.strides, x.ndim, x.size, x.nbytes, len(x)) == ((3, 2), (1, 3), 2, 6, 24, 3)
    assert not x.is_contiguous() and x.contiguous().is_contiguous() and x.device == "cpu" and not x.read_only
    assert [row.tolist() for row in sow.arange(2)] == [0, 1]
    assert float(sow.tensor([2.5])) == 2.5 and int(sow.tensor(3)) == 3 and bool(sow.tensor([True]))
    assert complex(sow.tensor(2j)) == 2j
    for call in (lambda: sow.zeros([2]).item(), lambda: bool(sow.zeros([2])), lambda: float(sow.zeros([0]))):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: len(sow.tensor(1)), lambda: iter(sow.tensor(1))):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("data", [
    [1, 2, 3], [[1.5, -2.0], [3.25, 1e10]], [True, False], [1 + 2j, -3.5j], [], [[[]]], 7,
    [float("nan"), float("inf"), -0.0]])
def test_prints_as_numpy_does(data):
    x = sow.tensor(data)
    assert str(x) == str(x.numpy())
    body = repr(x.numpy()).removeprefix("array(").rsplit(")", 1)[0].split(", dtype")[0]
    assert "".join(repr(x).split()) == "".join(f"Tensor({body}, dtype={x.dtype})".split())


KEYS = [0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(3, 0, -2), slice(5, 9), None, Ellipsis]


@pytest.mark.parametrize("key", list(itertools.product(KEYS, repeat=2)) + KEYS, ids=str)
def test_basic_indexing_is_numpys(key):
    x = np.arange(24).reshape(2, 3, 4)
    t = sow.tensor(x)
    if isinstance(key, tuple) and key.count(Ellipsis) > 1:
        with pytest.raises(IndexError):
            t[key]
        return
    assert t[key].shape == x[key].shape and t[key].tolist() == x[key].tolist()
    t[key] = -7
    x[key] = -7
    assert t.tolist() == x.tolist()


def test_indexing_gives_views():
    t = sow.zeros([3, 4])
    t[1:, ::2].fill_(1)
    t[0][1] = 5
    assert t.tolist() == [[0, 5, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]


ADVANCED = [
    np.array([1, 0, -1]), np.array([[0, 1], [1, 1]]), np.array(1), [0, 1], (slice(None), np.array([2, 0])),
    (np.array([0, 1]), np.array([2, -1])), (np.array([[0], [1]]), np.array([0, 2])),
    (0, slice(None), np.array([3, 1])), (np.array([0, 1]), slice(None), np.array([3, 1])),
    (Ellipsis, np.array([0, 0])), (np.array([1]), None, 0), np.array([True, False]),
    (slice(None), np.array([True, False, True])), np.arange(24).reshape(2, 3, 4) % 3 == 0,
    (np.array([[True, False, True], [False, True, True]]), slice(1, 3)), np.zeros((2, 3), bool)]


@pytest.mark.parametrize("key", ADVANCED, ids=lambda key: str(key).replace("\n", ""))
@pytest.mark.parametrize("own", [False, True], ids=["numpy keys", "own keys"])
def test_indexing_by_arrays_is_numpys(key, own):
    x = np.arange(24.0).reshape(2, 3, 4)
    t = sow.tensor(x)
    turn = (lambda k: sow.tensor(k) if isinstance(k, np.ndarray) else k) if own else (lambda k: k)
    ours = tuple(map(turn, key)) if isinstance(key, tuple) else turn(key)
    assert t[ours].shape == x[key].shape and t[ours].tolist() == x[key].tolist()
    values = np.arange(x[key].size, dtype="f8").reshape(x[key].shape) + 100
    t[ours] = values
    x[key] = values
    assert t.tolist() == x.tolist()
    t[ours] = -1
    x[key] = -1
    assert t.tolist() == x.tolist()


def test_assigning_broadcasts_and_checks():
    t = sow.zeros([2, 3])
    t[:, [0, 2]] = [5.0, 6.0]
    t[sow.tensor([[False, True, False]] * 2)] = 9
    assert t.tolist() == [[5, 9, 6], [5, 9, 6]]
    for key, error in ((5, IndexError), ((0, 0, 0), IndexError), (np.array([9]), IndexError), ("a", TypeError),
                       (0.5, TypeError), (np.array([True]), IndexError), (np.array([0.5]), TypeError)):
        with pytest.raises(error):
            t[key] = 1
        with pytest.raises(error):
            t[key]
    with pytest.raises(ValueError):
        t[0] = [1.0, 2.0]
    with pytest.raises(TypeError):
        t[0] = np.ones(3, "f8")
    assert t.tolist() == [[5, 9, 6], [5, 9, 6]]


@given(st.lists(st.integers(0, 3), max_size=4), st.sampled_from(NAMES))
def test_lists_and_arrays_round_trip(shape, name):
    x = (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(name)
    t = sow.asarray(x)
    assert t.shape == x.shape and t.tolist() == x.tolist()
    assert np.shares_memory(t.numpy(), x) or x.size == 0
    np.testing.assert_array_equal(np.asarray(t), x)
    np.testing.assert_array_equal(np.from_dlpack(sow.tensor(x)), x)
    assert sow.tensor(x.tolist(), name).tolist() == x.tolist()


def test_dlpack():
    t = sow.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.shares_memory(np.from_dlpack(t.T), t.numpy()) and t.__dlpack_device__() == (1, 0)
    assert "versioned" in repr(t.__dlpack__(max_version=(1, 0))) and "versioned" not in repr(t.__dlpack__())
    constant = np.ones(2)
    constant.flags.writeable = False
    fixed = sow.asarray(constant)
    assert fixed.read_only and not np.from_dlpack(fixed).flags.writeable
    with pytest.raises(BufferError):
        fixed.__dlpack__()
    again = sow.from_dlpack(fixed)
    assert again.tolist() == [1, 1]
    copied = np.from_dlpack(t, copy=True)
    assert not np.shares_memory(copied, t.numpy())
    with pytest.raises(TypeError):
        sow.from_dlpack([1])


def test_array_protocol():
    t = sow.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.asarray(t, dtype="f8").dtype == "f8"
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.add(t, 1).tolist() == [2, 3]


def test_copies():
    t = sow.arange(6.0).reshape([2, 3])
    assert t.clone().tolist() == t.tolist() and t.T.clone().is_contiguous()
    assert t.permute([1, 0]).shape == (3, 2) and t.flip(1)[0].tolist() == [2, 1, 0]
    assert sow.zeros([2, 3]).copy_(np.ones(3, "f4")).tolist() == [[1] * 3] * 2
    assert t.astype("int32").tolist() == [[0, 1, 2], [3, 4, 5]]
    for again in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t.T)).T):
        assert again.tolist() == t.tolist() and not np.shares_memory(again.numpy(), t.numpy())
    assert pickle.loads(pickle.dumps(sow.ones([2], "bfloat16"))).dtype == "bfloat16"


def test_methods_return_themselves_in_place():
    x = sow.zeros([3])
    assert x.scatter_(0, [1], 2.0) is x and x.scatter_add_(0, [1], [1.0]) is x and x.tolist() == [0, 3, 0]
    assert x.masked_scatter(mask=[True, False, False], value=[7.0]).tolist() == [7, 3, 0]
    assert x.masked_scatter_([True, False, False], [7.0]) is x and x.tolist() == [7, 3, 0]
    assert x.put_along_axis([0], 1.0, 0, "assign", True, True, "a name").tolist() == [1, 3, 0]


def test_index():
    index = sow.Index([2, 0, 2], size=3)
    assert (index.size, index.bounds, len(index)) == (3, "error", 3) and "3 keys" in repr(index)
    assert sow.scatter_add(np.zeros(3), 0, index, np.ones(3)).tolist() == [1, 0, 2]
    assert sow.index_select(np.arange(3), 0, index).tolist() == [2, 0, 2]
    assert sow.scatter_add(np.zeros(3), 0, sow.Index([7, 0], 3, bounds="drop"), np.ones(2)).tolist() == [1, 0, 0]
    with pytest.raises(IndexError):
        sow.Index([3], size=3)
    with pytest.raises(ValueError):
        sow.Index([1, 0], size=3, sorted=True)
    with pytest.raises(ValueError):
        sow.Index([1, 1], size=3, unique=True)
    with pytest.raises(TypeError):
        sow.Index([0.5], size=3)
    with pytest.raises(ValueError, match="bounds"):
        sow.scatter_add(np.zeros(3), 0, index, np.ones(3), bounds="drop")
    keys = np.array([0, 1])
    held = sow.Index(keys, size=3)
    keys[:] = 2
    assert sow.scatter_add(np.zeros(3), 0, held, np.ones(2)).tolist() == [1, 1, 0]

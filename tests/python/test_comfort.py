# SPDX-License-Identifier: Apache-2.0
"""What Python's tools expect: pickling, buffers, type codes, arrays of any library, scopes, signatures."""

import array
import copy
import inspect
import io
import pickle

import numpy as np
import pytest

import sow


def test_pickling():
    for function in (sow.index_add, sow.scatter_, sow.group_reduce, sow.zeros, sow.where):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(function, protocol)) is function
        assert copy.deepcopy(function) is function
    for dtype in (sow.float32, sow.bool_, sow.bfloat16):
        assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    for given in ({}, {"bounds": "drop"}, {"sorted": True, "unique": True}):
        index = sow.Index([0, 2], size=3, **given)
        again = pickle.loads(pickle.dumps(index))
        assert (again.size, again.bounds, again.sorted, again.unique) == (3, index.bounds, index.sorted, index.unique)
        assert sow.index_add(np.zeros(3), 0, again, [1.0, 2.0]).tolist() == [1, 0, 2]


def test_type_codes():
    for code, name in [("f2", "float16"), ("f4", "float32"), ("f8", "float64"), ("<f8", "float64"), ("i1", "int8"), ("=i4", "int32"),
                       ("i8", "int64"), ("u1", "uint8"), ("u2", "uint16"), ("u4", "uint32"), ("u8", "uint64"), ("|b1", "bool"), ("?", "bool"), ("c8", "complex64"), ("c16", "complex128")]:
        assert sow.zeros([2], code).dtype == name == np.zeros(2, code).dtype.name
        assert getattr(sow, name if name != "bool" else "bool_") == code
    for code in (">f4", "f3", "u3", "f", "", "x4"):
        with pytest.raises(TypeError, match="none of sow's types"):
            sow.zeros([2], code)


def test_factories_ask_for_gradients():
    for made in (sow.zeros([2], requires_grad=True), sow.ones([2], requires_grad=True), sow.full([2], 1.0, requires_grad=True),
                 sow.tensor([1.0, 2.0], requires_grad=True), sow.arange(2.0, requires_grad=True), sow.rand([2], requires_grad=True),
                 sow.randn([2], requires_grad=True)):
        assert made.requires_grad
        (made * 3).sum().backward()
        assert made.grad.tolist() == [3, 3]
    assert not sow.zeros([2]).requires_grad
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        sow.zeros([2], "int32", requires_grad=True)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_tensors_have_buffers(dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    t = sow.asarray(x)
    for ours, theirs in ((t, x), (t.T, x.T), (t[:, ::2], x[:, ::2]), (t[0, 0, 0], x[0, 0, 0]), (t[:, :0], x[:, :0]), (t.flip(0), x[::-1])):
        found = np.asarray(memoryview(ours))
        assert found.shape == theirs.shape and found.dtype == theirs.dtype and found.tolist() == theirs.tolist()
        assert found.size == 0 or np.shares_memory(found, x)
    view = memoryview(t)
    assert bytes(view) == x.tobytes() and bytes(t) == x.tobytes() and view.contiguous
    del t
    view.cast("B")[0] = 1
    assert x.reshape(-1)[:1].tobytes()[0] == 1


def test_buffers_that_there_are_not():
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(sow.ones([2], "bfloat16"))
    with pytest.raises(BufferError, match="symbolic"):
        memoryview(sow.Program().input("x", [2], "float32"))
    frozen = sow.broadcast_to(sow.ones([1]), [3])
    assert memoryview(frozen).readonly and memoryview(frozen).tolist() == [1, 1, 1]
    for refused in (frozen, sow.ones([2, 3]).T):
        with pytest.raises(TypeError, match="read-write bytes-like object"):
            io.BytesIO(b"0" * 24).readinto(refused)
    into = sow.zeros([3], "uint8")
    assert io.BytesIO(b"abc").readinto(into) == 3 and into.tolist() == [97, 98, 99]


class Array:
    """As pandas, polars and xarray have it."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


class Interface:
    def __init__(self, values):
        self.values = np.asarray(values)
        self.__array_interface__ = self.values.__array_interface__


@pytest.mark.parametrize("kind", [Array, Interface, memoryview, lambda v: array.array("dq"[isinstance(v[0], int)], v)])
def test_sources_are_whatever_numpy_reads(kind):
    given = np.asarray if kind in (Array, Interface, memoryview) else list
    index, rows = kind(given([0, 2])), kind(given([1.0, 2.0]))
    assert sow.index_add(np.zeros(3), 0, index, rows).tolist() == [1, 0, 2]
    assert sow.index_put(np.zeros(3), (index,), rows).tolist() == [1, 0, 2]
    assert sow.bincount(index, weights=rows, size=3).tolist() == [1, 0, 2]
    assert sow.asarray(rows).tolist() == [1, 2]


def test_what_numpy_cannot_read_is_refused():
    with pytest.raises(TypeError, match="index_add: source is"):
        sow.index_add(np.zeros(3), 0, [0], Array(["text"]))
    with pytest.raises(TypeError, match="take np.asarray of it"):
        sow.index_select(Array(np.zeros(2, "M8[s]")), 0, [0])
    for scalar in (np.datetime64("2020-01-01"), np.longdouble(1)):
        with pytest.raises(TypeError, match="masked_fill: x is"):
            sow.masked_fill(scalar, np.array([True, False]), 0)
    with pytest.raises(TypeError, match="cannot be written in place"):
        sow.index_add_(Array([1.0]), 0, [0], [1.0])
    with pytest.raises(TypeError, match=r'astype\("=f8"\)'):
        sow.index_add(np.zeros(3), 0, [0], Array(np.ones(1, ">f8")))


def test_threads_is_a_scope():
    before = sow.get_num_threads()
    with sow.threads(1):
        assert sow.get_num_threads() == 1
    assert sow.get_num_threads() == before


def test_signatures_are_real():
    signature = inspect.signature(sow.index_add)
    assert list(signature.parameters) == ["x", "axis", "index", "source", "alpha", "bounds", "stream", "out"]
    assert signature.parameters["alpha"].default == 1 and signature.parameters["bounds"].kind.name == "KEYWORD_ONLY"
    assert list(inspect.signature(sow.Tensor.index_add).parameters)[:3] == ["self", "axis", "index"]
    assert list(inspect.signature(sow.zeros([2]).index_add).parameters)[:2] == ["axis", "index"]
    for name in sow.__all__:
        function = getattr(sow, name)
        if callable(function) and not isinstance(function, type):
            assert inspect.signature(function) is not None, name

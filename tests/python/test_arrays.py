# SPDX-License-Identifier: Apache-2.0
"""Arrays of every library go in without a copy, come out as their own kind, and are written in place."""

import array
import mmap
import subprocess
import sys

import numpy as np
import pytest

import sow

import peers
from kinds import KINDS, ON_DEVICE, ON_HOST, WRITABLE

INDEX = np.array([[1, 2], [0, 1]])
EXPECTED = np.array([[2, 0, 0, 0, 0], [2, 2, 0, 0, 0], [0, 2, 0, 0, 0]], "f4")
NUMPY_TYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
               "complex128"]
TORCH_TYPES = [*NUMPY_TYPES, "bfloat16"]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_out_of_place_gives_the_destinations_kind(kind):
    x = kind.make(np.zeros((3, 5), "f4"))
    result = sow.scatter(x, 0, kind.make(INDEX), 2.0)
    assert isinstance(result, kind.type)
    np.testing.assert_array_equal(kind.read(result), EXPECTED)
    np.testing.assert_array_equal(kind.read(x), 0)


@pytest.mark.parametrize("kind", WRITABLE, ids=repr)
def test_in_place_writes_the_callers_memory(kind):
    x = kind.make(np.zeros((3, 5), "f4"))
    result = sow.scatter_(x, 0, kind.make(INDEX), 2.0)
    assert result is x
    np.testing.assert_array_equal(kind.read(x), EXPECTED)


@pytest.mark.parametrize("kind", ON_HOST, ids=repr)
def test_kinds_may_be_mixed(kind):
    x = np.zeros((3, 5), "f4")
    sow.scatter_(x, 0, kind.make(INDEX), kind.make(np.full((2, 2), 2, "f4")))
    np.testing.assert_array_equal(x, EXPECTED)
    y = kind.make(np.zeros((3, 5), "f4"))
    assert isinstance(sow.scatter(y, 0, INDEX, np.full((2, 2), 2, "f4")), kind.type)


@pytest.mark.parametrize("kind", ON_DEVICE, ids=repr)
def test_devices_may_not_be_mixed(kind):
    x = np.zeros((3, 5), "f4")
    with pytest.raises(RuntimeError, match="one device"):
        sow.scatter_(x, 0, kind.make(INDEX), 2.0)
    with pytest.raises(RuntimeError, match="one device"):
        sow.scatter(kind.make(x), 0, INDEX, 2.0)
    result = sow.scatter(kind.make(x), 0, INDEX.tolist(), 2.0)  # lists follow the destination
    np.testing.assert_array_equal(kind.read(result), EXPECTED)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("op", ["diagonal", "nonzero", "flatten"])
def test_views_and_gathers_keep_the_kind(kind, op):
    x = np.arange(9, dtype="f4").reshape(3, 3)
    expected = {"diagonal": np.diagonal(x), "nonzero": np.argwhere(x), "flatten": x.ravel()}[op]
    result = getattr(sow, op)(kind.make(x))
    assert isinstance(result, kind.type)
    np.testing.assert_array_equal(kind.read(result), expected)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_empty_and_zero_dimensional(kind):
    empty = sow.masked_select(kind.make(np.arange(3.0)), kind.make(np.zeros(3, bool)))
    assert isinstance(empty, kind.type) and kind.read(empty).shape == (0,)
    scalar = sow.scatter(kind.make(np.array(1.0)), 0, kind.make(np.array(0)), kind.make(np.array(5.0)))
    assert isinstance(scalar, kind.type) and kind.read(scalar).shape == () and float(kind.read(scalar)) == 5


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_every_type_of_numpy_travels(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    assert sow.asarray(x).dtype == dtype
    result = sow.index_copy(x, 1, [2, 0], np.array(x[:, :2]))
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, np.stack([x[:, 1], x[:, 1], x[:, 0]], 1))


@pytest.mark.skipif(peers.torch is None, reason="torch is not here")
@pytest.mark.parametrize("dtype", TORCH_TYPES)
def test_every_type_of_torch_travels(dtype):
    x = peers.torch.arange(4).to(getattr(peers.torch, dtype))
    assert sow.asarray(x).dtype == dtype == sow.asarray(x).dtype.name
    assert sow.asarray(x).dtype == x.dtype
    result = sow.index_select(x, 0, [3, 1])
    assert result.dtype == x.dtype and peers.torch.equal(result, x[[3, 1]])


@pytest.mark.skipif(peers.ml_dtypes is None, reason="ml_dtypes is not here")
def test_bfloat16_of_numpy():
    x = np.ones(3, peers.ml_dtypes.bfloat16)
    result = sow.scatter_add(x, 0, [1] * 1000, np.ones(1000, x.dtype))
    assert result.dtype == x.dtype and result.tolist() == [1, 1001 // 4 * 4, 1]
    assert sow.scatter_add_(x, 0, [0], np.ones(1, x.dtype)) is x and x.tolist() == [2, 1, 1]
    assert sow.tensor([1.0], "bfloat16").numpy().dtype == x.dtype
    assert sow.scatter(x, 0, [0], x.dtype.type(3)).tolist() == [3, 1, 1]


def test_strided_views_write_through():
    base = np.zeros((4, 3), "f4")
    mask = np.array([[True, False, False, True]] * 3)
    sow.masked_scatter_(base.T, mask, np.arange(1, 7, dtype="f4"))
    np.testing.assert_array_equal(base.T, [[1, 0, 0, 2], [3, 0, 0, 4], [5, 0, 0, 6]])
    line = np.zeros(10)
    sow.scatter_(line[::-2], 0, [0, 1], np.array([1.0, 2.0]))
    assert line.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 0, 1]


def test_stride_zero_may_be_read_but_not_written():
    ones = np.broadcast_to(np.float32(1), (1000,))
    assert sow.scatter_add(np.zeros(1, "f4"), 0, np.zeros(1000, "i8"), ones).tolist() == [1000]
    spread = np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (3,), (0,))
    with pytest.raises(ValueError, match="overlap"):
        sow.scatter_(spread, 0, [0], 1.0)


def test_overlapping_input_is_read_first():
    x = np.arange(6.0)
    sow.scatter_(x, 0, np.array([1, 2, 3, 4, 5]), x[:5])
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


def test_memory_map(tmp_path):
    path = tmp_path / "x.bin"
    x = np.memmap(path, "f4", "w+", shape=(4,))
    assert sow.scatter_(x, 0, [2], 7.0) is x
    x.flush()
    assert np.fromfile(path, "f4").tolist() == [0, 0, 7, 0]


def test_unaligned_is_copied_when_read_and_refused_in_place():
    raw = np.frombuffer(bytearray(21), "u1")[1:].view("f4")
    odd = np.zeros(3, [("a", "i1"), ("b", "f8")])["b"]
    odd[:] = [1, 2, 3]
    assert sow.scatter_add(np.zeros(3), 0, [2, 1, 0], odd).tolist() == [3, 2, 1]
    assert sow.index_select(raw, 0, [0]).tolist() == [0]
    for array_ in (raw, odd):
        with pytest.raises(ValueError, match="aligned"):
            sow.scatter_(array_, 0, [0], 1.0)


@pytest.mark.parametrize("make", [
    lambda: np.zeros(3, ">f4"), lambda: np.zeros(3, object), lambda: np.ma.zeros(3), lambda: np.zeros(3, "U4"),
    lambda: np.zeros(3, np.longdouble),
    lambda: np.zeros(3, [("a", "f4")])])
def test_refused_types_of_numpy(make):
    for op in (sow.scatter, sow.scatter_):
        with pytest.raises(TypeError, match="input"):
            op(make(), 0, [0], 1.0)


def test_read_only_is_refused_in_place():
    x = np.zeros(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sow.scatter_(x, 0, [0], 1.0)
    with pytest.raises(ValueError, match="read-only"):
        sow.scatter_(sow.asarray(x), 0, [0], 1.0)
    assert sow.scatter(x, 0, [0], 1.0).tolist() == [1, 0, 0] and x.tolist() == [0, 0, 0]
    assert not sow.diagonal(np.broadcast_to(x, (3, 3))).flags.writeable


def test_buffers():
    x = array.array("d", [0, 0, 0])
    assert sow.scatter_(x, 0, [1], 4.0) is x and x.tolist() == [0, 4, 0]
    assert sow.scatter(bytearray(3), 0, [1], 4).tolist() == [0, 4, 0]
    view = memoryview(x)[::-1]
    sow.scatter_(view, 0, [0], 9.0)
    assert x.tolist() == [0, 4, 9]
    with mmap.mmap(-1, 16) as pages:
        sow.scatter_(pages, 0, [3], 7)
        assert pages[3] == 7
    with pytest.raises(ValueError, match="read-only"):
        sow.scatter_(b"abc", 0, [1], 4)
    assert sow.asarray(array.array("I", [2**32 - 1])).tolist() == [2**32 - 1]
    with pytest.raises(TypeError):
        sow.asarray(array.array("u", "a"))


def test_lists_and_numbers():
    assert sow.asarray([[1, 2], [3, 4]]).dtype == sow.int64
    assert sow.asarray([1, 2.5]).dtype == sow.float32
    assert sow.asarray([True, False]).dtype == "bool"
    assert sow.asarray([1, 2j]).dtype == np.complex64
    assert sow.asarray(3).shape == () and sow.asarray([]).dtype == sow.float32
    assert isinstance(sow.scatter([0.0, 0.0], 0, [1], 5.0), sow.Tensor)
    assert sow.scatter(np.zeros(2), 0, [], 5.0).tolist() == [0, 0]
    assert sow.scatter_add(np.zeros(2), 0, 1, 2.5).tolist() == [0, 2.5]
    with pytest.raises(TypeError, match="in place"):
        sow.scatter_([0.0], 0, [0], 1.0)
    loop = []
    loop.append(loop)
    for bad, error in (([[1], [1, 2]], ValueError), ([1, [2]], ValueError), ([[1], 2], ValueError),
                       (["a"], TypeError), (loop, ValueError), ([1e300], TypeError), ([2**70, 1], ValueError)):
        with pytest.raises(error):
            sow.asarray(bad)


def test_numpy_scalars_take_the_destinations_type():
    assert sow.scatter(np.zeros(2, "f4"), 0, [0], np.float64(0.5)).tolist() == [0.5, 0]
    assert sow.scatter(np.zeros(2, "u1"), 0, [0], np.int64(7)).tolist() == [7, 0]
    with pytest.raises(TypeError):
        sow.scatter(np.zeros(2, "u1"), 0, [0], np.int64(-1))


def test_numpy_scalars_keep_their_type_where_nothing_else_says_one():
    for dtype in NUMPY_TYPES:
        assert sow.tensor(np.dtype(dtype).type(1)).dtype == dtype
    assert sow.asarray([np.float64(1)]).dtype == sow.float32  # a list of floats


def test_numpy_scalars_of_no_type_of_sow_are_refused():
    scalars = [np.longdouble(1), np.datetime64("2026-01-01"), np.str_("1")]
    if peers.ml_dtypes:
        scalars += [peers.ml_dtypes.float8_e4m3fn(1), peers.ml_dtypes.int4(1)]
    for scalar in scalars:
        with pytest.raises(TypeError):
            sow.scatter(np.zeros(2, "f4"), 0, [0], scalar)
        with pytest.raises(TypeError):
            sow.tensor(scalar)


@pytest.mark.skipif(peers.ml_dtypes is None, reason="ml_dtypes is not here")
def test_scalars_of_bfloat16():
    one = peers.ml_dtypes.bfloat16(1.5)
    assert sow.tensor(one).dtype == sow.bfloat16 and sow.tensor(one).item() == 1.5
    assert sow.scatter(np.zeros(2, "f4"), 0, [0], one).tolist() == [1.5, 0]
    with pytest.raises(TypeError):
        sow.scatter(np.zeros(2, "i8"), 0, [0], one)


def test_importing_sow_imports_no_array_library():
    code = "import sys, sow; print([m for m in ('numpy', 'torch', 'jax', 'cupy', 'paddle') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


class Foreign:
    """An array of a library that nobody knows, with capsules as DLPack once had them."""

    def __init__(self, data):
        self.data = data

    def __dlpack__(self, stream=None):
        return self.data.__dlpack__()

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class Newer(Foreign):
    def __dlpack__(self, stream=None, max_version=None):
        return self.data.__dlpack__(max_version=max_version)


def test_anything_with_dlpack():
    x = np.zeros(3)
    assert sow.scatter_(Newer(x), 0, [1], 2.0).data is x and x.tolist() == [0, 2, 0]
    assert isinstance(sow.scatter(Foreign(x), 0, [0], 1.0), sow.Tensor)
    with pytest.raises(ValueError, match="older than version 1.0"):
        sow.scatter_(Foreign(x), 0, [1], 3.0)
    with pytest.raises(ValueError, match="read-only"):
        sow.scatter_(sow.asarray(Foreign(x)), 0, [1], 3.0)
    assert x.tolist() == [0, 2, 0]


def test_memory_outlives_its_makers():
    view = sow.asarray(np.arange(1000.0))[10:]
    back = view.numpy()
    del view
    assert back[0] == 10 and sow.reshape(np.arange(6), [2, 3])[1, 2] == 5

# SPDX-License-Identifier: Apache-2.0
"""Every field of a DLPack array that can lie: refused with a sentence, before anything is read or written."""

import ctypes

import numpy as np
import pytest

import sow

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
CPU, CUDA = 1, 2


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("array", Array)]


class Managed(ctypes.Structure):
    _fields_ = [("array", Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


make_capsule = ctypes.pythonapi.PyCapsule_New
make_capsule.restype = ctypes.py_object
make_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def words(values):
    return values if values is None else (ctypes.c_int64 * len(values))(*values)


class Lender:
    """Lends `memory` as the fields say; counts how often it was given back."""

    def __init__(self, memory=None, *, versioned=True, major=1, flags=0, shape=(4,), strides=(1,), **fields):
        self.memory = np.arange(4, dtype="f4") if memory is None else memory
        self.kept, self.returned = (words(shape), words(strides)), 0
        self.deleter = DELETER(self.count)
        given = {"data": self.memory.ctypes.data, "device_type": CPU, "device_id": 0,
                 "ndim": len(shape) if shape is not None else 1, "code": FLOAT, "bits": 32, "lanes": 1,
                 "byte_offset": 0, **fields}
        array = Array(**given)
        array.shape, array.strides = (ctypes.cast(part, ctypes.POINTER(ctypes.c_int64)) for part in self.kept)
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        if versioned:
            self.managed, self.name = Versioned(major, 0, None, deleter, flags, array), b"dltensor_versioned"
        else:
            self.managed, self.name = Managed(array, None, deleter), b"dltensor"

    def count(self, _):
        self.returned += 1

    def __dlpack__(self, *, max_version=None, stream=None):
        return make_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return (CPU, 0)


HUGE = 2**62
LIES = {
    "stride": (ValueError, "span more than", {"strides": (HUGE,)}),
    "negative stride": (ValueError, "span more than", {"strides": (-(2**63),)}),
    "sum of strides": (ValueError, "span more than", {"shape": (2, 2), "strides": (2**60, 2**60)}),
    "extent": (MemoryError, "bytes", {"shape": (HUGE,)}),
    "product of extents": (MemoryError, "bytes", {"shape": (2**32, 2**32), "strides": None}),
    "negative extent": (ValueError, "negative", {"shape": (-4,)}),
    "null data": (ValueError, "null", {"data": None}),
    "null data, an offset": (ValueError, "null", {"data": None, "byte_offset": 64}),
    "offset": (ValueError, "byte_offset", {"byte_offset": 2**64 - 4}),
    "too many dimensions": (ValueError, "2147483647 dimensions", {"ndim": 2**31 - 1}),
    "a few too many dimensions": (ValueError, "65 dimensions", {"ndim": 65}),
    "negative dimensions": (ValueError, "-1 dimensions", {"ndim": -1}),
    "null shape": (ValueError, "without a shape", {"shape": None}),
    "lanes": (TypeError, "4 lanes", {"lanes": 4}),
    "no lanes": (TypeError, "0 lanes", {"lanes": 0}),
    "code": (TypeError, "code 99", {"code": 99}),
    "handle": (TypeError, "code 3", {"code": 3}),
    "float8": (TypeError, "8 bits", {"bits": 8}),
    "no bits": (TypeError, "0 bits", {"bits": 0}),
    "bits of a bool": (TypeError, "32 bits", {"code": BOOL}),
    "bfloat32": (TypeError, "32 bits", {"code": BFLOAT}),
    "complex32": (TypeError, "32 bits", {"code": COMPLEX}),
    "device": (RuntimeError, "device", {"device_type": 77}),
    "no device": (RuntimeError, "device", {"device_type": 0}),
    "device below 0": (RuntimeError, "device", {"device_type": CUDA, "device_id": -1}),
    "version": (TypeError, "version", {"major": 2}),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("versioned", [True, False], ids=["1.0", "before"])
def test_a_lie_is_refused_with_a_sentence(lie, versioned):
    error, text, fields = LIES[lie]
    if lie == "version" and not versioned:
        return  # it has none
    for call in (sow.asarray, sow.from_dlpack, lambda x: sow.scatter_add(np.zeros(9, "f4"), 0, [1], x),
                 lambda x: sow.index_select(x, 0, [0])):
        lender = Lender(versioned=versioned, **fields)
        with pytest.raises(error, match=text):
            call(lender)
        assert lender.returned == (0 if lie == "version" else 1)


@pytest.mark.parametrize("lie", [name for name in LIES if name != "version"])
def test_a_lie_is_refused_in_place(lie):
    error, text, fields = LIES[lie]
    lender = Lender(**fields)
    with pytest.raises(error, match=text):
        sow.scatter_(lender, 0, [0], 9.0)
    assert lender.returned == 1 and lender.memory.tolist() == [0, 1, 2, 3]


def test_the_truth_is_believed():
    for versioned in (True, False):
        lender = Lender(versioned=versioned)
        t = sow.asarray(lender)
        assert t.tolist() == [0, 1, 2, 3] and lender.returned == 0
        del t
        assert lender.returned == 1
    lender = Lender(byte_offset=4, shape=(2,), strides=(2,))
    assert sow.asarray(lender).tolist() == [1, 3]
    assert sow.scatter_(lender, 0, [1], 9.0) is lender and lender.memory.tolist() == [0, 1, 2, 9]
    assert sow.asarray(Lender(shape=(2, 2), strides=None)).tolist() == [[0, 1], [2, 3]]
    assert sow.asarray(Lender(shape=(), strides=())).tolist() == 0


def test_strides_that_no_element_follows_may_be_anything():
    t = sow.asarray(Lender(shape=(1, 4), strides=(HUGE, 1)))
    assert t.tolist() == [[0, 1, 2, 3]] and sow.index_add(t, 1, [1, 1], sow.ones([1, 2])).tolist() == [[0, 3, 2, 3]]
    assert sow.asarray(Lender(shape=(0, 4), strides=(HUGE, -HUGE))).tolist() == []
    assert sow.asarray(Lender(data=None, byte_offset=64, shape=(0,))).tolist() == []


def test_elements_that_are_not_aligned():
    raw = np.zeros(32, "u1")
    raw[1:17] = np.frombuffer(np.arange(4, dtype="f4").tobytes(), "u1")
    lender = Lender(raw, byte_offset=1)
    assert sow.asarray(lender).tolist() == [0, 1, 2, 3] and lender.returned == 1  # a copy
    assert sow.index_select(Lender(raw, byte_offset=1, shape=(2, 2), strides=(1, 2)), 1, [0, 1]).tolist() == \
        [[0, 2], [1, 3]]
    before = raw.copy()
    with pytest.raises(ValueError, match="aligned"):
        sow.scatter_(lender, 0, [0], 9.0)
    assert (raw == before).all()
    with pytest.raises(ValueError, match="aligned"):
        sow.asarray(Lender(raw, byte_offset=1, device_type=CUDA))
    pairs = Lender(np.zeros(3, "f4"), byte_offset=4, code=COMPLEX, bits=64, shape=(1,))
    assert sow.scatter_(pairs, 0, [0], 1 + 2j) is pairs and pairs.memory.tolist() == [0, 1, 2]


def test_what_may_not_be_written():
    read_only, copied = Lender(flags=1), Lender(flags=2)
    for lender, text in ((read_only, "read-only"), (copied, "copy"), (Lender(versioned=False), "older than version")):
        with pytest.raises(ValueError, match=text):
            sow.scatter_(lender, 0, [0], 9.0)
        assert lender.memory.tolist() == [0, 1, 2, 3]
    for lender in (read_only, Lender(versioned=False)):
        t = sow.asarray(lender)
        with pytest.raises(ValueError, match="read-only"):
            sow.scatter_(t, 0, [0], 9.0)
        with pytest.raises(ValueError, match="read-only"):
            t[0] = 9.0
        assert lender.memory.tolist() == [0, 1, 2, 3]
        assert sow.scatter(t, 0, [0], 9.0).tolist() == [9, 1, 2, 3]


@pytest.mark.parametrize("device", [None, (), (1,), ("cpu", 0), (2**40, 0), (CUDA, 2**40), (1, 2, 3), [1, 0]])
def test_devices_that_make_no_sense_are_not_asked_for_streams(device):
    class Odd(Lender):
        def __dlpack_device__(self):
            return device

    assert sow.asarray(Odd()).tolist() == [0, 1, 2, 3]


def test_a_type_of_numpy_that_only_has_the_name():
    bfloat16 = type("bfloat16", (np.void,), {})
    for size in (1, 2, 4):
        x = np.zeros(4, np.dtype((bfloat16, size)))
        with pytest.raises(TypeError, match="none of sow's types"):
            sow.asarray(x)


def test_classes_that_only_have_the_name():
    for library, name in (("numpy", "ndarray"), ("torch", "Tensor"), ("paddle", "Tensor"), ("cupy", "ndarray")):
        fake = type(name, (), {"__module__": library})
        for call in (lambda x: sow.asarray(x), lambda x: sow.scatter_(x, 0, [0], 1.0),
                     lambda x: sow.scatter(np.zeros(3), 0, [0], x)):
            with pytest.raises(TypeError, match=name):
                call(fake())


def test_strides_of_numpy_that_span_too_much():
    x = np.lib.stride_tricks.as_strided(np.zeros(2), (2, 2), (2**62, 2**62))
    with pytest.raises(ValueError, match="span more than"):
        sow.asarray(x)

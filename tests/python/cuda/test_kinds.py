# SPDX-License-Identifier: Apache-2.0
"""torch, CuPy and JAX arrays on the device: in and out without a copy, on their library's stream."""

import numpy as np
import pytest

import sow

from gpu_device import KINDS, WRITABLE, cupy, jax, needs_device, torch

pytestmark = needs_device


def test_who_is_here():
    """Every library that was found on this machine has arrays on its device."""
    names = [kind.name for kind in KINDS]
    assert names[:2] == ["torch", "sow"]
    print("kinds on the device:", names)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_results_are_of_the_kind_that_came(kind):
    x, index = np.arange(12, dtype="f4").reshape(3, 4), np.array([2, 0, 2])
    source = np.ones((3, 4), "f4")
    result = sow.index_add(kind.make(x), 0, kind.make(index), kind.make(source))
    assert isinstance(result, kind.type)
    assert kind.read(result).tobytes() == sow.index_add(x, 0, index, source).tobytes()
    assert kind.read(sow.masked_select(kind.make(x), kind.make(x > 5))).tolist() == list(range(6, 12))
    assert kind.read(sow.nonzero(kind.make(x))).tolist() == np.argwhere(x).tolist()


@pytest.mark.parametrize("kind", WRITABLE, ids=repr)
def test_in_place_writes_where_the_array_lies(kind):
    x = kind.make(np.zeros(5, "f4"))
    before = kind.pointer(x)
    assert sow.scatter_add_(x, 0, kind.make(np.array([1, 1, 4])), kind.make(np.ones(3, "f4"))) is x
    assert kind.pointer(x) == before and kind.read(x).tolist() == [0, 2, 0, 0, 1]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_arrays_are_viewed_not_copied(kind):
    x = kind.make(np.arange(6.0))
    view = sow.asarray(x)
    assert view.device == "cuda:0" and torch.from_dlpack(view).data_ptr() == kind.pointer(x)


def test_jax_arrays_are_not_written():
    if not any(kind.name == "jax" for kind in KINDS):
        pytest.skip("JAX has no device here")
    with pytest.raises(TypeError, match="immutable"):
        sow.scatter_(jax.numpy.zeros(3), 0, jax.numpy.array([1]), 1.0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                                   "float64", "complex64", "complex128"])
def test_every_type_of_torch(dtype):
    kind = getattr(torch, dtype)
    x = torch.arange(8, device="cuda").to(kind)
    got = sow.index_select(x, 0, torch.tensor([7, 0, 3], device="cuda"))
    assert got.dtype == kind and torch.equal(got, x[[7, 0, 3]])


def slow(tensor):
    """Work that keeps a stream busy for a while, so that whoever does not wait for it is seen."""
    for _ in range(30):
        tensor = tensor @ tensor
        tensor /= tensor.norm()
    return tensor


def test_work_follows_torchs_stream():
    big = torch.rand(2048, 2048, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        index = torch.arange(1 << 20, device="cuda")
        slow(big)
        x += 1
        y = sow.scatter_add(x, 0, index, torch.ones(1 << 20, device="cuda"))
        y *= 2
        z = sow.index_select(y, 0, index)
    stream.synchronize()
    assert z.unique().tolist() == [4]


def test_work_follows_cupys_stream():
    if cupy is None:
        pytest.skip("CuPy is not here")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a = cupy.random.rand(2048, 2048)
        for _ in range(10):
            a = a @ a
            a /= cupy.linalg.norm(a)
        x = cupy.zeros(1 << 20)
        x += 1
        sow.scatter_add_(x, 0, cupy.arange(1 << 20), cupy.ones(1 << 20))
        y = sow.masked_fill(x, x > 5, 0.0)
        y *= 2
    stream.synchronize()
    assert float(y.min()) == 4 and float(y.max()) == 4


def test_jax_waits_for_results():
    if not any(kind.name == "jax" for kind in KINDS):
        pytest.skip("JAX has no device here")
    x = jax.numpy.zeros(1 << 20)
    for _ in range(5):
        x = sow.scatter_add(x + 1, 0, jax.numpy.arange(1 << 20), jax.numpy.ones(1 << 20))
    assert float(x.min()) == 10 and float(x.max()) == 10


def test_a_stream_can_be_chosen():
    stream = torch.cuda.Stream()
    with sow.cuda.stream(stream):
        assert sow.cuda.current_stream() == stream.cuda_stream
        x = sow.zeros([1000], device="cuda")
        x.scatter_add_(0, sow.tensor([5]).to("cuda"), sow.ones([1], device="cuda"))
        y = torch.from_dlpack(x)
        assert y.sum().item() == 1
    assert sow.cuda.current_stream() == 0
    with sow.cuda.stream(stream=stream.cuda_stream):
        assert sow.cuda.current_stream() == stream.cuda_stream
    with sow.cuda.stream(None):
        x = torch.zeros(3, device="cuda")
        torch.cuda.synchronize()
        assert sow.scatter(x, 0, torch.tensor([1], device="cuda"), 2.0).tolist() == [0, 2, 0]


def test_a_call_can_be_given_its_stream():
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    x, index, one = torch.zeros(1 << 20, device="cuda"), torch.arange(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.add_(1)
    # After the addition only if it is on that stream, whatever the current one is.
    sow.scatter_reduce_(x, 0, index, one * 5, "mul", stream=stream)
    sow.scatter_add_(x, 0, index, one, stream=stream.cuda_stream)
    doubled = sow.mul(x, 2.0, stream=stream)
    assert sow.cuda.current_stream() == 0
    stream.synchronize()
    assert x.min().item() == 6 and x.max().item() == 6
    assert doubled.min().item() == 12
    with pytest.raises(IndexError):
        sow.index_select(x, 0, torch.tensor([1 << 20], device="cuda"), stream=stream)
        sow.cuda.synchronize()
    with pytest.raises(TypeError, match="stream"):
        sow.index_select(x, 0, index, stream="fast")


def test_misaligned_views_are_refused_not_fatal():
    memory = torch.zeros(64, dtype=torch.uint8, device="cuda")
    if cupy is None:
        pytest.skip("CuPy is not here")
    odd = cupy.ndarray((3,), cupy.complex64, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.data_ptr(), 64, memory), 4))
    with pytest.raises(RuntimeError, match="address"):
        sow.index_select(odd, 0, cupy.array([1]))
    assert sow.index_select(cupy.arange(3), 0, cupy.array([1])).tolist() == [1]

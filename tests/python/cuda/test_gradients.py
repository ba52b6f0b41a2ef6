# SPDX-License-Identifier: Apache-2.0
"""sow.vjp on the device: against PyTorch's gradients there, and against our own CPU byte for byte."""

import numpy as np
import pytest

import sow

from gpu_device import DEVICE, KINDS, needs_device, torch

pytestmark = needs_device


def numbers(shape, seed, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def both(op, arrays, *, like, **keywords):
    """(gradients on the device, gradients on the CPU) of an operation, weighted by `like`."""
    there = [torch.from_numpy(a).to(DEVICE) if isinstance(a, np.ndarray) else a for a in arrays]
    result, pullback = sow.vjp(op, *there, **keywords)
    expected, here = sow.vjp(op, *arrays, **keywords)
    assert result.cpu().numpy().tobytes() == expected.tobytes()
    weight = numbers(expected.shape, 99, expected.dtype)
    return pullback(torch.from_numpy(weight).to(DEVICE)), here(weight), weight


@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "amax", "amin", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_index_reduce(reduce, include_self, dtype):
    x, source = numbers((40, 6), 1, dtype), numbers((300, 6), 2, dtype)
    index = np.random.default_rng(3).integers(0, 40, 300)
    found, expected, _ = both("index_reduce", [x, 0, index, source, reduce, include_self], like=x)
    for ours, cpu in zip(found, expected):
        assert (ours is None) == (cpu is None)
        assert ours is None or (ours.is_cuda == (DEVICE == "cuda") and ours.cpu().numpy().tobytes() == cpu.tobytes())


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "prod"])
def test_against_torch(reduce):
    x, source = numbers((30, 4), 1, "f8"), numbers((100, 4), 2, "f8")
    index = np.random.default_rng(3).integers(0, 30, (100, 4))
    dx, ds = (torch.from_numpy(a).to(DEVICE).requires_grad_() for a in (x, source))
    di = torch.from_numpy(index).to(DEVICE)
    theirs = dx.scatter_reduce(0, di, ds, reduce)
    ours, pullback = sow.vjp("scatter_reduce", dx.detach(), 0, di, ds.detach(), reduce)
    torch.testing.assert_close(ours, theirs.detach())
    weight = torch.from_numpy(numbers((30, 4), 5, "f8")).to(DEVICE)
    theirs.backward(weight)
    gradients = pullback(weight)
    torch.testing.assert_close(gradients[0], dx.grad)
    torch.testing.assert_close(gradients[3], ds.grad)


def test_masks_and_gathers_against_torch():
    x, value = numbers((20, 8), 1, "f8"), numbers(160, 2, "f8")
    mask = np.random.default_rng(4).random((20, 8)) < 0.4
    dx, dv = (torch.from_numpy(a).to(DEVICE).requires_grad_() for a in (x, value))
    dm = torch.from_numpy(mask).to(DEVICE)
    theirs = dx.masked_scatter(dm, dv)
    ours, pullback = sow.vjp("masked_scatter", dx.detach(), dm, dv.detach())
    weight = torch.ones_like(theirs) * 3
    theirs.backward(weight)
    gradients = pullback(weight)
    assert torch.equal(ours, theirs.detach()) and torch.equal(gradients[0], dx.grad) and torch.equal(gradients[2], dv.grad)
    index = torch.tensor([3, 3, 0, 19], device=DEVICE)
    _, pullback = sow.vjp("index_select", dx.detach(), 0, index)
    gathered = torch.zeros_like(dx).index_add(0, index, torch.ones(4, 8, device=DEVICE, dtype=torch.float64))
    assert torch.equal(pullback(torch.ones(4, 8, device=DEVICE, dtype=torch.float64))[0], gathered)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_gradients_are_of_the_kind_that_came(kind):
    x, source, index = numbers((5,), 1), numbers((9,), 2), np.arange(9) % 5
    result, pullback = sow.vjp("scatter_add", kind.make(x), 0, kind.make(index), kind.make(source))
    gradients = pullback(kind.make(np.arange(5, dtype="f4")))
    assert isinstance(result, kind.type) and isinstance(gradients[0], kind.type) and isinstance(gradients[3], kind.type)
    assert kind.read(gradients[3]).tolist() == (np.arange(9) % 5).tolist()


def test_backward_on_own_tensors():
    w = sow.tensor([1.0, 2.0, 3.0]).to(DEVICE).requires_grad_()
    y = sow.index_add(w * w, 0, sow.tensor([0, 0]).to(DEVICE), sow.tensor([1.0, 1.0]).to(DEVICE))
    sow.sum(y).backward()
    assert w.grad.tolist() == [2, 4, 6]


def test_on_torchs_stream():
    if DEVICE == "cpu":
        return
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        for _ in range(50):
            x += 1
        y, pullback = sow.vjp("index_select", x, 0, torch.arange(1 << 20, device="cuda"))
        gradient = pullback(y)[0]
    stream.synchronize()
    assert gradient.unique().tolist() == [50]

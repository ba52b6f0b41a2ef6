# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU: written where they lie, on their library's stream, errors told later."""

import numpy as np
import pytest

import sow

import peers

torch = peers.torch
pytestmark = pytest.mark.skipif(torch is None or not torch.cuda.is_available() or not sow.cuda.available(),
                                reason="there is no CUDA device here")


def test_torch_on_its_device():
    x = torch.zeros(3, 5, device="cuda")
    index = torch.tensor([[1, 2], [0, 1]], device="cuda")
    result = sow.scatter(x, 0, index, 2.0)
    assert result.is_cuda and result.tolist() == [[2, 0, 0, 0, 0], [2, 2, 0, 0, 0], [0, 2, 0, 0, 0]]
    assert sow.scatter_(x, 0, index, 2.0) is x and torch.equal(x, result)
    assert sow.index_select(x, 0, [0, 0]).device == x.device  # a list follows the destination


def test_the_same_bits_as_on_the_cpu():
    generator = np.random.default_rng(0)
    x, index = generator.standard_normal(100).astype("f4"), generator.integers(0, 100, 5000)
    source = generator.standard_normal(5000).astype("f4")
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        expected = sow.scatter_reduce(x, 0, index, source, reduce)
        device = [torch.from_numpy(a).cuda() for a in (x, index, source)]
        result = sow.scatter_reduce(device[0], 0, device[1], device[2], reduce)
        assert result.cpu().numpy().tobytes() == expected.tobytes()


def test_work_follows_the_stream_of_torch():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        for _ in range(20):
            x += 1
        sow.scatter_(x, 0, torch.arange(1 << 20, device="cuda"), torch.full((1 << 20,), 7.0, device="cuda"))
        x += 1
    stream.synchronize()
    assert x.min().item() == 8 and x.max().item() == 8


def test_own_tensors():
    x = sow.zeros([4], device="cuda")
    x.scatter_add_(0, [1, 1], [2.0, 3.0])
    assert x.device == "cuda:0" and x.tolist() == [0, 5, 0, 0] and x.to("cpu").numpy().tolist() == [0, 5, 0, 0]
    assert "5." in repr(x) and x[1].item() == 5
    with pytest.raises(RuntimeError):
        x.numpy()
    assert torch.from_dlpack(x).is_cuda


def test_a_bad_index_is_told_later_and_writes_nothing():
    sow.cuda.synchronize()
    x = torch.zeros(3, device="cuda")
    sow.scatter_(x, 0, torch.tensor([7], device="cuda"), 1.0)
    with pytest.raises(IndexError, match="7"):
        sow.cuda.check()
    assert x.tolist() == [0, 0, 0]
    sow.cuda.check()


def test_devices_do_not_mix():
    with pytest.raises(RuntimeError):
        sow.scatter_add(torch.zeros(3, device="cuda"), 0, torch.tensor([0]), torch.ones(1, device="cuda"))

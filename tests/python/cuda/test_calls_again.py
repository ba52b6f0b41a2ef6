# SPDX-License-Identifier: Apache-2.0
"""Small calls on arrays of a GPU that are made again take a shorter way, and must not be told from the first."""

import numpy as np
import pytest
import test_again as host

import sow

from gpu_device import needs_device, torch

pytestmark = needs_device

TIMES = host.TIMES


def put(array):
    return torch.from_numpy(np.array(array)).cuda()


def add_problem(items=30):
    return tuple(host.as_kind(part, put) for part in (host.table(50), 0, host.keys(50, items), host.table(items)))


def bits(tensor):
    return tensor.cpu().numpy().tobytes()


def expected_of(x, axis, index, source, **named):
    return sow.index_add(x.cpu(), axis, index.cpu(), source.cpu(), **named).numpy().tobytes()


@pytest.mark.parametrize("name", host.CALLS)
def test_every_time_gives_the_bits_of_the_cpu(name):
    call = getattr(sow, name)
    for _ in range(TIMES):
        arguments, named = host.CALLS[name]()
        ours, theirs = host.as_kind(arguments, sow.tensor), host.as_kind(arguments, put)
        expected, found = call(*ours, **named), call(*theirs, **named)
        assert isinstance(found, torch.Tensor) and found.is_cuda
        assert tuple(found.shape) == expected.shape
        assert bits(found) == host.bytes_of(expected.numpy())
        if name.endswith("_"):
            assert found is theirs[0]
        for before, after in zip(ours, theirs):
            if isinstance(before, sow.Tensor):
                assert bits(after) == host.bytes_of(before.numpy())


def test_a_bad_index_is_told_later_every_time():
    host.again(sow.index_add_, add_problem)
    sow.cuda.check()
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        index[17] = 50
        before = bits(x)
        sow.index_add_(x, axis, index, source)
        with pytest.raises(IndexError, match=r"index_add_: index 50 at position \[17\]"):
            sow.cuda.check()
        assert bits(x) == before
        good = add_problem()
        expected = expected_of(*good)
        assert bits(sow.index_add_(*good)) == expected
        sow.cuda.check()


def test_bounds_are_kept_every_time():
    for bounds in ("drop", "clip", "error", "promise") * TIMES:
        x, axis, index, source = add_problem()
        if bounds in ("drop", "clip"):
            index[3:9] = 70
        expected = expected_of(x, axis, index, source, bounds=bounds)
        assert bits(sow.index_add_(x, axis, index, source, bounds=bounds)) == expected
    sow.cuda.check()


def test_debug_checks_are_seen_every_time():
    host.again(sow.index_add_, add_problem)
    for on in (True, False) * TIMES:
        sow.cuda.set_debug_checks(on)
        try:
            x, axis, index, source = add_problem()
            index[5] = 50
            with pytest.raises(IndexError, match=r"position \[5\]"):
                sow.index_add_(x, axis, index, source)
                assert not on
                sow.cuda.check()
        finally:
            sow.cuda.set_debug_checks(False)


def test_too_few_values_are_told_every_time():
    x, mask, value = torch.zeros(20, device="cuda"), torch.zeros(20, dtype=torch.bool, device="cuda"), put(host.table(5))
    host.again(sow.masked_scatter_, lambda: (x, mask, value))
    mask[:6] = True
    for _ in range(TIMES):
        sow.masked_scatter_(x, mask, value)
        with pytest.raises(ValueError, match="6 true values"):
            sow.cuda.check()
        assert not x.any()


def test_overlapping_arrays_are_read_before_they_are_written():
    def apart():
        return put(host.table(40)), 0, put(host.keys(40, 20)), put(host.table(20))

    host.again(sow.index_copy_, apart)
    for _ in range(TIMES):
        x = put(host.table(40))
        expected = x.clone()
        expected[10:30] = x[:20]
        sow.index_copy_(x, 0, torch.arange(10, 30, device="cuda"), x[:20])
        assert bits(x) == bits(expected)
        sow.index_copy_(*apart())


def test_memory_that_lies_otherwise():
    # Rows of 16 bytes and of what is no multiple of it, from addresses that are and are not.
    for first in (0, 1, 2, 0, 3, 1, 0) * 2:
        arrays = host.table(8, 4), 0, host.keys(8, 6), host.table(6, 4)
        expected = sow.index_add(*host.as_kind(arrays, sow.tensor)).numpy().tobytes()
        x, source = (torch.zeros(array.size + first, device="cuda")[first:].view(array.shape).copy_(put(array))
                     for array in (arrays[0], arrays[3]))
        sow.index_add_(x, 0, put(arrays[2]), source)
        assert bits(x) == expected


def test_torch_is_told_and_asked_every_time():
    host.expect_torch_is_told_and_asked(add_problem, bits)


def test_devices_are_told_apart_every_time():
    host.again(sow.index_add_, add_problem)
    host.again(sow.index_add_, host.add_problem)
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        before = bits(x)
        for mixed in ((x, axis, index.cpu(), source), (x.cpu(), axis, index, source), (x, axis, index, source.cpu())):
            with pytest.raises(RuntimeError, match="one device"):
                sow.index_add_(*mixed)
        on_host = x.cpu(), axis, index.cpu(), source.cpu()
        sow.index_add_(*on_host)
        assert bits(x) == before
        assert bits(sow.index_add_(x, axis, index, source)) == bits(on_host[0])


@pytest.mark.skipif(torch is None or torch.cuda.device_count() < 2, reason="there is one CUDA device")
def test_several_devices():
    for _ in range(TIMES):
        for device in range(torch.cuda.device_count()):
            problem = tuple(part.to(f"cuda:{device}") if hasattr(part, "to") else part for part in add_problem())
            expected = expected_of(*problem)
            found = sow.index_add(*problem)
            assert found.device == problem[0].device and bits(found) == expected


def slow_then(stream, x, number):
    """Gives the stream a long wait, and then a number for every place of x."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(number)


def test_calls_follow_the_stream_of_each_time():
    streams = [torch.cuda.Stream() for _ in range(3)]
    index, ones = torch.arange(50, device="cuda"), torch.ones(50, device="cuda")
    host.again(sow.index_add_, lambda: (torch.zeros(50, device="cuda"), 0, index, ones))
    host.again(sow.index_add, lambda: (torch.zeros(50, device="cuda"), 0, index, ones))
    torch.cuda.synchronize()
    for round_ in range(TIMES):
        stream, x = streams[round_ % 3], torch.zeros(50, device="cuda")
        torch.cuda.synchronize()
        slow_then(stream, x, 10.0 + round_)
        with torch.cuda.stream(stream):
            sow.index_add_(x, 0, index, ones)
            new = sow.index_add(x, 0, index, ones)
        stream.synchronize()
        assert x.unique().tolist() == [11.0 + round_] and new.unique().tolist() == [12.0 + round_]


def test_chosen_streams_are_kept_to():
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    index, ones = torch.arange(50, device="cuda"), torch.ones(50, device="cuda")
    host.again(sow.index_add_, lambda: (torch.zeros(50, device="cuda"), 0, index, ones))
    torch.cuda.synchronize()
    for inside in (True, False) * TIMES:
        x = torch.zeros(50, device="cuda")
        torch.cuda.synchronize()
        slow_then(stream, x, 5.0)
        with torch.cuda.stream(other):  # what torch works on is not asked for
            if inside:
                with sow.cuda.stream(stream):
                    sow.index_add_(x, 0, index, ones)
            else:
                sow.index_add_(x, 0, index, ones, stream=stream)
        stream.synchronize()
        assert x.unique().tolist() == [6.0]


def test_captured_calls_run_when_the_graph_does():
    x, axis, index, source = add_problem()
    host.again(sow.index_add_, add_problem)
    host.again(sow.index_add, add_problem)
    before = x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = sow.index_add(x, axis, index, source)
        sow.index_add_(x, axis, index, source)
    assert bits(x) == bits(before)
    expected = sow.index_add(before, axis, index, source)
    for _ in range(2):
        x.copy_(before)
        graph.replay()
        torch.cuda.synchronize()
        assert bits(x) == bits(expected) == bits(out)


def test_explained_calls_do_not_run():
    host.again(sow.index_add_, add_problem)
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        before = bits(x)
        assert "cuda:0" in sow.explain("index_add_", x, axis, index, source)
        assert bits(x) == before


def test_results_are_new():
    x, axis, index, source = add_problem()
    expected = expected_of(x, axis, index, source)
    results = [sow.index_add(x, axis, index, source) for _ in range(TIMES)]
    assert len({result.data_ptr() for result in results} | {x.data_ptr()}) == TIMES + 1
    assert all(bits(result) == expected for result in results)

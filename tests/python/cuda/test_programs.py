# SPDX-License-Identifier: Apache-2.0
"""Programs and captured graphs on the device."""

import numpy as np
import pytest

import sow

from gpu_device import DEVICE, cupy, needs_device, on_device, torch

pytestmark = needs_device


def arrays(seed=0, n=500, places=40, width=6):
    random = np.random.default_rng(seed)
    return (random.standard_normal((places, width)).astype("f4"), random.integers(0, places, n),
            random.standard_normal((n, width)).astype("f4"))


def chain(x, index, source):
    y = sow.index_add(x, 0, index, source)
    return sow.index_select(sow.scatter_reduce(y, 0, sow.reshape(index, [-1, 1]), source, "amax"), 0, index)


def test_jit_has_the_cpus_bits():
    compiled = sow.jit(chain)
    for seed in range(3):
        host = arrays(seed)
        expected = chain(*host)
        for _ in range(2):
            found = compiled(*on_device(*host))
            assert found.cpu().numpy().tobytes() == expected.tobytes()


def test_a_named_program():
    program = sow.Program()
    x = program.input("x", ["n", 6], "float32", device=DEVICE)
    index = program.input("index", ["m"], "int64", device=DEVICE)
    source = program.input("source", ["m", 6], "float32", device=DEVICE)
    y = sow.index_add(x, 0, index, source)
    program.output("y", y)
    gradient, = program.gradients([sow.sum(y * y)], [source])
    program.output("g", gradient)
    compiled = program.compile()
    host = arrays()
    dx, di, ds = on_device(*host)
    found = compiled.run({"x": dx, "index": di, "source": ds})
    assert found["y"].is_cuda == (DEVICE == "cuda")
    added = sow.index_add(host[0], 0, host[1], host[2])
    assert found["y"].cpu().numpy().tobytes() == added.tobytes()
    assert found["g"].cpu().numpy().tobytes() == (2 * added)[host[1]].tobytes()
    given = torch.zeros_like(dx)
    assert compiled.run({"x": dx, "index": di, "source": ds}, {"y": given})["y"] is given
    assert given.cpu().numpy().tobytes() == added.tobytes()


def test_torch_captures_calls_of_sow():
    host = arrays()
    dx, di, ds = on_device(*host)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        sow.index_add(dx, 0, di, ds)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = sow.index_add(dx, 0, di, ds)
        sow.index_add_(dx, 0, di, ds)
    for _ in range(3):
        expected = sow.index_add(dx.cpu().numpy(), 0, host[1], host[2])
        graph.replay()
        torch.cuda.synchronize()
        assert dx.cpu().numpy().tobytes() == expected.tobytes()
        assert total.cpu().numpy().tobytes() == expected.tobytes()
    sow.cuda.check()


def test_torch_captures_a_compiled_program():
    compiled = sow.jit(chain)
    host = arrays(4)
    given = on_device(*host)
    compiled(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(*given)
    expected = chain(*host)
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        assert result.cpu().numpy().tobytes() == expected.tobytes()


def test_sow_captures_its_own_calls():
    host = arrays(5)
    dx, di, ds = (sow.tensor(a).to("cuda") for a in host)
    kept = []
    graph = sow.cuda.capture(lambda: kept.append(sow.index_add(dx, 0, di, ds)))
    for _ in range(2):
        graph.launch()
        assert kept[0].to("cpu").numpy().tobytes() == sow.index_add(*host[:1], 0, *host[1:]).tobytes()
    with pytest.raises(RuntimeError):
        sow.cuda.capture(lambda: sow.nonzero(dx))
    assert sow.nonzero(sow.tensor([0, 3]).to("cuda")).tolist() == [[1]]


def test_cupy_captures_calls_of_sow():
    if cupy is None:
        pytest.skip("CuPy is not here")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, index, source = cupy.zeros(4), cupy.array([1, 1, 3]), cupy.ones(3)
        sow.scatter_add_(x, 0, index, source)
        stream.synchronize()
        stream.begin_capture()
        sow.scatter_add_(x, 0, index, source)
        graph = stream.end_capture()
        for _ in range(2):
            graph.launch()
        stream.synchronize()
    assert x.tolist() == [0, 6, 0, 3]


def test_a_held_index():
    host = arrays(6)
    dx, di, ds = on_device(*host)
    held = sow.Index(di, size=40)
    for _ in range(2):
        found = sow.index_add(dx, 0, held, ds)
        assert found.cpu().numpy().tobytes() == sow.index_add(host[0], 0, host[1], host[2]).tobytes()


def test_programs_are_planned_once_and_say_how():
    program = sow.Program()
    x = program.input("x", ["n", 6], "float32", device=DEVICE)
    index = program.input("index", ["m"], "int64", device=DEVICE)
    source = program.input("source", ["m", 6], "float32", device=DEVICE)
    program.output("y", sow.index_add(x, 0, index, source))
    compiled = program.compile()
    text = compiled.explain((40, 6), (500,), (500, 6))
    assert "strategy" in text and "on cuda:0" in text
    # Inputs that lie otherwise than the plan assumed have the same bits.
    host = arrays()
    expected = sow.index_add(host[0], 0, host[1], host[2]).tobytes()
    for skipped in (0, 1, 3):
        wide = torch.zeros(3000 + skipped, device="cuda")[skipped:].reshape(500, 6)
        wide.copy_(torch.from_numpy(host[2]))
        feeds = {"x": torch.from_numpy(host[0]).cuda(), "index": torch.from_numpy(host[1]).cuda(), "source": wide}
        found = compiled.run(feeds)["y"]
        assert found.cpu().numpy().tobytes() == expected


def test_explain_on_the_device():
    x, index, source = on_device(*arrays())
    before = x.clone()
    text = sow.explain(sow.index_add_, x, 0, index, source)
    assert "index_add_" in text and "strategy" in text and "on cuda:0" in text and "workspace" in text
    assert torch.equal(x, before)
    assert sow.explain("index_add_", x, 0, index, source) == text
    # Later steps look at what earlier ones wrote.
    mask = x > 0
    assert sow.explain(lambda: sow.masked_select(sow.index_add(x, 0, index, source), mask)).count("strategy") >= 2

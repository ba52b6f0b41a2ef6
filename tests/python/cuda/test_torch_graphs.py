# SPDX-License-Identifier: Apache-2.0
"""sow inside of torch on a GPU: captured graphs, compiled steps, and training that repeats its bits."""

import pathlib
import subprocess
import sys

import pytest

import sow
import sow.torch

from gpu_device import needs_device, torch

pytestmark = needs_device


def problem(rows=64, places=16, columns=8):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(places, columns, generator=generator).cuda()
    s = torch.randn(rows, columns, generator=generator).cuda()
    index = torch.randint(0, places, (rows,), generator=generator).cuda()
    return x, index, s


def step(x, index, s):
    y = sow.index_add(x, 0, index, s)
    y = sow.index_reduce(y, 0, index, s, "amax")
    return sow.scatter_add(y * 2, 0, index[:, None].expand_as(s), s)


def with_gradients(function, x, index, s, weight):
    x, s = x.detach().requires_grad_(), s.detach().requires_grad_()
    y = function(x, index, s)
    return [y.detach(), *torch.autograd.grad(y, (x, s), weight)]


def test_gradients_have_the_bits_of_the_cpu():
    x, index, s = problem()
    weight = torch.randn_like(x)
    found = with_gradients(step, x, index, s, weight)
    expected = with_gradients(step, x.cpu(), index.cpu(), s.cpu(), weight.cpu())
    for a, b in zip(found, expected):
        assert torch.equal(a.cpu(), b)


def test_a_captured_step_runs_forward_and_backward():
    x, index, s = problem()
    weight = torch.randn_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            with_gradients(step, x, index, s, weight)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = with_gradients(step, x, index, s, weight)
    for seed in range(3):
        torch.manual_seed(seed)
        x.normal_()
        s.normal_()
        index.random_(0, x.shape[0])
        graph.replay()
        expected = with_gradients(step, x, index, s, weight)
        torch.cuda.synchronize()
        for a, b in zip(results, expected):
            assert torch.equal(a, b)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_bits_are_eagers(mode):
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    for seed in range(4):
        x, index, s = problem()
        weight = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).cuda()
        torch.compiler.cudagraph_mark_step_begin()
        found = [t.clone() for t in with_gradients(compiled, x, index, s, weight)]
        for a, b in zip(found, with_gradients(step, x, index, s, weight)):
            assert torch.equal(a, b)


def trained(index_add, seed=0):
    """The weights after a few steps in which many rows meet in few places."""
    generator = torch.Generator().manual_seed(seed)
    rows, places, width = 200_000, 32, 16
    nodes = torch.randn(rows, width, generator=generator).cuda()
    index = torch.randint(0, places, (rows,), generator=generator).cuda()
    target = torch.randn(places, width, generator=generator).cuda()
    torch.manual_seed(seed)
    layer = torch.nn.Linear(width, width).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-9)
    for _ in range(5):
        optimizer.zero_grad()
        pooled = index_add(torch.zeros(places, width, device="cuda"), 0, index, layer(nodes))
        ((pooled - target) ** 2).sum().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in layer.parameters()]).cpu()


def test_two_training_runs_are_equal_with_sow_and_differ_with_torch():
    runs = [trained(sow.index_add) for _ in range(5)]
    assert all(torch.equal(runs[0], run) for run in runs)
    theirs = [trained(torch.index_add) for _ in range(20)]
    different = sum(not torch.equal(theirs[0], run) for run in theirs)
    print(f"sow: 5 runs, the same bits; torch: {different} of 19 runs differ from the first")
    assert different > 0
    with sow.torch.patched():
        patched = [trained(torch.index_add) for _ in range(3)]
    assert all(torch.equal(patched[0], run) for run in patched)


def test_under_torchs_own_names():
    x, index, s = problem()
    plain = [torch.index_add(x, 0, index, s), torch.scatter_reduce(x, 0, index[:, None].expand_as(s), s, "amax")]
    before = sow.torch.report()
    with sow.torch.patched():
        ours = [torch.index_add(x, 0, index, s), torch.scatter_reduce(x, 0, index[:, None].expand_as(s), s, "amax")]
    for a, b in zip(plain, ours):
        torch.testing.assert_close(a, b)
    assert sow.torch.report()["aten::index_add"]["sow"] > before.get("aten::index_add", {"sow": 0})["sow"]


def test_compiled_code_under_torchs_own_names():
    torch._dynamo.reset()
    x, index, s = problem()
    with sow.torch.patched(inductor=True):
        run = torch.compile(lambda x, index, s: torch.index_add(x * 2, 0, index, s), fullgraph=True)
        found = run(x, index, s)
    assert torch.equal(found, sow.index_add(x * 2, 0, index, s))
    torch._dynamo.reset()


def test_layers_of_pyg():
    """Unmodified, under patched(): torch's results within rounding, and the same bits every time."""
    nn = pytest.importorskip("torch_geometric", reason="torch_geometric is not here").nn
    torch.manual_seed(0)
    count = 200
    x, edges = torch.randn(count, 8), torch.randint(0, count, (2, 4000))
    degrees = torch.bincount(torch.bincount(edges[1], minlength=count))
    layers = [nn.GCNConv(8, 6), nn.GATConv(8, 6), nn.SAGEConv(8, 6, aggr="max"), nn.GINConv(torch.nn.Linear(8, 6)),
              nn.PNAConv(8, 6, ["mean", "min", "max", "std"], ["identity", "attenuation"], degrees)]
    x, edges = x.cuda(), edges.cuda()
    for layer in layers:
        layer.cuda()

        def gradients(layer=layer):
            y = layer(x, edges)
            return [y.detach(), *torch.autograd.grad((y ** 2).mean(), list(layer.parameters()))]

        plain = gradients()
        before = sum(c["sow"] for c in sow.torch.report().values())
        with sow.torch.patched():
            patched = [gradients() for _ in range(3)]
        assert sum(c["sow"] for c in sow.torch.report().values()) > before, layer
        for again in patched[1:]:
            assert all(torch.equal(a, b) for a, b in zip(patched[0], again)), layer
        for a, b in zip(plain, patched[0]):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_model_of_transformers_that_merges_image_tokens():
    pytest.importorskip("transformers", reason="transformers is not here")
    example = pathlib.Path(__file__).resolve().parents[3] / "examples" / "torch_transformers.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on cuda" in done.stdout


def test_a_bad_index_is_told_later_and_the_context_lives():
    x, index, s = problem()
    index[3] = 99
    y = sow.index_add(x.requires_grad_(), 0, index, s)
    with pytest.raises(IndexError, match="index_add: index 99 at position"):
        sow.cuda.check()
    assert torch.equal(y.detach(), x.detach())

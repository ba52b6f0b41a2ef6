# SPDX-License-Identifier: Apache-2.0
"""sow under torch's own names: same results, torch's errors, exact sums, and an end without traces."""

import threading

import pytest
import torch

import sow
import sow.torch

import peers

INDEX = torch.tensor([2, 0, 2])


def named_reductions(x, s, grid):
    """torch has no gradients for these."""
    return [x.clone().scatter_(0, grid, s, reduce="add"), torch.scatter(x, 0, grid, s, reduce="multiply"),
            torch.scatter(x, 0, grid, 1.5, reduce="multiply"), x.clone().scatter_(0, grid, 1.5, reduce="add")]


def every_name(x, s):
    """Each operation that is taken over, functional and in place."""
    grid = INDEX[:, None].expand(3, 4)
    mask = s > 0
    out = [
        torch.index_add(x, 0, INDEX, s), x.clone().index_add_(0, INDEX, s),
        torch.index_copy(x, 0, INDEX[:2], s[:2]), x.clone().index_copy_(0, INDEX[:2], s[:2]),
        torch.index_fill(x, 0, INDEX, 2.0), x.clone().index_fill_(0, INDEX, torch.tensor(3.0)),
        torch.scatter(x, 0, grid[:2], s[:2]), x.clone().scatter_(0, grid[:2], s[:2]),
        torch.scatter(x, 0, grid, 1.5), x.clone().scatter_(0, grid, 1.5),
        *named_reductions(x.detach(), s.detach(), grid),
        torch.scatter_add(x, 0, grid, s), x.clone().scatter_add_(0, grid, s),
        torch.masked_scatter(x, mask, s), x.clone().masked_scatter_(mask, s),
        torch.index_put(x, (INDEX,), s, accumulate=True), x.clone().index_put_((mask,), s[mask], accumulate=True),
    ]
    for r in ("sum", "prod", "mean", "amax", "amin"):
        out += [torch.scatter_reduce(x, 0, grid, s, r, include_self=False), x.clone().scatter_reduce_(0, grid, s, r)]
    return out


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


def with_gradients(x, s):
    results = every_name(x, s)
    loss = sum((r * torch.arange(12.0).reshape(3, 4)).sum() for r in results)
    return results, torch.autograd.grad(loss, (x, s))


def test_results_and_gradients_are_torchs():
    x, s = inputs()
    plain, gradients = with_gradients(x, s)
    before = sow.torch.report()
    with sow.torch.patched():
        taken, patched_gradients = with_gradients(x, s)
    for a, b in zip([*plain, *gradients], [*taken, *patched_gradients]):
        torch.testing.assert_close(a, b)
    after = sow.torch.report()
    from sow.torch import _patch

    for name in _patch._KERNELS:
        if name == "embedding_dense_backward":
            continue  # test_embeddings
        full = "aten::" + name
        assert after[full]["sow"] > before.get(full, {"sow": 0})["sow"], name


def test_sums_are_exact_and_the_end_is_clean():
    ones = torch.ones(1000, dtype=torch.bfloat16)
    keys = torch.zeros(1000, dtype=torch.int64)
    x = torch.zeros(2, dtype=torch.bfloat16)
    before = x.index_add(0, keys, ones)
    with sow.torch.patched():
        with sow.torch.patched():
            assert x.index_add(0, keys, ones).tolist() == [1000.0, 0.0]
        assert x.index_add(0, keys, ones).tolist() == [1000.0, 0.0]
    assert torch.equal(x.index_add(0, keys, ones), before)


def test_it_ends_when_the_body_raises():
    counts = sow.torch.report()
    with pytest.raises(ZeroDivisionError), sow.torch.patched():
        raise ZeroDivisionError
    torch.zeros(3).index_add(0, INDEX, torch.ones(3))
    assert sow.torch.report() == counts


@pytest.mark.parametrize("call", [
    lambda: torch.zeros(3, 4).index_add(0, torch.tensor([0, 7, 1]), torch.ones(3, 4)),
    lambda: torch.zeros(3, 4).index_add(0, torch.tensor([0, -1, 1]), torch.ones(3, 4)),
    lambda: torch.zeros(3, 4).scatter_add(0, torch.tensor([[0, -1]]), torch.ones(3, 4)),
    lambda: torch.zeros(3, 4).scatter_add(0, torch.tensor([[0, 9]]), torch.ones(3, 4)),
    lambda: torch.zeros(3, 4).index_add(0, INDEX, torch.ones(3, 4, dtype=torch.float64)),
    lambda: torch.zeros(3, 4).masked_scatter_(torch.ones(3, 4, dtype=torch.bool), torch.ones(2)),
    lambda: torch.zeros(1, 4).expand(3, 4).index_add_(0, INDEX, torch.ones(3, 4)),
    lambda: torch.zeros(3, 4).scatter_reduce(0, torch.tensor([[0]]), torch.ones(3, 4), "most"),
])
def test_errors_are_torchs(call):
    with pytest.raises(Exception) as plain:  # noqa: B017
        call()
    with sow.torch.patched(), pytest.raises(type(plain.value)) as patched:
        call()
    assert str(patched.value).split("\n")[0] == str(plain.value).split("\n")[0]


def test_what_sow_does_not_take_is_torchs():
    x, s = torch.randn(3, 4), torch.randn(3, 4)
    with sow.torch.patched():
        left = sow.torch.report().get("aten::index_add", {"torch": 0})["torch"]
        found = torch.index_add(x, 0, INDEX, s, alpha=2)
        assert sow.torch.report()["aten::index_add"]["torch"] == left + 1
    assert torch.equal(found, torch.index_add(x, 0, INDEX, s, alpha=2))


@pytest.mark.parametrize("padding", [None, 1])
def test_embeddings(padding):
    torch.manual_seed(0)
    table = torch.nn.Embedding(10, 4, padding_idx=padding)
    tokens = torch.randint(0, 10, (5, 7))
    weight = torch.randn(5, 7, 4)
    expected, = torch.autograd.grad((table(tokens) * weight).sum(), table.weight)
    with sow.torch.patched():
        found, = torch.autograd.grad((table(tokens) * weight).sum(), table.weight)
    torch.testing.assert_close(found, expected)
    assert padding is None or not found[padding].any()


def test_threads_see_it_too():
    results = []
    with sow.torch.patched():
        thread = threading.Thread(target=lambda: results.append(
            torch.zeros(1, dtype=torch.bfloat16).index_add(0, torch.zeros(1000, dtype=torch.int64),
                                                           torch.ones(1000, dtype=torch.bfloat16))))
        thread.start()
        thread.join()
    assert results[0].tolist() == [1000.0]


def test_compiled_code_is_taken_over():
    keys = torch.zeros(1000, dtype=torch.int64)

    def step(x, s, table):
        y = x.index_add(0, keys, s)
        y = y.scatter_add(0, keys[:, None].expand_as(s), s)
        y = y.scatter_reduce(0, keys[:2, None].expand(2, s.shape[1]), s, "amax")
        return y + torch.nn.functional.embedding(keys[:2], table)

    torch._dynamo.reset()
    x, s = torch.zeros(2, 4, dtype=torch.bfloat16), torch.ones(1000, 4, dtype=torch.bfloat16)
    table = torch.zeros(3, 4, dtype=torch.bfloat16, requires_grad=True)
    with sow.torch.patched(inductor=True):
        compiled = torch.compile(step, fullgraph=True)
        y = compiled(x, s, table)
        y.sum().backward()
    assert y[0].tolist() == [2000.0] * 4
    assert table.grad.tolist() == [[2.0] * 4, [0.0] * 4, [0.0] * 4]
    counts = sow.torch.report()
    for name in ("index_add.default", "scatter_add.default", "scatter_reduce.two", "embedding_dense_backward.default"):
        assert counts["compiled aten." + name]["sow"], name
    torch._dynamo.reset()


def test_a_model_that_merges_image_tokens():
    """The way of multimodal models: embeddings of the image take the places of its tokens."""
    torch.manual_seed(0)

    class Merging(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(32, 16)
            self.vision = torch.nn.Linear(8, 16)
            self.block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = torch.nn.Linear(16, 32)

        def forward(self, tokens, image):
            embedded = self.words(tokens)
            places = (tokens == 31)[..., None].expand_as(embedded)
            embedded = embedded.masked_scatter(places, self.vision(image))
            return self.head(self.block(embedded))

    model = Merging()
    tokens = torch.randint(0, 31, (2, 12))
    tokens[0, 2:5] = tokens[1, 6:8] = 31
    image = torch.randn(5, 8)

    def gradients():
        loss = torch.nn.functional.cross_entropy(model(tokens, image).flatten(0, 1), tokens.flatten())
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    plain = gradients()
    with sow.torch.patched():
        before = sow.torch.report().get("aten::masked_scatter_", {"sow": 0})["sow"]
        patched = gradients()
        assert sow.torch.report()["aten::masked_scatter_"]["sow"] > before
    for a, b in zip(plain, patched):
        torch.testing.assert_close(a, b)


@pytest.mark.skipif(peers.left_out, reason="a sanitizer's runtime, which others were not made for")
def test_layers_of_pyg():
    pyg = pytest.importorskip("torch_geometric", reason="torch_geometric is not here")
    torch.manual_seed(0)
    x = torch.randn(20, 8)
    edges = torch.randint(0, 20, (2, 80))
    nn = pyg.nn
    degrees = torch.bincount(torch.bincount(edges[1], minlength=20))
    layers = [nn.GCNConv(8, 6), nn.GATConv(8, 6), nn.SAGEConv(8, 6, aggr="max"),
              nn.GINConv(torch.nn.Linear(8, 6)),
              nn.PNAConv(8, 6, ["mean", "min", "max", "std"], ["identity", "attenuation"], degrees)]
    for layer in layers:
        def gradients(layer=layer):
            y = layer(x, edges)
            return [y, *torch.autograd.grad((y ** 2).sum(), list(layer.parameters()))]

        plain = gradients()
        before = sum(c["sow"] for c in sow.torch.report().values())
        with sow.torch.patched():
            patched = gradients()
        assert sum(c["sow"] for c in sow.torch.report().values()) > before, layer
        for a, b in zip(plain, patched):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

# SPDX-License-Identifier: Apache-2.0
"""sow.compat.torch_scatter: that package's meaning, on small tables, random data and edge values."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck

from sow.compat import torch_scatter as ts

REDUCTIONS = ["sum", "add", "mul", "mean", "min", "max"]


def grouped(src, index, dim, size, reduce):
    """The plain loop; index is of src's shape."""
    out = torch.ones if reduce == "mul" else torch.zeros
    shape = list(src.shape)
    shape[dim] = size
    out, arg = out(shape, dtype=src.dtype), torch.full(shape, src.size(dim))
    moved, keys, to, places = (t.movedim(dim, -1) for t in (src, index, out, arg))
    for at in itertools.product(*map(range, moved.shape[:-1])):
        for g in range(size):
            chosen = (keys[at] == g).nonzero().flatten()
            if not len(chosen):
                continue
            values = moved[at][chosen]
            if reduce in ("min", "max"):
                best = values.min() if reduce == "min" else values.max()
                places[at][g] = chosen[(values == best).nonzero()[0, 0]]
                to[at][g] = best
            elif reduce == "mean":
                total = values.sum()
                to[at][g] = total / len(chosen) if src.is_floating_point() else total.div(len(chosen), rounding_mode="floor")
            else:
                to[at][g] = values.prod() if reduce == "mul" else values.sum()
    return out, arg


def spread(index, src, dim):
    if index.dim() == 1:
        shape = [1] * src.dim()
        shape[dim] = -1
        return index.reshape(shape).expand(src.shape)
    while index.dim() < src.dim():
        index = index.unsqueeze(-1)
    return index.expand(src.shape)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32])
@pytest.mark.parametrize("shape, dim, index_shape", [((6,), 0, (6,)), ((6, 3), 0, (6,)), ((2, 6), -1, (6,)),
                                                      ((2, 6, 3), 1, (2, 6)), ((2, 6, 3), 1, (2, 6, 3)), ((2, 6), 1, (1, 6))])
def test_scatter(reduce, dtype, shape, dim, index_shape):
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(-9, 9, shape, generator=generator).to(dtype)
    index = torch.randint(0, 4, index_shape, generator=generator)
    expected, arg = grouped(src, spread(index, src, dim % src.dim()), dim % src.dim(), 5, reduce)
    found = ts.scatter(src, index, dim, dim_size=5, reduce=reduce)
    torch.testing.assert_close(found, expected)
    if reduce in ("min", "max"):
        value, place = getattr(ts, f"scatter_{reduce}")(src, index, dim, None, 5)
        assert torch.equal(value, expected) and torch.equal(place, arg)
    assert ts.scatter(src, index, dim, reduce=reduce).shape[dim] == int(index.max()) + 1
    out = torch.full_like(expected, 2)
    result = ts.scatter(src, index, dim, out, reduce=reduce)
    assert result.data_ptr() == out.data_ptr()
    if reduce in ("sum", "add"):
        torch.testing.assert_close(out, expected + 2)
    if reduce == "mul":
        torch.testing.assert_close(out, expected * 2)
    if reduce == "max":
        assert torch.equal(out, torch.where(arg == src.size(dim), 2, expected).clamp(min=2))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients(reduce):
    src = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    index, pointers = torch.tensor([0, 0, 1, 1, 1, 3]), torch.tensor([0, 2, 5, 5, 6])
    assert gradcheck(lambda s: ts.scatter(s, index, 0, None, 5, reduce), src)
    if reduce != "mul":
        assert gradcheck(lambda s: ts.segment_csr(s, pointers, None, reduce), src)
        assert gradcheck(lambda s: ts.segment_coo(s, index, None, None, reduce), src)
    assert gradcheck(lambda s: ts.gather_csr(s[:4], pointers), src)
    assert gradcheck(lambda s: ts.gather_coo(s, index), src)


TABLES = [
    # src, sorted index, pointers, sum, mean, min, argmin, max, argmax: by hand
    ([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, 3], [0, 2, 5, 5, 6],
     [3, 12, 0, 6], [1.5, 4, 0, 6], [1, 3, 0, 6], [0, 2, 6, 5], [2, 5, 0, 6], [1, 4, 6, 5]),
    ([[1, 3, 5], [2, 4, 6]], [[0, 0, 2], [1, 1, 1]], [[0, 2, 2, 3], [0, 0, 3, 3]],
     [[4, 0, 5], [0, 12, 0]], [[2, 0, 5], [0, 4, 0]], [[1, 0, 5], [0, 2, 0]], [[0, 3, 2], [3, 0, 3]],
     [[3, 0, 5], [0, 6, 0]], [[1, 3, 2], [3, 2, 3]]),
]


@pytest.mark.parametrize("table", TABLES, ids=["plain", "batched"])
def test_segments(table):
    src, index, pointers, total, mean, least, least_at, most, most_at = (torch.tensor(t) for t in table)
    src = src.float()
    for name, expected in (("sum", total), ("mean", mean), ("min", least), ("max", most)):
        assert torch.equal(ts.segment_csr(src, pointers, reduce=name), expected.float())
        assert torch.equal(ts.segment_coo(src, index, dim_size=total.size(-1), reduce=name), expected.float())
        out = torch.full_like(expected, -2, dtype=torch.float32)
        ts.segment_csr(src, pointers, out, name)
        assert torch.equal(out, expected.float())
    for name, expected in (("min", least_at), ("max", most_at)):
        assert torch.equal(getattr(ts, f"segment_{name}_csr")(src, pointers)[1], expected)
        assert torch.equal(getattr(ts, f"segment_{name}_coo")(src, index, dim_size=total.size(-1))[1], expected)
    again = ts.gather_csr(total, pointers)
    assert torch.equal(again, ts.gather_coo(total, index))


EDGE = [0.0, 1.0, -1e33, 1e33, float("nan"), float("-inf"), float("inf")]
LISTS = [[0.5, -2.1, 3.2], [], *map(list, itertools.product(EDGE, EDGE))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logsumexp(dtype):
    for values in LISTS:
        src = torch.tensor(values, dtype=dtype)
        index = torch.zeros_like(src, dtype=torch.long)
        expected = torch.logsumexp(src, 0, keepdim=True)
        torch.testing.assert_close(ts.scatter_logsumexp(src, index, dim_size=1), expected, equal_nan=True)
        for first in EDGE:
            out = torch.tensor([first], dtype=dtype)
            expected = torch.logsumexp(torch.cat([out, src]), 0, keepdim=True)
            ts.scatter_logsumexp(src, index, out=out)
            torch.testing.assert_close(out, expected, equal_nan=True)
    with pytest.raises(AssertionError):
        ts.scatter_logsumexp(torch.zeros(3), torch.zeros(3, dtype=torch.long), 0, torch.zeros(1), dim_size=2)


def test_softmax_and_std():
    src = torch.tensor([0.2, 0.0, 0.2, -2.1, 3.2, 7.0, -1.0, float("-inf")]).requires_grad_()
    index = torch.tensor([0, 1, 0, 1, 1, 2, 4, 4])
    soft, logs = ts.scatter_softmax(src, index), ts.scatter_log_softmax(src, index)
    for g in (0, 1, 2, 4):
        torch.testing.assert_close(soft[index == g], torch.softmax(src[index == g], -1))
        torch.testing.assert_close(logs[index == g], torch.log_softmax(src[index == g], -1))
    soft.square().sum().backward()
    assert src.grad.isfinite().all()
    with pytest.raises(ValueError, match="floating point"):
        ts.scatter_softmax(index, index)
    values = torch.tensor([[2.0, 0, 1, 4, 3], [0, 2, 1, 3, 4]])
    for unbiased in (True, False):
        found = ts.scatter_std(values, torch.zeros_like(values, dtype=torch.long), -1, unbiased=unbiased)
        torch.testing.assert_close(found, values.std(-1, unbiased=unbiased, keepdim=True))

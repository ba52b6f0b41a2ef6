# SPDX-License-Identifier: Apache-2.0
"""Drawn calls on the device against PyTorch on the same device, and against our own CPU byte for byte."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import sow

from gpu_device import DEVICE, needs_device, on_device, torch

pytestmark = needs_device
TYPES = ["float16", "float32", "float64", "int32", "int64", "uint8"]
TORCH_REDUCE = {"add": "sum", "mul": "prod", "amax": "amax", "amin": "amin", "mean": "mean"}


def draw_values(random, shape, dtype):
    if dtype.startswith("float"):
        return (random.standard_normal(shape) * 4).astype(dtype)
    return random.integers(0, 7, shape).astype(dtype)


def same_bytes(found, expected):
    found = found.cpu().numpy()
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def close(found, expected, dtype):
    """PyTorch rounds at every step; integers must be equal."""
    if not dtype.startswith("float"):
        assert torch.equal(found, expected)
        return
    bound = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}[dtype]
    torch.testing.assert_close(found.double(), expected.double(), rtol=bound, atol=bound * 50)


@hypothesis.given(seed=st.integers(0, 2**32), rows=st.integers(1, 300), places=st.integers(1, 60),
                  width=st.integers(1, 40), dtype=st.sampled_from(TYPES), reduce=st.sampled_from(sorted(TORCH_REDUCE)),
                  include_self=st.booleans())
def test_scatter_reduce(seed, rows, places, width, dtype, reduce, include_self):
    random = np.random.default_rng(seed)
    x, source = draw_values(random, (places, width), dtype), draw_values(random, (rows, width), dtype)
    index = random.integers(0, places, (rows, width))
    expected = sow.scatter_reduce(x, 0, index, source, reduce, include_self)
    dx, di, ds = on_device(x, index, source)
    same_bytes(sow.scatter_reduce(dx, 0, di, ds, reduce, include_self), expected)
    if reduce != "mean" or dtype.startswith("float"):
        theirs = dx.scatter_reduce(0, di, ds, TORCH_REDUCE[reduce], include_self=include_self)
        if reduce != "mul" or not dtype.startswith("float"):
            close(sow.scatter_reduce(dx, 0, di, ds, reduce, include_self), theirs, dtype)


@hypothesis.given(seed=st.integers(0, 2**32), rows=st.integers(1, 2000), places=st.integers(1, 500),
                  width=st.sampled_from([1, 2, 7, 16, 33, 64]), dtype=st.sampled_from(TYPES))
def test_index_add_and_select(seed, rows, places, width, dtype):
    random = np.random.default_rng(seed)
    x, source = draw_values(random, (places, width), dtype), draw_values(random, (rows, width), dtype)
    index = random.integers(0, places, rows).astype(random.choice(["int32", "int64"]))
    dx, di, ds = on_device(x, index, source)
    found = sow.index_add(dx, 0, di, ds)
    same_bytes(found, sow.index_add(x, 0, index, source))
    close(found, dx.index_add(0, di, ds), dtype)
    assert torch.equal(sow.index_select(dx, 0, di), dx.index_select(0, di))


@hypothesis.given(seed=st.integers(0, 2**32), shape=st.lists(st.integers(1, 40), min_size=1, max_size=3),
                  dtype=st.sampled_from([*TYPES, "bool", "int8", "complex64"]), dense=st.booleans())
def test_masks(seed, shape, dtype, dense):
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, shape).astype(dtype) if dtype in ("bool", "int8") else draw_values(random, shape, "float32").astype(dtype)
    mask = random.random(shape if dense else [*shape[:-1], 1]) < random.random()
    full = np.broadcast_to(mask, x.shape)
    value = np.resize(x.reshape(-1)[::-1], x.size)
    dx, dm, dv = on_device(x, mask, value)
    theirs = dx.masked_scatter(dm, dv)
    assert torch.equal(sow.masked_scatter(dx, dm, dv), theirs)
    assert torch.equal(sow.masked_select(dx, dm), dx.masked_select(dm))
    assert torch.equal(sow.masked_fill(dx, dm, 1), dx.masked_fill(dm, 1))
    assert sow.nonzero(dm).tolist() == np.argwhere(mask).tolist()
    same_bytes(sow.masked_scatter(dx, dm, dv), sow.masked_scatter(x, mask, value))
    assert int(full.sum()) == sow.masked_select(dx, dm).numel()


@hypothesis.given(seed=st.integers(0, 2**32), rows=st.integers(1, 40), columns=st.integers(1, 40))
def test_regular_places(seed, rows, columns):
    random = np.random.default_rng(seed)
    x = draw_values(random, (3, rows, columns), "float32")
    offset = int(random.integers(-rows + 1, columns))
    diagonal = draw_values(random, np.diagonal(x, offset, 1, 2).shape, "float32")
    dx, dd = on_device(x, diagonal)
    assert torch.equal(sow.diagonal_scatter(dx, dd, offset, 1, 2), torch.diagonal_scatter(dx, dd, offset, 1, 2))
    at = int(random.integers(0, rows))
    assert torch.equal(sow.select_scatter(dx, dx[:, 0] * 2, 1, at), torch.select_scatter(dx, dx[:, 0] * 2, 1, at))
    assert torch.equal(sow.slice_scatter(dx, dx[:, at:] + 1, 1, at), torch.slice_scatter(dx, dx[:, at:] + 1, 1, at))


@hypothesis.given(seed=st.integers(0, 2**32), rows=st.integers(2, 60), columns=st.integers(2, 60))
def test_strides_and_put(seed, rows, columns):
    random = np.random.default_rng(seed)
    base = torch.from_numpy(draw_values(random, (columns, rows * 2), "float32")).to(DEVICE)
    x = base[:, ::2].T  # neither dense nor in order
    index = torch.from_numpy(random.integers(0, columns, (rows, 5))).to(DEVICE)
    source = torch.from_numpy(draw_values(random, (5, rows), "float32")).to(DEVICE).T
    found = sow.put_along_axis(x, index, source, 1, "amax")
    assert torch.equal(found, x.scatter_reduce(1, index, source, "amax"))
    assert torch.equal(sow.take_along_axis(x, index, 1), torch.take_along_dim(x, index, 1))
    expected = x.clone()
    expected.index_put_((index[:, 0] % rows,), torch.tensor(3.0, device=DEVICE))
    assert torch.equal(sow.index_put(x, [index[:, 0] % rows], 3.0), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_are_exact_where_torch_stops_counting(dtype):
    ones = torch.ones(1000, device=DEVICE, dtype=getattr(torch, dtype))
    zero = torch.zeros(1, device=DEVICE, dtype=getattr(torch, dtype))
    assert sow.scatter_add(zero, 0, torch.zeros(1000, dtype=torch.int64, device=DEVICE), ones).item() == 1000

# SPDX-License-Identifier: Apache-2.0
"""Reductions by group and by segment, softmax, counts and messages: against plain loops, fractions and the peers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sow

import peers

torch, jax, paddle = peers.torch, peers.jax, peers.paddle
FLOATS = ["f2", "f4", "f8"]
GROUPS = 5


def problem(seed, dtype="f8", count=40, wide=True):
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 3)) * 10.0 ** (random.integers(-3, 4, (count, 3)) if wide else 0)
    keys = random.integers(0, GROUPS, count)
    keys[keys == 3] = 1  # a group without elements
    return (x.astype(dtype) if np.dtype(dtype).kind == "f" else (x * 10).astype(dtype)), keys


def by_group(x, keys, function, empty):
    """One row for each group: function of its column, or `empty`."""
    out = np.empty((GROUPS, x.shape[1]), dtype=np.asarray(empty).dtype)
    for g in range(GROUPS):
        for c in range(x.shape[1]):
            column = x[keys == g, c]
            out[g, c] = function(column) if len(column) else empty
    return out


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes(), (a, b)


def close(a, b, dtype):
    """Within one unit in the last place: libraries' exp and log differ by that."""
    assert a.dtype == np.dtype(dtype)
    np.testing.assert_allclose(a, b, rtol=2 * float(np.finfo(dtype).eps), atol=0)


@pytest.mark.parametrize("dtype", FLOATS + ["i1", "u1", "i4", "i8"])
@pytest.mark.parametrize("seed", range(3))
def test_plain_reductions(dtype, seed):
    x, keys = problem(seed, dtype, wide=dtype == "f8")
    t = x.dtype.type
    info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None

    def exact(column):
        if info is None:
            return t(float(sum(map(Fraction, column.tolist())))) if x.dtype.itemsize > 2 else t(math.fsum(column))
        return t(int(column.astype("i8").sum()) & 0xFFFFFFFFFFFFFFFF if dtype == "u8" else column.sum(dtype=x.dtype))

    if dtype != "f4":  # a double rounding in the oracle
        same(sow.group_reduce(x, keys, "sum", 0, GROUPS), by_group(x, keys, exact, t(0)))
    low, high = (info.min, info.max) if info else (-np.inf, np.inf)
    same(sow.group_reduce(x, keys, "max", 0, GROUPS), by_group(x, keys, np.max, t(low)))
    same(sow.group_reduce(x, keys, "amin", 0, GROUPS), by_group(x, keys, np.min, t(high)))
    same(sow.group_reduce(x, keys, "first", 0, GROUPS), by_group(x, keys, lambda c: c[0], t(0)))
    same(sow.group_reduce(x, keys, "last", 0, GROUPS), by_group(x, keys, lambda c: c[-1], t(0)))
    same(sow.group_reduce(x, keys, "count", 0, GROUPS), by_group(x, keys, len, np.int64(0)))
    same(sow.group_reduce(x > 3, keys, "any", 0, GROUPS), by_group(x > 3, keys, np.any, np.False_))
    same(sow.group_reduce(x, keys, "all", 0, GROUPS), by_group(x, keys, np.all, np.True_))


def places(x, keys, function, last=False):
    out = np.full((GROUPS, x.shape[1]), len(x))
    for g in range(GROUPS):
        rows = np.flatnonzero(keys == g)
        for c in range(x.shape[1]):
            if len(rows):
                column = x[rows, c]
                out[g, c] = rows[len(rows) - 1 - function(column[::-1])] if last else rows[function(column)]
    return out


@pytest.mark.parametrize("seed", range(3))
def test_arguments(seed):
    random = np.random.default_rng(seed)
    x, keys = random.integers(0, 4, (40, 3)).astype("f4"), random.integers(0, 3, 40)
    for name, function in (("argmax", np.argmax), ("argmin", np.argmin)):
        for last in (False, True):
            found = sow.group_reduce(x, keys, name, 0, GROUPS, last_of_ties=last)
            same(found, places(x, keys, function, last))
    x[5] = np.nan
    assert sow.group_reduce(x, np.zeros(40, "i4"), "argmax")[0].tolist() == [5, 5, 5]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("correction", [0, 1, 2])
def test_variance(dtype, correction):
    x, keys = problem(7, dtype, wide=False)
    wide = x.astype("f8")

    def variance(column):
        m = math.fsum(column) / len(column)
        left = max(len(column) - correction, 0)
        with np.errstate(all="ignore"):
            return np.float64(math.fsum((column - m) ** 2)) / np.float64(left)

    expected = by_group(wide, keys, variance, np.float64(np.nan))
    same(sow.group_reduce(x, keys, "var", 0, GROUPS, correction=correction), expected.astype(dtype))
    same(sow.group_reduce(x, keys, "std", 0, GROUPS, correction=correction), np.sqrt(expected).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("each", [False, True], ids=["slices", "elements"])
def test_softmax(dtype, each):
    x, keys = problem(3, dtype, wide=False)
    index = np.ascontiguousarray(np.broadcast_to(keys[:, None], x.shape)) if each else keys
    wide = x.astype("f8")
    most = np.full((GROUPS, 3), -np.inf)
    np.maximum.at(most, keys, wide)
    powers = np.exp(wide - most[keys])
    sums = np.zeros((GROUPS, 3))
    np.add.at(sums, keys, powers)
    close(sow.group_softmax(x, index, 0, GROUPS), powers / sums[keys], dtype)
    with np.errstate(divide="ignore"):
        logs = (wide - most[keys]) - np.log(sums)[keys]
        np.testing.assert_allclose(sow.group_log_softmax(x, index, 0, GROUPS), logs, rtol=2e-3 if dtype == "f2" else 1e-6)
        np.testing.assert_allclose(sow.group_reduce(x, index, "logsumexp", 0, GROUPS), np.log(sums) + np.where(
            np.isinf(most), 0, most), rtol=2e-3 if dtype == "f2" else 1e-6)


def test_groups_along_another_axis_and_their_size():
    x, keys = problem(1)
    expected = sow.group_reduce(x, keys, "sum", 0, GROUPS)
    same(np.ascontiguousarray(sow.group_reduce(x.T, keys, "sum", 1, GROUPS)), np.ascontiguousarray(expected.T))
    same(np.ascontiguousarray(sow.group_reduce(x.T, keys, "sum", dim=-1, size=GROUPS)), np.ascontiguousarray(expected.T))
    same(sow.group_reduce(x, keys, "sum"), expected[: keys.max() + 1])
    same(sow.group_reduce(x, sow.Index(keys, size=GROUPS), "sum"), expected)
    assert sow.group_reduce(x[:0], keys[:0], "sum", 0, 2).tolist() == [[0.0] * 3] * 2
    with pytest.raises(IndexError, match="negative"):
        sow.group_reduce(x, keys - 1, "sum")
    with pytest.raises(IndexError, match="group_softmax: index 9"):
        sow.group_softmax(x, np.full(40, 9), 0, GROUPS)
    with pytest.raises(ValueError, match="one key for each of the 40 slices"):
        sow.group_reduce(x, keys[:3], "sum", 0, GROUPS)
    with pytest.raises(ValueError, match="unknown reduction \"median\".*logsumexp"):
        sow.group_reduce(x, keys, "median", 0, GROUPS)
    with pytest.raises(TypeError, match="take floating types"):
        sow.group_reduce(keys, keys, "var", 0, GROUPS)


def test_what_is_dropped_is_in_no_group():
    x = np.array([1.0, 5.0, 2.0, 7.0])
    keys = np.array([0, 9, 0, -1])
    assert sow.group_reduce(x, keys, "sum", 0, 2, bounds="drop").tolist() == [3.0, 7.0]
    assert sow.group_reduce(x, keys, "sum", 0, 2, bounds="drop_unwrapped").tolist() == [3.0, 0.0]
    soft = sow.group_softmax(x, keys, 0, 2, bounds="drop")
    assert soft[1] == 0 and soft[3] == 1 and soft[0] + soft[2] == 1
    assert sow.group_log_softmax(x, keys, 0, 2, bounds="drop")[1] == 0


def test_infinities_and_nan():
    inf, nan = np.inf, np.nan
    x = np.array([-inf, -inf, inf, 1.0, nan, 2.0])
    keys = np.array([0, 0, 1, 1, 2, 2])
    assert sow.group_reduce(x, keys, "logsumexp", 0, 4)[[0, 1, 3]].tolist() == [-inf, inf, -inf]
    assert math.isnan(sow.group_reduce(x, keys, "logsumexp", 0, 4)[2])
    same(sow.group_softmax(np.array([1e4, 1e4 + 1]), [0, 0]), sow.group_softmax(np.array([0.0, 1.0]), [0, 0]))


@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "mean", "var", "logsumexp", "first", "argmax", "count"])
def test_segments_are_groups(reduce):
    x, _ = problem(5)
    pointers = np.array([2, 2, 10, 30, 30, 37])
    ids = np.full(40, GROUPS)
    for s in range(GROUPS):
        ids[pointers[s]:pointers[s + 1]] = s
    expected = sow.group_reduce(x, ids, reduce, 0, GROUPS, bounds="drop")
    same(sow.segment_reduce(x, pointers, reduce), expected)
    same(sow.segment_reduce(x, pointers.astype("u1"), reduce), expected)
    if reduce == "sum":
        same(sow.gather_csr(expected, pointers)[2:], expected[ids[2:37]])
        full = np.array([0, 3, 9, 40])
        np.testing.assert_allclose(sow.segment_reduce(x, full, "sum"), np.add.reduceat(x, full[:-1]))


def test_running_sums_are_exact():
    x = np.array([1e30, 1.0, -1e30, 1.0, 2.0, 4.0], "f4")
    assert sow.segment_cumsum(x, [0, 4, 6]).tolist() == [np.float32(1e30), np.float32(1e30), 1.0, 2.0, 2.0, 6.0]
    assert sow.segment_cumsum(x, [0, 4, 6], exclusive=True).tolist()[2:] == [np.float32(1e30), 1.0, 0.0, 2.0]
    whole = np.random.default_rng(0).integers(-9, 9, (4, 30))
    same(sow.segment_cumsum(whole, [0, 30], axis=1), np.cumsum(whole, 1))


@pytest.mark.parametrize("pointers", [[0, 5, 3], [0, 7], [-1, 2], [[0, 1]], []])
def test_bad_pointers(pointers):
    with pytest.raises((IndexError, ValueError), match="pointers"):
        sow.segment_reduce(np.ones(6), np.array(pointers, "i8"), "sum")


@pytest.mark.parametrize("seed", range(3))
def test_bincount(seed):
    random = np.random.default_rng(seed)
    index, weights = random.integers(0, 50, 1000), random.normal(size=1000)
    same(sow.bincount(index), np.bincount(index))
    same(sow.bincount(index, size=60), np.bincount(index, minlength=60))
    same(sow.bincount(index.astype("u1")), np.bincount(index))
    expected = np.array([math.fsum(weights[index == i]) for i in range(50)])
    same(sow.bincount(index, weights, 50), expected)
    with pytest.raises(IndexError, match="negative"):
        sow.bincount(index - 1)
    with pytest.raises(IndexError, match="negative"):
        sow.bincount(index - 1, size=50)
    assert sow.bincount(np.array([-1, 0, 7, 1]), size=2, bounds="drop").tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "i8"])
@pytest.mark.parametrize("seed", range(4))
def test_histogram_is_numpys(dtype, seed):
    random = np.random.default_rng(seed)
    x = random.integers(0, 100, 500).astype(dtype) / (np.dtype(dtype).type(7) if dtype[0] == "f" else 1)
    x = x.astype(dtype)
    for keywords in ({}, {"bins": 7}, {"bins": 5, "range": (3, 9)}, {"bins": [0, 1, 5, 5, 9]}):
        counts, edges = sow.histogram(x, **keywords)
        expected, numpys = np.histogram(x, **keywords)
        same(counts, expected)
        same(edges, numpys)
    if dtype == "f8":
        weights = random.normal(size=500)
        found, edges = sow.histogram(x, 5, weights=weights)
        same(found, np.array([math.fsum(weights[(x >= a) & ((x < b) | (b == edges[-1]))])
                              for a, b in zip(edges, edges[1:])]))


@pytest.mark.parametrize("dtype", [sow.float16, sow.bfloat16])
def test_bins_of_narrow_floats_are_those_of_their_values(dtype):
    wide = np.linspace(-3, 3, 50).astype("f4")
    narrow = sow.asarray(wide).astype(dtype)
    edges = np.array([-2.0, -0.5, 0.0, 1.25])
    found = sow.bin_index(narrow, edges)
    assert np.array_equal(np.asarray(found), np.asarray(sow.bin_index(narrow.astype(sow.float32), edges)))


def test_histogramdd_is_numpys():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    for keywords in ({}, {"bins": (3, 4, 5)}, {"bins": 4, "range": [(-1, 1), None, (0, 2)]}):
        counts, edges = sow.histogramdd(x, **keywords)
        expected, numpys = np.histogramdd(x, **keywords)
        same(counts, expected.astype("i8"))
        for a, b in zip(edges, numpys):
            same(a, b)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "i1"])
def test_unique_is_numpys(dtype):
    keys = np.random.default_rng(0).integers(0, 30, 200).astype(dtype)
    for found, expected in zip(sow.unique(keys, True, True), np.unique(keys, return_inverse=True, return_counts=True)):
        same(found, expected)
    rows = keys.reshape(-1, 2)
    found, inverse, counts = sow.unique(rows, True, True)
    expected = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    same(found, expected[0])
    same(inverse, expected[1].reshape(-1))
    same(counts, expected[2])
    total = sow.group_reduce(np.ones(200), sow.unique(keys, return_inverse=True)[1], "sum")
    same(total, np.unique(keys, return_counts=True)[1].astype("f8"))


def test_what_is_only_read_may_be_read_only():
    keys, x, ends = np.array([0, 2, 2]), np.arange(3.0), np.array([0.0, 1.0, 2.0])
    for array in (keys, x, ends):
        array.flags.writeable = False
    assert sow.bincount(keys).tolist() == [1, 0, 2] and sow.bincount(keys, x, 3).tolist() == [0, 0, 3]
    assert sow.bin_index(x, ends).tolist() == [0, 1, 1]
    assert sow.group_reduce(x, keys, "sum").tolist() == [0, 0, 3]
    assert sow.segment_reduce(x, keys, "sum").tolist() == [1, 0] and sow.segment_cumsum(x, keys).tolist() == [0, 1, 0]
    assert sow.gather_csr(x[:2], keys).tolist() == [0, 0] and sow.unique(keys).tolist() == [0, 2]
    assert sow.index_add(np.zeros(3), 0, keys, x, bounds="error_unwrapped").tolist() == [0, 0, 3]


def edges(seed):
    random = np.random.default_rng(seed)
    return (random.normal(size=(6, 3)), random.normal(size=(20, 3)), random.integers(0, 6, 20),
            random.integers(0, 5, 20))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_messages_are_gathers_and_scatters(reduce):
    x, y, source, goal = edges(1)
    zeros = np.zeros((6, 3))
    same(sow.send_u_recv(x, source, goal, reduce), sow.index_reduce(zeros, 0, goal, x[source], reduce, False))
    for name, message in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        same(sow.send_ue_recv(x, y, source, goal, name, reduce, 7),
             sow.index_reduce(np.zeros((7, 3)), 0, goal, message(x[source], y), reduce, False))
        same(sow.send_ue_recv(x, y[:, :1], source, goal, name, reduce),
             sow.index_reduce(zeros, 0, goal, message(x[source], y[:, :1]), reduce, False))
        same(sow.send_uv(x, y[:6], source, goal, name), message(x[source], y[:6][goal]))
    assert sow.send_u_recv(x, source, goal + 100, reduce, bounds="drop").tolist() == zeros.tolist()


@pytest.mark.skipif(paddle is None, reason="paddle is not here")
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_messages_are_paddles(reduce):
    x, y, source, goal = edges(2)
    tensors = [paddle.to_tensor(a) for a in (x, y, source, goal)]
    np.testing.assert_allclose(sow.send_u_recv(x, source, goal, reduce),
                               paddle.geometric.send_u_recv(tensors[0], *tensors[2:], reduce).numpy())
    for message in ("add", "sub", "mul", "div"):
        np.testing.assert_allclose(sow.send_ue_recv(x, y, source, goal, message, reduce),
                                   paddle.geometric.send_ue_recv(*tensors, message, reduce).numpy())
        np.testing.assert_allclose(sow.send_uv(x, x, source, goal, message),
                                   paddle.geometric.send_uv(tensors[0], tensors[0], *tensors[2:], message).numpy())


@pytest.mark.skipif(jax is None, reason="jax is not here")
def test_groups_are_jaxs_segments():
    x, keys = problem(2, "f4", wide=False)
    for ours, theirs in (("sum", "segment_sum"), ("prod", "segment_prod"), ("max", "segment_max"), ("min", "segment_min")):
        np.testing.assert_allclose(sow.group_reduce(x, keys, ours, 0, GROUPS),
                                   getattr(jax.ops, theirs)(x, keys, GROUPS), rtol=1e-5)
    ours = jax.jit(lambda a: sow.group_softmax(a, keys, 0, GROUPS))(jax.numpy.asarray(x))
    same(np.asarray(ours), sow.group_softmax(x, keys, 0, GROUPS))
    gradient = jax.grad(lambda a: (sow.group_reduce(a, keys, "std", 0, 2, bounds="drop") ** 2).sum())
    assert np.isfinite(np.asarray(gradient(jax.numpy.asarray(x)))).all()


@pytest.mark.skipif(torch is None, reason="torch is not here")
def test_groups_are_torchs():
    x, keys = problem(4, wide=False)
    geometric = pytest.importorskip("torch_geometric.utils")
    mine = torch.from_numpy(x).requires_grad_()
    soft = sow.group_softmax(mine, torch.from_numpy(keys), 0, GROUPS)
    own = torch.from_numpy(x).requires_grad_()
    theirs = geometric.softmax(own, torch.from_numpy(keys), num_nodes=GROUPS)
    torch.testing.assert_close(soft, theirs)
    soft.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(mine.grad, own.grad)
    lengths = torch.tensor([3, 0, 37])
    torch.testing.assert_close(sow.segment_reduce(torch.from_numpy(x), torch.tensor([0, 3, 3, 40]), "mean"),
                               torch.segment_reduce(torch.from_numpy(x), "mean", lengths=lengths), equal_nan=True)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "var", "std", "logsumexp", "first", "argmax", "all"])
def test_programs_have_eagers_bits(reduce):
    x, keys = problem(6, "f4", wide=False)
    for dynamic in (False, True):
        step = sow.jit(lambda a, k: sow.group_reduce(a, k, reduce, 0, GROUPS), dynamic=dynamic)
        same(step(x, keys), sow.group_reduce(x, keys, reduce, 0, GROUPS))
        same(step(x[:9], keys[:9]), sow.group_reduce(x[:9], keys[:9], reduce, 0, GROUPS))
    with pytest.raises(ValueError, match="size must be given"):
        sow.jit(lambda a, k: sow.group_reduce(a, k, reduce))(x, keys)


def test_exponentials_and_logarithms():
    import decimal

    context = decimal.Context(prec=60)
    values = np.concatenate([np.random.default_rng(0).normal(size=200) * 50, [0.0, -0.0, 709.0, -745.0, 1e-300, 1.0]])
    for value, found in zip(values, sow.exp(values)):
        assert found == float(context.exp(decimal.Decimal(float(value)))), value
    positive = np.abs(values[values != 0])
    for value, found in zip(positive, sow.log(positive)):
        assert found == float(context.ln(decimal.Decimal(float(value)))), value
    with np.errstate(all="ignore"):
        special = np.array([np.inf, -np.inf, np.nan, 0.0, -1.0])
        np.testing.assert_array_equal(sow.exp(special), np.exp(special))
        np.testing.assert_array_equal(sow.log(special), np.log(special))
        np.testing.assert_array_equal(sow.sqrt(np.abs(values)), np.sqrt(np.abs(values)))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("message", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_many_messages_are_made_a_few_columns_at_a_time(message, reduce, wide):
    random = np.random.default_rng(4)
    nodes, edges, columns = 300, 70_000, 67  # more than 16 MiB of them
    x = random.standard_normal((nodes, columns)).astype("f4")
    y = random.standard_normal((edges, columns if wide else 1)).astype("f4")
    src, dst = random.integers(0, nodes, (2, edges))
    combine = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[message]
    name = {"sum": "add", "mean": "mean", "max": "amax"}[reduce]
    expected = sow.index_reduce(np.zeros_like(x), 0, dst, combine(x[src], y), name, include_self=False)
    found = sow.send_ue_recv(x, y, src, dst, message, reduce)
    assert found.tobytes() == expected.tobytes()
    a, b = sow.tensor(x, requires_grad=True), sow.tensor(y, requires_grad=True)
    weight = random.integers(-3, 4, x.shape).astype("f4")
    (sow.send_ue_recv(a, b, src, dst, message, reduce) * sow.tensor(weight)).sum().backward()
    c, d = sow.tensor(x, requires_grad=True), sow.tensor(y, requires_grad=True)
    sent = {"add": sow.add, "sub": sow.sub, "mul": sow.mul, "div": sow.div}[message](sow.index_select(c, 0, src), d)
    (sow.index_reduce(sow.zeros(x.shape), 0, dst, sent, name, include_self=False) * sow.tensor(weight)).sum().backward()
    assert np.allclose(a.grad.numpy(), c.grad.numpy(), 1e-5, 1e-5) and np.allclose(b.grad.numpy(), d.grad.numpy(), 1e-5, 1e-5)

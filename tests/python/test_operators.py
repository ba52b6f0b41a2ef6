# SPDX-License-Identifier: Apache-2.0
"""Operators and peers' names on tensors, and what a tensor says of itself, against NumPy."""

import operator

import numpy as np
import pytest

import sow

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
WHOLE = DTYPES[:6]


def values(dtype, shape=(4, 5), seed=0):
    draw = np.random.default_rng(seed)
    if dtype == "bool":
        return draw.random(shape) < 0.5
    if dtype.startswith("float"):
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 7.0], dtype)
        return draw.choice(special, shape)
    info = np.iinfo(dtype)
    return draw.choice(np.array([info.min, info.max, 0, 1, 3, 7, info.max - 1], dtype), shape)


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])


@pytest.mark.parametrize("dtype", DTYPES)
def test_equality_is_elementwise(dtype):
    a, b = values(dtype), values(dtype, seed=1)
    x = sow.tensor(a)
    same(x == b, a == b)
    same(x != b, a != b)
    same(x == sow.tensor(b), a == b)
    same(b == x, b == a)
    same(x == a.tolist(), a == a)
    same(x == 1, a == np.array(1, dtype))
    with pytest.raises(ValueError, match="broadcast"):
        x == values(dtype, (3, 3))  # noqa: B015


def test_equality_with_what_is_no_array():
    x = sow.arange(3)
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False


def test_hash_is_by_identity_and_truth_needs_one_element():
    x, y = sow.arange(3), sow.arange(3)
    assert {x: 1, y: 2}[y] == 2
    assert hash(x) == hash(x)
    with pytest.raises(ValueError, match="no single element"):
        bool(x == y)
    assert bool(sow.tensor([3]) == 3) and not bool(sow.tensor(2.0) == 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_rests_and_signs(dtype):
    a, b = values(dtype), values(dtype, seed=1)
    x, y = sow.tensor(a), sow.tensor(b)
    with np.errstate(all="ignore"):
        same(abs(x), np.abs(a))
        same(sow.abs(a), np.abs(a))
        if dtype in WHOLE:
            for op in (operator.and_, operator.or_, operator.xor):
                same(op(x, y), op(a, b))
                same(op(x, b), op(a, b))
            same(~x, ~a)
            same(x & 1, a & np.array(1, dtype))
            same(1 | x, a | np.array(1, dtype))
            same(sow.bitwise_xor(a, b), a ^ b)
            same(sow.bitwise_not(a), ~a)
        else:
            with pytest.raises(TypeError, match="bitwise"):
                x & y
        if dtype == "bool":
            with pytest.raises(TypeError, match="remainder"):
                x % y
            return
        same(x % y, np.remainder(a, b))
        same(sow.remainder(a, b), np.remainder(a, b))
        same(x % 3, np.remainder(a, np.array(3, dtype)))
        same(7 % x, np.remainder(np.array(7, dtype), a))


def test_gradients_of_abs_and_remainder():
    x = sow.tensor([-2.0, 0.0, 3.0, 7.5])
    x.requires_grad = True
    sow.sum(abs(x) * sow.tensor([1.0, 10.0, 100.0, 1000.0])).backward()
    assert x.grad.tolist() == [-1.0, 0.0, 100.0, 1000.0]
    a, b = sow.tensor([7.5, -7.5]), sow.tensor([2.0, 2.0])
    a.requires_grad = b.requires_grad = True
    sow.sum(a % b).backward()
    assert a.grad.tolist() == [1.0, 1.0]
    assert b.grad.tolist() == [-3.0, 4.0]


def test_where_of_a_condition_alone():
    a = np.arange(12).reshape(3, 4) % 3 == 0
    for got, want in zip(sow.where(a), np.where(a), strict=True):
        assert isinstance(got, np.ndarray)
        same(got, want)
    places = sow.where(sow.tensor(a))
    assert isinstance(places, tuple) and all(isinstance(one, sow.Tensor) for one in places)
    program = sow.Program()
    rows, columns = sow.where(program.input("x", [None, None], "bool"))
    program.output("rows", rows)
    program.output("columns", columns)
    got = program.compile().run({"x": a})
    same(got["rows"], np.where(a)[0])
    same(got["columns"], np.where(a)[1])
    with pytest.raises(TypeError):
        sow.where(a, a)


@pytest.mark.parametrize("condition", [True, False, np.True_, 1, 1.0])
def test_a_number_is_no_mask(condition):
    a = np.ones(3, "f4")
    for call in (lambda: sow.where(condition, a, a), lambda: sow.masked_fill(a, condition, 2.0),
                 lambda: sow.masked_fill_(a, condition, 2.0),
                 lambda: sow.masked_select(a, condition),
                 lambda: sow.masked_scatter(a, condition, a)):
        with pytest.raises(TypeError, match="must be an array of bool"):
            call()
    assert a.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("index", [True, 1.0, np.True_, np.float32(1)])
def test_true_and_floats_are_no_index(index):
    a = np.arange(4.0)
    for call in (lambda: sow.index_fill(a, 0, index, 9.0), lambda: sow.index_select(a, 0, index),
                 lambda: sow.index_fill_(a, 0, index, 9.0), lambda: sow.Index(index, 3),
                 lambda: sow.index_put(a, (index,), 9.0)):
        with pytest.raises(TypeError, match="an index is an int"):
            call()
    assert a.tolist() == [0.0, 1.0, 2.0, 3.0]
    same(sow.index_select(a, 0, 1), a[[1]])


def test_a_list_of_numbers_is_no_list_of_indices():
    x = np.zeros((2, 2))
    with pytest.raises(TypeError, match=r"one index, or one for each axis"):
        sow.index_put(x, [0, 1], 9.0)
    assert sow.index_put(x, (0, 1), 9.0).tolist() == [[0.0, 9.0], [0.0, 0.0]]
    assert sow.index_put(x, ([0, 1],), 9.0).tolist() == [[9.0, 9.0], [9.0, 9.0]]


@pytest.mark.parametrize("keepdim", [False, True])
def test_a_sum_over_no_axis(keepdim):
    a = np.array([[1.0, 0.0], [np.nan, -2.5]], "f4")
    same(sow.sum(a, (), keepdim), np.sum(a, axis=()))
    same(sow.tensor(a).mean((), keepdim), np.mean(a, axis=()))
    same(sow.sum(a, None), np.sum(a))
    same(sow.sum(np.float32(3.0) * np.ones(()), ()), np.array(3.0))


def test_along_the_flattened_array():
    a = np.arange(12, dtype="f4").reshape(3, 4)
    i = np.array([5, -1, 0, 5])
    same(sow.take_along_axis(a, i, None), np.take_along_axis(a, i, None))
    same(sow.take_along_axis(a.T, i, axis=None), np.take_along_axis(a.T, i, None))
    want = a.copy()
    np.put_along_axis(want, i, 9, None)
    same(sow.put_along_axis(a, i, 9.0, None, reduce="assign"), want)
    for b in (a.copy(), np.asfortranarray(a), a.repeat(2, 1)[:, ::2]):
        x = b
        assert sow.put_along_axis_(x, i, 9.0, axis=None, reduce="assign") is x
        same(x, want)
    y = sow.tensor(a)
    y.requires_grad = True
    z = y * 1.0
    z.put_along_axis_(i, 9.0, None, "assign")
    sow.sum(z).backward()
    same(y.grad, (want != 9).astype("f4") + (a == 9))
    with pytest.raises(ValueError, match="rank"):
        sow.take_along_axis(a, i[:, None], None)


@pytest.mark.parametrize("batch_dims, x, indices", [
    (1, (3, 4, 5), (3, 6, 1)), (1, (3, 4, 5), (3, 2)), (2, (2, 3, 4), (2, 3, 1)),
    (2, (2, 3, 4, 5), (2, 3, 6, 2)), (1, (0, 4), (0, 2, 1))])
def test_gather_nd_in_batches(batch_dims, x, indices):
    draw = np.random.default_rng(0)
    a = draw.standard_normal(x).astype("f4")
    i = np.stack([draw.integers(-x[batch_dims + k], x[batch_dims + k], indices[:-1])
                  for k in range(indices[-1])], -1)
    rest = x[batch_dims + indices[-1]:]
    want = np.empty((*indices[:-1], *rest), "f4")
    for at in np.ndindex(*indices[:-1]):
        want[at] = a[(*at[:batch_dims], *i[at])]
    same(sow.gather_nd(a, i, batch_dims=batch_dims), want)
    program = sow.Program()
    sx = program.input("x", [None] * len(x))
    si = program.input("i", [*[None] * (len(indices) - 1), indices[-1]], "int64")
    program.output("y", sow.gather_nd(sx, si, batch_dims))
    same(program.compile().run({"x": a, "i": i})["y"], want)
    leaf = sow.tensor(a)
    leaf.requires_grad = True
    sow.sum(leaf.gather_nd(i, batch_dims)).backward()
    counts = np.zeros_like(a)
    for at in np.ndindex(*indices[:-1]):
        counts[(*at[:batch_dims], *i[at])] += 1
    same(leaf.grad, counts)


def test_gather_nd_in_batches_says_what_is_wrong():
    a, i = np.zeros((3, 4)), np.zeros((2, 1), int)
    with pytest.raises(ValueError, match="differ in dimension 0"):
        sow.gather_nd(a, i, 1)
    with pytest.raises(ValueError, match="batch_dims is 2"):
        sow.gather_nd(a, i, 2)
    with pytest.raises(IndexError, match="out of range"):
        sow.gather_nd(a, np.full((3, 1), 7), 1)
    same(sow.gather_nd(a + 1, np.full((3, 1), 7), 1, bounds="drop"), np.zeros(3))


def test_reshape_takes_extents_one_by_one():
    x = sow.arange(6)
    assert x.reshape(2, 3).shape == x.reshape([2, 3]).shape == x.reshape((2, -1)).shape == (2, 3)
    assert x.reshape(-1).shape == (6,)
    assert sow.arange(1).reshape().shape == ()


@pytest.mark.parametrize("make, text", [
    (lambda: sow.Program().input("x", [None, 3]), "Tensor(symbolic, shape=[?, 3], dtype=float32)"),
    (lambda: sow.tensor([1.0, 10.5, 100.0]), "Tensor([  1.,   10.5, 100. ], dtype=float32)"),
    (lambda: sow.zeros([0]), "Tensor([], dtype=float32)"),
    (lambda: sow.zeros([0, 3]), "Tensor([], shape=(0, 3), dtype=float32)"),
    (lambda: sow.zeros([2, 0], "int8"), "Tensor([], shape=(2, 0), dtype=int8)"),
    (lambda: sow.tensor([[1.0, 2.5], [3.0, 4.0]]),
     "Tensor([[1.,  2.5],\n        [3.,  4. ]], dtype=float32)"),
    (lambda: sow.tensor([1 + 2j, 10.5 - 1j]), None)])
def test_repr(make, text):
    got = repr(make())
    assert text is None or got == text
    assert ",," not in got and ", ]" not in got and ",]" not in got


def test_a_broadcast_numpy_array_is_read_only():
    a = np.arange(3)
    b = sow.broadcast_to(a, [2, 3])
    assert not b.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        b[0, 0] = 7
    assert sow.reshape(a, [3, 1]).flags.writeable
    assert not sow.tensor(a).broadcast_to([2, 3]).numpy().flags.writeable


def test_numpy_is_refused_a_copy_that_it_does_not_want():
    t = sow.arange(3)
    assert np.asarray(t, dtype="f8").tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="without a copy"):
        t.__array__("f8", copy=False)
    with pytest.raises(ValueError):
        np.array(t, dtype="f8", copy=False)
    same = t.__array__("i8", copy=False)
    same[0] = 5
    assert t.tolist() == [5, 1, 2]
    other = t.__array__("i8", copy=True)
    other[0] = 9
    assert t.tolist() == [5, 1, 2]


@pytest.mark.parametrize("write", [
    lambda t: t.__setitem__(0, 1.0), lambda t: t.__setitem__([0], 1.0),
    lambda t: t.fill_(1.0), lambda t: t.copy_([1.0, 2.0]), lambda t: t.index_fill_(0, [0], 1.0),
    lambda t: sow.index_add_(t, 0, [0], [1.0]), lambda t: t[1:].fill_(1.0)])
def test_torch_is_told_of_writes_into_its_memory(write):
    torch = pytest.importorskip("torch")
    a = torch.ones(2)
    w = torch.ones(2, requires_grad=True)
    loss = (w * a).sum()
    before = a._version
    write(sow.asarray(a))
    assert a._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_item_assignment_on_what_is_recorded():
    x = sow.tensor([1.0, 2.0, 3.0])
    x.requires_grad = True
    y = x * 2.0
    y[[0, 2]] = 0.0
    y[1:2] = y[1:2] * 5.0
    sow.sum(y).backward()
    assert x.grad.tolist() == [0.0, 10.0, 0.0]
    with pytest.raises(RuntimeError, match="leaf that requires a gradient; use index_put"):
        x[0] = 1.0
    with pytest.raises(RuntimeError, match="use masked_fill, which returns"):
        y[0:1].fill_(3.0)
    with pytest.raises(RuntimeError, match="use slice_scatter, which returns"):
        y[0:1].copy_([3.0])

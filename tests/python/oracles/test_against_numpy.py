# SPDX-License-Identifier: Apache-2.0
"""Every operation that NumPy's indexing, ufunc.at or its own functions define, on NumPy's arrays in any layout."""

import numpy as np
import pytest
from hypothesis import given
from oracles import exact
from oracles.draw import ALL, COMPLEX, FLOATS, INTEGERS, NumPy, check, problems, same_bits, same_numbers, types_of

import sow

KIND = NumPy()
UFUNCS = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum}


def grid(shape, axis, index):
    """The coordinates, one array an axis, of the places that an index names along an axis."""
    places = list(np.indices(index.shape, sparse=True))
    places[axis] = index
    return tuple(places)


def along_axis_problem(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index(d.narrower(shape, axis), shape[axis])
    return shape, axis, index


@given(d=problems)
def test_assignment_through_an_index(d):
    """NumPy documents that the last of several values for one place remains."""
    shape, axis, index = along_axis_problem(d)
    for dtype in ALL:
        x, src = d.bytes(shape, dtype), d.bytes(index.shape, dtype)
        expected = x.copy()
        expected[grid(shape, axis, index)] = src
        check(d, KIND, "scatter", expected, x, axis, index, src)
        check(d, KIND, "scatter_reduce", expected, x, axis, index, src, "assign", d.flag())


@pytest.mark.parametrize("reduce", UFUNCS)
@given(d=problems)
def test_ufunc_at(d, reduce):
    shape, axis, index = along_axis_problem(d)
    for dtype in types_of(reduce):
        x, src = d.exact(shape, dtype, reduce), d.exact(index.shape, dtype, reduce)
        expected = x.copy()
        UFUNCS[reduce].at(expected, grid(shape, axis, index), src)
        same = {"same": same_numbers} if dtype.kind == "c" and reduce == "mul" else {}
        check(d, KIND, "scatter_reduce", expected, x, axis, index, src, reduce, **same)


@given(d=problems)
def test_put_and_take_along_axis(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    thin = [1 if d.integer(0, 2) == 0 else n for n in shape]
    thin[axis] = d.pick(1, 2, 5, 0) if shape[axis] else 0
    index = d.index(tuple(thin), shape[axis])
    full = list(shape)
    full[axis] = thin[axis]
    for dtype in ALL:
        x, values = d.bytes(shape, dtype), d.bytes(d.spread(tuple(full)), dtype)
        expected = x.copy()
        np.put_along_axis(expected, index, values, axis)
        check(d, KIND, "put_along_axis", expected, x, index, values, axis, "assign")
        check(d, KIND, "take_along_axis", np.take_along_axis(x, index, axis), x, index, axis)


@given(d=problems)
def test_rows(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index((d.pick(0, 1, 3, 8) if shape[axis] else 0,), shape[axis])
    rows = (slice(None),) * (axis % len(shape)) + (index,)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        check(d, KIND, "index_select", np.take(x, index, axis), x, axis, index)
        source = d.bytes(np.take(x, index, axis).shape, dtype)
        expected = x.copy()
        expected[rows] = source
        check(d, KIND, "index_copy", expected, x, axis, index, source)
        value = d.small((), dtype)
        expected = x.copy()
        expected[rows] = value
        check(d, KIND, "index_fill", expected, x, axis, index, value)
        x, source = d.exact(shape, dtype, "add"), d.exact(source.shape, dtype, "add")
        expected = x.copy()
        np.add.at(expected, rows, source)
        check(d, KIND, "index_add", expected, x, axis, index, source)


@given(d=problems)
def test_coordinates(d):
    shape = d.shape(1)
    depth = d.integer(1, len(shape))
    outer = d.shape(0, 2, (1, 2, 5, 0)) if all(shape[:depth]) else (0,)
    indices = [d.index(outer, size) for size in shape[:depth]]
    stacked = np.stack(indices, -1)
    places = exact.coordinates(shape, stacked)
    for dtype in ALL:
        x, updates = d.bytes(shape, dtype), d.bytes(places.shape, dtype)
        check(d, KIND, "gather_nd", x[tuple(indices)], x, stacked)
        expected = x.copy()
        expected[tuple(indices)] = updates
        check(d, KIND, "index_put", expected, x, indices, updates)
        check(d, KIND, "tensor_scatter_nd_update", expected, x, stacked, updates)
        for op, reduce in (("add", "add"), ("max", "amax"), ("min", "amin"), ("mul", "mul"), ("sub", "sub")):
            if dtype not in types_of(reduce):
                continue
            x, updates = d.exact(shape, dtype, reduce), d.exact(places.shape, dtype, reduce)
            expected = x.copy()
            {**UFUNCS, "sub": np.subtract}[reduce].at(expected, tuple(indices), updates)
            same = {"same": same_numbers} if dtype.kind == "c" and op == "mul" else {}
            check(d, KIND, f"tensor_scatter_nd_{op}", expected, x, stacked, updates, **same)
            if op == "add":
                check(d, KIND, "index_put", expected, x, indices, updates, True)
                expected = np.zeros_like(x)
                np.add.at(expected, tuple(indices), updates)
                same_bits(sow.scatter_nd(stacked, d.placed(updates)[0], shape), expected, "scatter_nd")


@given(d=problems)
def test_masks(d):
    shape = d.shape()
    mask = d.bytes(d.spread(shape), np.dtype(bool))
    whole = np.broadcast_to(mask, shape)
    for dtype in ALL:
        x, value = d.bytes(shape, dtype), d.bytes((int(whole.sum()) + d.pick(0, 2),), dtype)
        expected = x.copy()
        expected[whole] = value[:whole.sum()]
        check(d, KIND, "masked_scatter", expected, x, mask, value)
        check(d, KIND, "masked_select", x[whole], x, mask)
        scalar = d.small((), dtype)
        expected = x.copy()
        np.putmask(expected, whole, scalar)
        check(d, KIND, "masked_fill", expected, x, mask, scalar)
        sparse = d.small(shape, dtype)
        check(d, KIND, "nonzero", np.argwhere(sparse), sparse)


@given(d=problems)
def test_masks_that_broadcast_the_input(d):
    shape = d.shape(1)
    mask = d.bytes(shape, np.dtype(bool))
    for dtype in ALL:
        x, value = d.bytes(d.spread(shape), dtype), d.bytes((int(mask.sum()),), dtype)
        expected = np.broadcast_to(x, shape).copy()
        expected[mask] = value
        check(d, KIND, "masked_scatter", expected, x, mask, value)


@given(d=problems)
def test_diagonals(d):
    shape = d.shape(2)
    axis1, axis2 = d.rng.permutation(len(shape))[:2].tolist()
    offset = d.integer(-3, 3)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        expected = x.copy()
        diagonal = np.diagonal(expected, offset, axis1, axis2)
        check(d, KIND, "diagonal", diagonal, x, offset, axis1, axis2)
        src = d.bytes(diagonal.shape, dtype)
        diagonal.flags.writeable = True
        diagonal[...] = src
        check(d, KIND, "diagonal_scatter", expected, x, src, offset, axis1, axis2)
    square = (d.integer(1, 4),) * d.integer(2, 4) if d.flag() else d.shape(2, 2, (1, 2, 3, 9))
    for dtype in ALL:
        x, value, wrap = d.bytes(square, dtype), d.small((), dtype), d.flag()
        expected = x.copy()
        np.fill_diagonal(expected, value, wrap)
        check(d, KIND, "fill_diagonal", expected, x, value, wrap)


@given(d=problems)
def test_slices_and_views(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    start, stop, step = d.pick(None, -9, -2, 0, 1), d.pick(None, -1, 2, 3, 9), d.integer(1, 3)
    before = (slice(None),) * (axis % len(shape))
    cut = (*before, slice(start, stop, step))
    other = d.axis(shape)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        check(d, KIND, "slice", x[cut], x, axis, start, stop, step)
        src = d.bytes(x[cut].shape, dtype)
        expected = x.copy()
        expected[cut] = src
        check(d, KIND, "slice_scatter", expected, x, src, axis, start, stop, step)
        if shape[axis]:
            position = d.integer(-shape[axis], shape[axis] - 1)
            check(d, KIND, "select", np.asarray(x[(*before, position)]), x, axis, position)
            src = d.bytes(x[(*before, position)].shape, dtype)
            expected = x.copy()
            expected[(*before, position)] = src
            check(d, KIND, "select_scatter", expected, x, src, axis, position)
        check(d, KIND, "transpose", np.swapaxes(x, axis, other), x, axis, other)
        check(d, KIND, "reshape", x.reshape(shape[::-1]), x, shape[::-1])
        check(d, KIND, "flatten", x.reshape(-1), x)
        thin = d.bytes(d.spread(shape), dtype)
        check(d, KIND, "broadcast_to", np.broadcast_to(thin, shape), thin, shape)


@given(d=problems)
def test_bincount(d):
    index, weights = d.index((300,), 9, negative=False), d.small((300,), np.dtype("f8"))
    same_bits(sow.scatter_add(np.zeros(9), 0, index, weights), np.bincount(index, weights, 9))


@given(d=problems)
def test_large_arrays_in_odd_layouts(d):
    """Sizes at which work is split among threads and other plans are taken."""
    dtype = d.pick(*INTEGERS, *FLOATS, *COMPLEX)
    shape = d.pick((70_000,), (300, 211), (3, 41, 500))
    axis = d.axis(shape)
    index = d.index(shape, shape[axis])
    x, src = d.small(shape, dtype), d.small(shape, dtype)
    expected = x.copy()
    np.add.at(expected, grid(shape, axis, index), src)
    check(d, KIND, "scatter_add", expected, x, axis, index, src)
    x, src = d.bytes(shape, dtype), d.bytes(shape, dtype)
    expected = x.copy()
    expected[grid(shape, axis, index)] = src
    check(d, KIND, "scatter", expected, x, axis, index, src)
    check(d, KIND, "take_along_axis", np.take_along_axis(x, index, axis), x, index, axis)
    mask = d.bytes(shape, np.dtype(bool))
    expected = x.copy()
    expected[mask] = src.ravel()[:mask.sum()]
    check(d, KIND, "masked_scatter", expected, x, mask, src)


# -- where NumPy parts from the contract. Each test fails once the two agree: then move the case up. ---------------------


def test_numpy_assigns_by_default():
    """put_along_axis adds here, unless told otherwise."""
    x = np.zeros(3)
    np.put_along_axis(x, np.array([0, 0]), np.array([1.0, 2.0]), 0)
    assert x.tolist() == [2, 0, 0]
    assert sow.put_along_axis(np.zeros(3), [0, 0], np.array([1.0, 2.0]), 0).tolist() == [3, 0, 0]


def test_numpy_adds_in_order():
    x, terms = np.zeros(1), np.array([1e100, 1.0, -1e100, 1.0])
    np.add.at(x, [0] * 4, terms)
    assert x[0] == 1
    assert sow.scatter_add(np.zeros(1), 0, [0] * 4, terms)[0] == 2


def test_numpy_casts_silently():
    x = np.zeros(2, "i8")
    np.put_along_axis(x, np.array([0]), np.array([1.5]), 0)
    assert x[0] == 1
    with pytest.raises(TypeError):
        sow.put_along_axis(np.zeros(2, "i8"), np.array([0]), np.array([1.5]), 0)


def test_numpy_leaves_the_sign_of_zero_to_the_order():
    """-0 < +0 here; for NumPy the two are equal, and one of them stays."""
    signs = set()
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        x = np.array([first])
        np.maximum.at(x, [0], second)
        signs.add(bool(np.signbit(x[0])))
        assert not np.signbit(sow.scatter_reduce(np.array([first]), 0, [0], np.array([second]), "amax")[0])
    assert signs == {False, True}


def test_numpy_fills_a_diagonal_of_tall_arrays_only_when_asked_and_of_rank_one_never():
    with pytest.raises(ValueError):
        np.fill_diagonal(np.zeros(3), 1)
    with pytest.raises(ValueError):
        sow.fill_diagonal(np.zeros(3), 1.0)

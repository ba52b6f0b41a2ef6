# SPDX-License-Identifier: Apache-2.0
"""Every reduction of every scatter, bit for bit: float sums against fractions, the rest against the contract's words."""

import math

import numpy as np
import pytest
from hypothesis import given
from oracles import exact
from oracles.draw import ALL, COMPLEX, FLOATS, NumPy, check, problems, same_bits, types_of

import sow

REDUCTIONS = ["assign", "add", "mul", "mean", "amax", "amin"]
NUMPY = NumPy()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(d=problems)
def test_the_oracle_rounds_as_python_and_numpy_do(d, dtype):
    form = exact.FORMATS[dtype]
    for value in d.bytes((20,), dtype):
        number = form.value(exact.bits_of(value.reshape(1))[0])
        assert float(number) == float(value) or math.isnan(float(value)) and math.isnan(number)
    if dtype.itemsize < 8:
        values = d.wide((40,), np.dtype("f8"))
        with np.errstate(all="ignore"):
            expected = exact.canonical(values.astype("f4").astype(dtype)) if dtype == "f4" else None
            if dtype == "f2":
                expected = exact.canonical(values.astype("f2"))
        rounded = [form.rounded(exact.FLOAT64.value(one)) | (form.sign if np.signbit(value) and value == 0 else 0)
                   for one, value in zip(exact.bits_of(values), values)]
        if expected is not None:
            same_bits(exact.from_bits(rounded, dtype), expected)
    else:
        for numerator, denominator in d.rng.integers(1, 2**62, (20, 2)).tolist():
            rounded = exact.FLOAT64.rounded(exact.Fraction(numerator, denominator))
            assert exact.from_bits([rounded], "f8")[0] == numerator / denominator


def along_axis_problem(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index(d.narrower(shape, axis), shape[axis])
    return shape, axis, index, exact.along_axis(shape, axis, index)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@given(d=problems)
def test_scatter_reduce(d, reduce, include_self):
    shape, axis, index, places = along_axis_problem(d)
    larger = d.wider(index.shape)
    corner = tuple(slice(n) for n in index.shape)
    for dtype in types_of(reduce):
        x, src = d.wide(shape, dtype), d.wide(larger, dtype)
        expected = exact.fold(x, places, src[corner], reduce, include_self)
        check(d, NUMPY, "scatter_reduce", expected, x, axis, index, src, reduce, include_self=include_self)
        check(d, NUMPY, "put_along_axis", expected, x, index, src, axis, reduce, include_self, broadcast=False)
        if include_self:
            check(d, NUMPY, "scatter", expected, x, axis, index, src, reduce=reduce)
            if reduce == "add":
                check(d, NUMPY, "scatter_add", expected, x, axis, index, src)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@given(d=problems)
def test_put_along_axis_broadcasts_indices_and_values(d, reduce):
    shape = d.shape(1)
    axis = d.axis(shape)
    thin = [1 if d.integer(0, 2) == 0 else n for n in shape]
    thin[axis] = d.pick(1, 2, 5, 0) if shape[axis] else 0
    index = d.index(tuple(thin), shape[axis])
    full = list(shape)
    full[axis] = thin[axis]
    places = exact.along_axis(shape, axis, np.broadcast_to(index, full))
    spread = d.spread(tuple(full))
    include_self = d.flag()
    for dtype in types_of(reduce):
        x, values = d.wide(shape, dtype), d.wide(spread, dtype)
        expected = exact.fold(x, places, np.broadcast_to(values, full), reduce, include_self)
        check(d, NUMPY, "put_along_axis", expected, x, index, values, axis, reduce, include_self)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@given(d=problems)
def test_index_families(d, reduce):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index((d.pick(0, 1, 3, 8) if shape[axis] else 0,), shape[axis])
    places = exact.whole_rows(shape, axis, index)
    include_self = d.flag()
    for dtype in types_of(reduce):
        x, source = d.wide(shape, dtype), d.wide(places.shape, dtype)
        expected = exact.fold(x, places, source, reduce, include_self)
        check(d, NUMPY, "index_reduce", expected, x, axis, index, source, reduce, include_self)
        if reduce == "add" and include_self:
            check(d, NUMPY, "index_add", expected, x, axis, index, source)
        if reduce == "assign":
            # Row-major order of the broadcast index and order of the rows name the same winner.
            check(d, NUMPY, "index_copy", expected, x, axis, index, source)


@pytest.mark.parametrize("op, reduce", [("update", "assign"), ("add", "add"), ("sub", "sub"), ("max", "amax"),
                                        ("min", "amin"), ("mul", "mul")])
@given(d=problems)
def test_nd_families(d, op, reduce):
    shape = d.shape(1)
    depth = d.integer(0, len(shape))
    outer = d.shape(0, 2, (1, 2, 6, 0)) if all(shape[:depth]) else (0,)
    indices = np.stack([d.index(outer, n) for n in shape[:depth]] or [np.zeros(outer, "i8")], -1)[..., :depth]
    indices = indices.astype(d.pick(np.int32, np.int64))
    places = exact.coordinates(shape, indices)
    for dtype in types_of(reduce):
        x, updates = d.wide(shape, dtype), d.wide(places.shape, dtype)
        terms = negated(updates) if reduce == "sub" else updates
        expected = exact.fold(x, places, terms, "add" if reduce == "sub" else reduce)
        check(d, NUMPY, f"tensor_scatter_nd_{op}", expected, x, indices, updates)
        if op == "add":
            zeros = np.zeros(shape, dtype)
            result = sow.scatter_nd(indices, updates, shape)
            same_bits(result, exact.fold(zeros, places, updates, "add"), "scatter_nd")
        if op == "update":
            same_bits(sow.gather_nd(x, indices), x.ravel()[places].reshape(places.shape), "gather_nd")


def negated(updates):
    """Every sign bit the other way, NaNs too; integers wrap."""
    with np.errstate(all="ignore"):
        return -updates if updates.dtype.kind in "iu" else np.negative(updates)


@given(d=problems)
def test_index_put_accumulates(d):
    shape = d.shape(1)
    depth = d.integer(1, len(shape))
    outer = d.shape(0, 2, (1, 2, 6, 0)) if all(shape[:depth]) else (0,)
    indices = [d.index(outer, n) for n in shape[:depth]]
    places = exact.coordinates(shape, np.stack(indices, -1))
    spread = d.spread(places.shape)
    for dtype in ALL:
        x, value = d.wide(shape, dtype), d.wide(spread, dtype)
        for accumulate in (False, True):
            expected = exact.fold(x, places, np.broadcast_to(value, places.shape), "add" if accumulate else "assign")
            check(d, NUMPY, "index_put", expected, x, indices, value, accumulate)


@pytest.mark.parametrize("count, places", [(3000, 1), (5000, 40), (300, 2000)])
@pytest.mark.parametrize("reduce", ["add", "mean", "mul", "amax"])
@given(d=problems)
def test_many_updates_of_few_places_and_of_many(d, reduce, count, places):
    """Long sums, and the plans that short ones do not take."""
    index = d.index((count,), places)
    dtype = d.pick(*(FLOATS if reduce == "amax" else [*FLOATS, *COMPLEX]))
    x, src = d.wide((places,), dtype), d.wide((count,), dtype)
    include_self = d.flag()
    expected = exact.fold(x, np.where(index < 0, index + places, index), src, reduce, include_self)
    check(d, NUMPY, "scatter_reduce", expected, x, 0, index, src, reduce, include_self)


@pytest.mark.parametrize("rows, width", [(200, 33), (40, 130), (1000, 4)])
@given(d=problems)
def test_rows_that_meet(d, rows, width):
    index = d.index((rows,), 5)
    dtype = d.pick(*FLOATS, *COMPLEX)
    x, source = d.wide((5, width), dtype), d.wide((rows, width), dtype)
    expected = exact.fold(x, exact.whole_rows(x.shape, 0, index), source, "add")
    check(d, NUMPY, "index_add", expected, x, 0, index, source)


@given(d=problems)
def test_float64_sums_are_those_of_fsum(d):
    index = d.index((400,), 7, negative=False)
    src = d.rng.standard_normal(400) * 2.0 ** d.rng.integers(-300, 300, 400)
    expected = [math.fsum(src[index == place]) for place in range(7)]
    assert sow.scatter_add(np.zeros(7), 0, index, src).tolist() == expected


def test_the_contract_s_own_examples():
    half = np.ones(1000, "f2")
    assert sow.scatter_add(np.zeros(1, "f2"), 0, np.zeros(1000, "i8"), half) == 1000
    assert sow.scatter_add(np.zeros(1), 0, [0] * 4, np.array([1e308, 1e308, -1e308, -1e308])) == 0
    assert np.signbit(sow.scatter_add(np.array([-0.0]), 0, [0], np.array([-0.0])))[0]
    assert not np.signbit(sow.scatter_nd([[0]], np.array([-0.0]), [1]))[0]

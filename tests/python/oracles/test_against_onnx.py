# SPDX-License-Identifier: Apache-2.0
"""Every operation that ONNX defines, against its reference evaluator, and where that evaluator parts from the contract."""

import numpy as np
import pytest
from hypothesis import given
from oracles import exact
from oracles.draw import ALL, NumPy, check, problems, same_bits, same_numbers, types_of

import sow

import peers

pytestmark = [pytest.mark.skipif(peers.onnx is None, reason="onnx is not here"), pytest.mark.filterwarnings("ignore")]
KIND = NumPy()
REDUCTIONS = {"assign": "none", "add": "add", "mul": "mul", "amax": "max", "amin": "min"}


def onnx(op, *inputs, **attributes):
    """What the reference evaluator says one node gives."""
    import onnx.helper
    import onnx.reference
    names = [f"input{number}" for number in range(len(inputs))]
    node = onnx.helper.make_node(op, names, ["output"], **attributes)
    return onnx.reference.ReferenceEvaluator(node).run(None, dict(zip(names, inputs)))[0]


def is_any_order(reduce, dtype):
    return {"same": same_numbers} if reduce == "mul" and dtype.kind == "c" else {}


@pytest.mark.parametrize("reduce", REDUCTIONS)
@given(d=problems)
def test_scatter_elements(d, reduce):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index(d.narrower(shape, axis), shape[axis])
    for dtype in types_of(reduce):
        x, updates = d.exact(shape, dtype, reduce, nan=False), d.exact(index.shape, dtype, reduce, nan=False)
        expected = onnx("ScatterElements", x, index, updates, axis=axis, reduction=REDUCTIONS[reduce])
        check(d, KIND, "scatter_reduce", expected, x, axis, index, updates, reduce, **is_any_order(reduce, dtype))
        check(d, KIND, "put_along_axis", expected, x, index, updates, axis, reduce, broadcast=False,
              **is_any_order(reduce, dtype))


@pytest.mark.parametrize("op, reduce", [("update", "assign"), ("add", "add"), ("mul", "mul"), ("max", "amax"),
                                        ("min", "amin")])
@given(d=problems)
def test_scatter_nd(d, op, reduce):
    shape = d.shape(1)
    depth = d.integer(1, len(shape))
    outer = d.shape(1, 2, (1, 2, 6, 0)) if all(shape[:depth]) else (0,)
    indices = np.stack([d.index(outer, size) for size in shape[:depth]], -1).astype(np.int64)
    updates_shape = exact.coordinates(shape, indices).shape
    for dtype in types_of(reduce):
        x, updates = d.exact(shape, dtype, reduce, nan=False), d.exact(updates_shape, dtype, reduce, nan=False)
        expected = onnx("ScatterND", x, indices, updates, reduction=REDUCTIONS[reduce])
        check(d, KIND, f"tensor_scatter_nd_{op}", expected, x, indices, updates, **is_any_order(reduce, dtype))


@given(d=problems)
def test_gathers(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    line = list(shape)
    line[axis] = d.pick(1, 4) if shape[axis] else 0
    index = d.index(tuple(line), shape[axis])  # the evaluator takes all lines or none
    rows = d.index((d.pick(1, 4) if shape[axis] else 0,), shape[axis])
    depth = d.integer(1, len(shape))
    outer = d.shape(1, 2, (1, 2, 6)) if all(shape[:depth]) else (0,)
    indices = np.stack([d.index(outer, size) for size in shape[:depth]], -1).astype(np.int64)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        if index.size:
            # The evaluator misreads a negative axis of an index that is longer than the array.
            check(d, KIND, "gather", onnx("GatherElements", x, index, axis=axis % len(shape)), x, axis, index)
        check(d, KIND, "index_select", onnx("Gather", x, rows, axis=axis), x, axis, rows)
        if indices.size:
            check(d, KIND, "gather_nd", onnx("GatherND", x, indices), x, indices)


@given(d=problems)
def test_masks(d):
    shape = d.shape(1)
    mask = d.bytes(shape, np.dtype(bool))
    for dtype in ALL:
        x, value = d.bytes(shape, dtype), d.small((), dtype)
        check(d, KIND, "masked_fill", onnx("Where", mask, value, x), x, mask, value)
        check(d, KIND, "masked_select", onnx("Compress", x, mask.ravel()), x, mask)
        sparse = d.small(shape, dtype)
        check(d, KIND, "nonzero", onnx("NonZero", sparse).T, sparse)


@given(d=problems)
def test_views(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    start, stop, step = d.pick(-9, -2, 0, 1), d.pick(-1, 2, 3, 9), d.integer(1, 3)
    order = list(range(len(shape)))
    order[0], order[axis] = order[axis], order[0]
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        bounds = [np.array([number]) for number in (start, stop, axis, step)]
        check(d, KIND, "slice", onnx("Slice", x, *bounds), x, axis, start, stop, step)
        check(d, KIND, "transpose", onnx("Transpose", x, perm=order), x, 0, axis)
        check(d, KIND, "reshape", onnx("Reshape", x, np.array(shape[::-1]), allowzero=1), x, shape[::-1])
        thin = d.bytes(d.spread(shape), dtype)
        # The evaluator multiplies by ones, which changes NaNs.
        expected = onnx("Expand", thin, np.array(shape))
        check(d, KIND, "broadcast_to", expected, thin, shape, same=same_numbers)


@given(d=problems)
def test_tensor_scatter_writes_a_cache(d):
    """TensorScatter writes tokens behind what each line of a cache holds: index_put with two indices here."""
    batch, length, width, count = 3, 8, 5, d.integer(1, 4)
    cache, tokens = d.bytes((batch, length, width), np.dtype("f4")), d.bytes((batch, count, width), np.dtype("f4"))
    held = d.rng.integers(0, length - count + 1, batch)
    lines, columns = np.arange(batch)[:, None], held[:, None] + np.arange(count)
    expected = onnx("TensorScatter", cache, tokens, held, axis=1)
    check(d, KIND, "index_put", expected, cache, [lines, columns], tokens)


# -- where the evaluator parts from the contract. Each test fails once the two agree: then move the case up. -------------


def test_onnx_s_maximum_depends_on_where_a_nan_stands():
    """The evaluator compares with Python's max; a NaN wins here."""
    x, index, updates = np.array([np.nan, 1.0]), np.array([0, 1]), np.array([1.0, np.nan])
    assert np.isnan(onnx("ScatterElements", x, index, updates, axis=0, reduction="max")).tolist() == [True, False]
    assert np.isnan(sow.scatter_reduce(x, 0, index, updates, "amax")).all()


def test_onnx_sums_halves_in_their_own_type():
    """One by one in float16, where 2048 + 1 is 2048."""
    x, index, ones = np.zeros(1, "f2"), np.zeros(3000, "i8"), np.ones(3000, "f2")
    assert onnx("ScatterElements", x, index, ones, axis=0, reduction="add")[0] == 2048
    assert sow.scatter_add(x, 0, index, ones)[0] == 3000


def test_onnx_reduces_with_the_old_value_only():
    """Its nodes have no include_self=false; from a neutral destination the two agree."""
    x, index, updates = np.zeros(3, "f4"), np.array([0, 0]), np.array([-5, -7], "f4")
    low = np.full(3, -np.inf, "f4")
    expected = onnx("ScatterElements", low, index, updates, axis=0, reduction="max")
    same_bits(sow.scatter_reduce(x, 0, index, updates, "amax", False)[:1], expected[:1])

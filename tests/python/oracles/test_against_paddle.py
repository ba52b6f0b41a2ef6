# SPDX-License-Identifier: Apache-2.0
"""Every operation that Paddle has on the CPU, in the types it has it, and where Paddle parts from the contract."""

import numpy as np
import pytest
from hypothesis import given
from oracles import exact
from oracles.draw import ALL, BFLOAT16, check, problems, types_of

import sow

import peers

paddle, torch = peers.paddle, peers.torch
pytestmark = [pytest.mark.skipif(paddle is None, reason="paddle is not here"), pytest.mark.filterwarnings("ignore")]

EXTENTS = (1, 2, 3, 4, 5, 7)  # Paddle's kernels differ on what an empty array may be
ALONG = [np.dtype(name) for name in ("uint8", "int16", "int32", "int64", "float32", "float64")]
ROWS = [np.dtype(name) for name in ("int32", "int64", "float16", "float32", "float64")]
COORDINATES = [np.dtype(name) for name in ("uint8", "int32", "int64", "float32", "float64")]
MASKED = [np.dtype(name) for name in ("bool", "int32", "int64", "float32", "float64", "complex64", "complex128")]
# A bfloat16 array reaches Paddle by way of torch.
MOVED = [dtype for dtype in ALL if dtype not in BFLOAT16 or torch]


class Paddle:
    in_place = True
    negative_strides = False

    def make(self, array):
        if array.dtype in BFLOAT16:
            return paddle.from_dlpack(torch.from_numpy(array.view(np.int16)).view(torch.bfloat16))
        return paddle.from_dlpack(array)

    def read(self, tensor):
        array = tensor.numpy()
        return array.view(*BFLOAT16) if tensor.dtype == paddle.bfloat16 else array


class Plain(Paddle):
    """Paddle's own memory: freeing a view of memory that came from elsewhere locks Paddle up (from_dlpack twice does)."""

    in_place = False

    def make(self, array):
        return paddle.to_tensor(np.ascontiguousarray(array).reshape(array.shape))


KIND, PLAIN = Paddle(), Plain()


def p(array):
    return KIND.make(np.array(array))


def n(tensor):
    return KIND.read(tensor)


def of(types, reduce):
    return [dtype for dtype in types if dtype in types_of(reduce)]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "mean", "amax", "amin"])
@given(d=problems)
def test_put_along_axis(d, reduce, include_self):
    shape = d.shape(1, 4, EXTENTS)
    axis = d.axis(shape)
    corner = tuple(d.integer(1, size) for size in shape)
    index = d.index(corner, shape[axis])
    thin = [1 if d.integer(0, 2) == 0 else size for size in shape]
    thin[axis] = d.pick(1, 2, 5)
    spread = d.index(tuple(thin), shape[axis])
    for dtype in of(ALONG, reduce):
        x, values = d.exact(shape, dtype, reduce, nan=False), d.exact(corner, dtype, reduce, nan=False)
        expected = paddle.put_along_axis(p(x), p(index).astype("int64"), p(values), axis, reduce, include_self, False)
        check(d, KIND, "put_along_axis", n(expected), x, index, values, axis, reduce, include_self, False)
        values = d.exact(spread.shape, dtype, reduce, nan=False)
        full = list(shape)
        full[axis] = thin[axis]
        # Paddle refuses to expand an index that is longer than arr on an axis of extent 1: it gets it expanded.
        expected = paddle.put_along_axis(p(x), p(np.broadcast_to(spread, full)).astype("int64"),
                                         p(np.broadcast_to(values, full)), axis, reduce, include_self, False)
        check(d, KIND, "put_along_axis", n(expected), x, spread, values, axis, reduce, include_self)


@given(d=problems)
def test_take_along_axis(d):
    shape = d.shape(1, 4, EXTENTS)
    axis = d.axis(shape)
    thin = [1 if d.integer(0, 2) == 0 else size for size in shape]
    thin[axis] = d.pick(1, 2, 5)
    index = d.index(tuple(thin), shape[axis])
    corner = d.index(tuple(d.integer(1, size) for size in shape), shape[axis])
    for dtype in ALONG:
        x = d.bytes(shape, dtype)
        check(d, KIND, "take_along_axis", n(paddle.take_along_axis(p(x), p(index), axis)), x, index, axis)
        expected = n(paddle.take_along_axis(p(x), p(corner), axis, broadcast=False))
        check(d, KIND, "take_along_axis", expected, x, corner, axis, False)


@given(d=problems)
def test_rows(d):
    shape = d.shape(1, 4, EXTENTS)
    axis = d.axis(shape)
    index = d.index((d.pick(1, 3, 8),), shape[axis])
    rows = list(shape)
    rows[axis] = len(index)
    for dtype in ROWS:
        x, source = d.small(shape, dtype), d.small(tuple(rows), dtype)
        check(d, KIND, "index_add", n(paddle.index_add(p(x), p(index), axis, p(source))), x, axis, index, source)
    for dtype in MOVED:
        x, value = d.bytes(shape, dtype), d.small((), dtype)
        expected = paddle.index_fill(p(x), p(index), axis, value.item())
        check(d, KIND, "index_fill", n(expected), x, axis, index, value.item())
    for dtype in MOVED:
        if dtype.name in ("uint8", "int8", "int16", "float16"):
            continue  # not in Paddle
        x = d.bytes(shape, dtype)
        check(d, KIND, "index_select", n(paddle.index_select(p(x), p(index), axis)), x, axis, index)


@given(d=problems)
def test_paddle_scatter_is_index_copy_or_a_sum_without_the_old_value(d):
    shape = d.shape(1, 3, EXTENTS)
    index = d.index((d.pick(1, 3, 8),), shape[0], negative=False)
    for dtype in COORDINATES[1:]:
        x, source = d.small(shape, dtype), d.small((len(index), *shape[1:]), dtype)
        expected = paddle.scatter(p(x), p(index), p(source), overwrite=True)
        check(d, KIND, "index_copy", n(expected), x, 0, index, source)
        expected = paddle.scatter(p(x), p(index), p(source), overwrite=False)
        check(d, KIND, "index_reduce", n(expected), x, 0, index, source, "add", False)


@given(d=problems)
def test_coordinates(d):
    shape = d.shape(1, 4, EXTENTS)
    depth = d.integer(1, len(shape))
    outer = d.shape(1, 2, (1, 2, 6))
    indices = [d.index(outer, size).astype(np.int64) for size in shape[:depth]]
    stacked = np.stack(indices, -1)
    updates_shape = exact.coordinates(shape, stacked).shape
    for dtype in COORDINATES:
        x, updates = d.small(shape, dtype), d.small(updates_shape, dtype)
        expected = n(paddle.scatter_nd_add(p(x), p(stacked), p(updates)))
        check(d, KIND, "tensor_scatter_nd_add", expected, x, stacked, updates)
        expected = n(paddle.scatter_nd(p(stacked), p(updates), list(shape)))
        np.testing.assert_array_equal(n(sow.scatter_nd(p(stacked), p(updates), shape)), expected)
        check(d, KIND, "gather_nd", n(paddle.gather_nd(p(x), p(stacked))), x, stacked)
    value_shape = d.spread(updates_shape)
    for dtype in MOVED:
        for accumulate in (False, True):
            if accumulate and dtype.kind == "b":
                continue
            make = d.small if accumulate else d.bytes
            x, value = make(shape, dtype), make(value_shape, dtype)
            expected = paddle.index_put(p(x), tuple(p(index) for index in indices), p(value), accumulate)
            check(d, KIND, "index_put", n(expected), x, indices, value, accumulate)


@given(d=problems)
def test_masks(d):
    shape = d.shape(1, 4, EXTENTS)
    mask = d.bytes(shape, np.dtype(bool))
    mask.flat[0] = True
    count = int(mask.sum())
    for dtype in MASKED:
        x, value = d.bytes(shape, dtype), d.bytes((count + d.pick(0, 2),), dtype)
        expected = paddle.masked_scatter(p(x), p(mask), p(value))
        check(d, KIND, "masked_scatter", n(expected), x, mask, value)
    for dtype in MOVED:
        x, scalar = d.bytes(shape, dtype), d.small((), dtype)
        check(d, KIND, "masked_fill", n(paddle.masked_fill(p(x), p(mask), p(scalar))), x, mask, scalar)
        check(d, KIND, "masked_select", n(paddle.masked_select(p(x), p(mask))), x, mask)
        if dtype.name not in ("uint8", "int8", "float16"):
            sparse = d.small(shape, dtype)
            check(d, KIND, "nonzero", n(paddle.nonzero(p(sparse))).reshape(-1, len(shape)), sparse)


@given(d=problems)
def test_regular_places(d):
    shape = d.shape(2, 4, EXTENTS)
    axis1, axis2 = d.rng.permutation(len(shape))[:2].tolist()
    offset = d.integer(1 - shape[axis1], shape[axis2] - 1)
    axis = d.integer(0, len(shape) - 1)
    position = d.integer(0, shape[axis] - 1)
    start, step = d.integer(0, shape[axis] - 1), d.integer(1, 3)
    stop = d.integer(start + 1, shape[axis])
    for dtype in MOVED:
        x = d.bytes(shape, dtype)
        diagonal = n(paddle.diagonal(p(x), offset, axis1, axis2))
        if dtype not in BFLOAT16:
            check(d, PLAIN, "diagonal", diagonal, x, offset, axis1, axis2)
            src = d.bytes(diagonal.shape, dtype)
            expected = paddle.diagonal_scatter(p(x), p(src), offset, axis1, axis2)
            check(d, KIND, "diagonal_scatter", n(expected), x, src, offset, axis1, axis2)
        src = d.bytes(shape[:axis] + shape[axis + 1:], dtype)
        expected = paddle.select_scatter(p(x), p(src), axis, position)
        check(d, KIND, "select_scatter", n(expected), x, src, axis, position)
        piece = np.moveaxis(np.moveaxis(x, axis, 0)[start:stop:step], 0, axis)
        src = d.bytes(piece.shape, dtype)
        expected = paddle.slice_scatter(p(x), p(src), [axis], [start], [stop], [step])
        check(d, KIND, "slice_scatter", n(expected), x, src, axis, start, stop, step)


@given(d=problems)
def test_views(d):
    shape = d.shape(2, 4, EXTENTS)
    axis1, axis2 = d.axis(shape), d.axis(shape)
    order = list(range(len(shape)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    for dtype in MOVED:
        if dtype in BFLOAT16:
            continue
        x = d.bytes(shape, dtype)
        check(d, PLAIN, "transpose", n(paddle.transpose(p(x), order)), x, axis1, axis2)
        check(d, PLAIN, "reshape", n(paddle.reshape(p(x), shape[::-1])), x, shape[::-1])
        check(d, PLAIN, "flatten", n(paddle.flatten(p(x))), x)
        check(d, PLAIN, "broadcast_to", n(paddle.broadcast_to(p(x), [2, *shape])), x, (2, *shape))


@given(d=problems)
def test_fill_diagonal(d):
    shape = d.shape(2, 2, EXTENTS) if d.flag() else (d.integer(1, 4),) * 3
    wrap = len(shape) == 2 and d.flag()
    for dtype in [*MASKED[:5], np.dtype("float16")]:
        x, value = d.bytes(shape, dtype), d.small((), dtype).item()
        expected = n(p(x).fill_diagonal_(value, 0, wrap))
        check(d, KIND, "fill_diagonal", expected, x, value, wrap)


# -- where Paddle parts from the contract. Each test fails once the two agree: then move the case up. --------------------


def test_paddle_assigns_by_default():
    """put_along_axis adds here, unless told otherwise."""
    x, index, values = paddle.zeros([3]), paddle.to_tensor([0, 0]), paddle.to_tensor([1.0, 2.0])
    assert paddle.put_along_axis(x, index, values, 0).tolist() == [2, 0, 0]
    assert sow.put_along_axis(x, index, values, 0).tolist() == [3, 0, 0]


def test_paddle_s_maximum_loses_a_nan_among_the_values():
    """A NaN wins here, wherever it stands."""
    x, index, values = paddle.ones([1]), paddle.to_tensor([0]), paddle.to_tensor([np.nan], dtype="float32")
    assert paddle.put_along_axis(x, index, values, 0, "amax").tolist() == [1]
    assert np.isnan(sow.put_along_axis(x, index, values, 0, "amax").item())


def test_paddle_leaves_the_sign_of_zero_to_the_order():
    """-0 < +0 here."""
    x, index, values = paddle.to_tensor([-0.0]), paddle.to_tensor([0]), paddle.to_tensor([0.0])
    assert np.signbit(paddle.put_along_axis(x, index, values, 0, "amax").item())
    assert not np.signbit(sow.put_along_axis(x, index, values, 0, "amax").item())


def test_paddle_sums_in_order():
    x, index, values = paddle.zeros([1]), paddle.to_tensor([0] * 4), paddle.to_tensor([1e20, 1.0, -1e20, 1.0])
    assert paddle.put_along_axis(x, index, values, 0, "add").item() == 1
    assert sow.put_along_axis(x, index, values, 0).item() == 2


def test_paddle_takes_a_mask_with_too_few_values():
    """It fills the rest with what it finds in memory; here that is an error, and nothing is written."""
    x, mask, few = paddle.zeros([3]), paddle.to_tensor([True] * 3), paddle.ones([2])
    assert paddle.masked_scatter(x, mask, few).shape == [3]
    with pytest.raises(ValueError):
        sow.masked_scatter(x, mask, few)


@pytest.mark.parametrize("name", ["bool", "int8", "float16", "bfloat16", "complex64", "complex128"])
def test_paddle_has_no_put_along_axis_of_these_types_on_the_cpu(name):
    x, index = paddle.ones([3]).astype(name), paddle.to_tensor([0])
    with pytest.raises(RuntimeError):
        paddle.put_along_axis(x, index, x[:1], 0, "add")
    assert sow.put_along_axis(x, index, x[:1], 0).dtype == x.dtype

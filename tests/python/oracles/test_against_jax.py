# SPDX-License-Identifier: Apache-2.0
"""Every operation that JAX's `.at` defines, `bounds` included, on a few fixed shapes: JAX compiles each anew."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from oracles.draw import ALL, BFLOAT16, check, problems, same_bits, same_numbers, types_of

import sow

import peers

jax = peers.jax
pytestmark = pytest.mark.skipif(jax is None, reason="jax is not here")

UPDATES = {"assign": "set", "add": "add", "mul": "multiply", "amax": "max", "amin": "min"}
F4 = np.dtype("f4")
FEW = [F4, np.dtype("i8"), *BFLOAT16]
few_examples = settings(max_examples=max(settings().max_examples // 8, 1))


class Jax:
    in_place = False
    negative_strides = True

    def make(self, array):
        return jax.numpy.array(array)

    def read(self, array):
        return np.asarray(array)


KIND = Jax()


@functools.cache
def jitted(function, **options):
    return jax.jit(functools.partial(function, **options))


def run(function, *arrays, **options):
    return np.asarray(jitted(function, **options)(*arrays))


def places(shape, axis, index):
    grid = [jax.numpy.arange(n).reshape([-1 if a == b else 1 for b in range(len(shape))])
            for a, n in enumerate(index.shape)]
    grid[axis] = index
    return tuple(grid)


def along_axis(x, index, src, axis, op, mode):
    return getattr(x.at[places(x.shape, axis, index)], op)(src, mode=mode)


def rows(x, index, src, axis, op, mode):
    return getattr(x.at[(slice(None),) * axis + (index,)], op)(src, mode=mode)


def coordinates(x, indices, src, op, mode):
    return getattr(x.at[tuple(jax.numpy.moveaxis(indices, -1, 0))], op)(src, mode=mode)


def equal(reduce, dtype):
    """How the results must agree where JAX falls short of bits: its minimum turns NaNs around, bfloat16 travels through
    float32, and a product of complex numbers may differ in the sign of a zero."""
    changed = reduce in ("amax", "amin") or dtype in BFLOAT16 or dtype.kind == "c" and reduce == "mul"
    return {"same": same_numbers if changed else same_bits}


def types(reduce):
    """JAX neither adds nor multiplies booleans."""
    return [dtype for dtype in types_of(reduce) if dtype.kind != "b" or reduce not in ("add", "mul")]


def distinct(d, shape, axis, size):
    """An index that names no place twice along `axis`: for those JAX leaves open which value stays."""
    keys = d.rng.random([size if a == axis else n for a, n in enumerate(shape)]).argsort(axis)
    keys = np.take(keys, range(shape[axis]), axis).astype(np.int32)
    return np.where(d.rng.integers(0, 2, keys.shape), keys, keys - size).astype(np.int32)


@pytest.mark.parametrize("reduce", UPDATES)
@few_examples
@given(d=problems)
def test_along_an_axis(d, reduce):
    shape, axis, index_shape = (3, 5, 4), 1, (2, 3, 4)
    index = distinct(d, index_shape, axis, 5) if reduce == "assign" else d.index(index_shape, 5).astype(np.int32)
    for dtype in types(reduce):
        x, src = d.exact(shape, dtype, reduce), d.exact(index_shape, dtype, reduce)
        expected = run(along_axis, x, index, src, axis=axis, op=UPDATES[reduce], mode="promise_in_bounds")
        check(d, KIND, "scatter_reduce", expected, x, axis, index, src, reduce, **equal(reduce, dtype))


@few_examples
@given(d=problems)
def test_put_and_take_along_axis(d):
    index = distinct(d, (1, 3, 1), 1, 5)
    for dtype in ALL:
        x, values = d.bytes((3, 5, 4), dtype), d.bytes((3, 1), dtype)
        wide = np.broadcast_to(index, (3, 3, 4))
        expected = run(along_axis, x, wide, np.broadcast_to(values, (3, 3, 4)), axis=1, op="set", mode="drop")
        check(d, KIND, "put_along_axis", expected, x, index, values, 1, "assign", **equal("assign", dtype))
        expected = run(jax.numpy.take_along_axis, x, index, axis=1)
        check(d, KIND, "take_along_axis", expected, x, index, 1, **equal("assign", dtype))


@pytest.mark.parametrize("bounds", ["drop", "clip"])
@pytest.mark.parametrize("reduce", ["add", "amax", "mul"])
@few_examples
@given(d=problems)
def test_bounds(d, reduce, bounds):
    """JAX's modes by their names here: a negative index wraps once, and then it is left out or moved to the edge."""
    index = d.rng.integers(-12, 13, (2, 6, 4)).astype(np.int32)
    for dtype in FEW:
        x, src = d.exact((3, 5, 4), dtype, reduce), d.exact(index.shape, dtype, reduce)
        expected = run(along_axis, x, index, src, axis=1, op=UPDATES[reduce], mode=bounds)
        same = equal(reduce, dtype)
        check(d, KIND, "scatter_reduce", expected, x, 1, index, src, reduce, bounds=bounds, **same)
        check(d, KIND, "put_along_axis", expected, x, index, src, 1, reduce, broadcast=False, bounds=bounds, **same)


@few_examples
@given(d=problems)
def test_bounds_of_rows_and_coordinates(d):
    index = d.rng.integers(-12, 13, 7).astype(np.int32)
    indices = d.rng.integers(-7, 8, (6, 2)).astype(np.int32)
    for dtype in FEW:
        for bounds in ("drop", "clip"):
            x, source = d.small((3, 5, 4), dtype), d.small((3, 7, 4), dtype)
            expected = run(rows, x, index, source, axis=1, op="add", mode=bounds)
            check(d, KIND, "index_add", expected, x, 1, index, source, bounds=bounds)
            updates = d.small((6, 4), dtype)
            expected = run(coordinates, x, indices, updates, op="add", mode=bounds)
            check(d, KIND, "tensor_scatter_nd_add", expected, x, indices, updates, bounds=bounds)
            check(d, KIND, "index_put", expected, x, list(indices.T), updates, True, bounds=bounds)


def take_rows(x, index, mode):
    return x.at[:, index].get(mode=mode, fill_value=0) if mode == "fill" else x.at[:, index].get(mode=mode)


def take_coordinates(x, indices, mode):
    at = x.at[tuple(jax.numpy.moveaxis(indices, -1, 0))]
    return at.get(mode=mode, fill_value=0) if mode == "fill" else at.get(mode=mode)


@few_examples
@given(d=problems)
def test_bounds_of_gathers(d):
    """What a gather drops is zero: JAX's "fill" with 0."""
    index = d.rng.integers(-12, 13, 7).astype(np.int32)
    indices = d.rng.integers(-7, 8, (6, 2)).astype(np.int32)
    for dtype in FEW:
        x = d.bytes((3, 5, 4), dtype)
        for bounds, mode in (("drop", "fill"), ("clip", "clip")):
            check(d, KIND, "index_select", run(take_rows, x, index, mode=mode), x, 1, index, bounds=bounds,
                  **equal("assign", np.dtype(dtype)))
            check(d, KIND, "gather_nd", run(take_coordinates, x, indices, mode=mode), x, indices, bounds=bounds,
                  **equal("assign", np.dtype(dtype)))


@pytest.mark.parametrize("op, reduce", [("add", "add"), ("max", "amax"), ("min", "amin"), ("mul", "mul"),
                                        ("update", "assign")])
@few_examples
@given(d=problems)
def test_coordinates(d, op, reduce):
    indices = np.stack([d.index((6,), 3), d.index((6,), 5)], -1).astype(np.int32)
    if reduce == "assign":
        flat = d.rng.permutation(15)[:6]
        indices = np.stack([flat // 5, flat % 5 - 5], -1).astype(np.int32)
    for dtype in FEW:
        x, updates = d.exact((3, 5, 4), dtype, reduce), d.exact((6, 4), dtype, reduce)
        expected = run(coordinates, x, indices, updates, op=UPDATES[reduce], mode="drop")
        check(d, KIND, f"tensor_scatter_nd_{op}", expected, x, indices, updates, **equal(reduce, dtype))


@few_examples
@given(d=problems)
def test_segment_reductions(d):
    """index_reduce without the old value, where every segment has a member."""
    index = np.concatenate([np.arange(4), d.index((9,), 4, negative=False)]).astype(np.int32)
    for reduce, segments in (("add", "segment_sum"), ("amax", "segment_max"), ("amin", "segment_min"),
                             ("mul", "segment_prod")):
        for dtype in FEW:
            x, source = d.exact((4, 3), dtype, reduce), d.exact((13, 3), dtype, reduce)
            expected = run(getattr(jax.ops, segments), source, index, num_segments=4)
            check(d, KIND, "index_reduce", expected, x, 0, index, source, reduce, False, **equal(reduce, dtype))


def filled(x, mask, value):
    return jax.numpy.where(mask, value, x)


@few_examples
@given(d=problems)
def test_masks_and_diagonals(d):
    mask = d.bytes((3, 4), np.dtype(bool))
    for dtype in FEW:
        x, value = d.bytes((3, 4), dtype), d.small((), dtype)
        check(d, KIND, "masked_fill", run(filled, x, mask, value), x, mask, value)
        check(d, KIND, "masked_select", x[mask], x, mask)
        expected = run(jax.numpy.fill_diagonal, x, value, wrap=False, inplace=False)
        check(d, KIND, "fill_diagonal", expected, x, value)
        check(d, KIND, "diagonal", run(jax.numpy.diagonal, x, offset=1), x, 1)


# -- where JAX parts from the contract. Each test fails once the two agree: then move the case up. -----------------------


def test_jax_drops_what_is_out_of_bounds_without_a_word():
    """That is bounds="drop" here; the default is an error, and nothing is written."""
    x, index, src = np.zeros(3, F4), np.array([7, 0]), np.ones(2, F4)
    assert jax.numpy.array(x).at[index].add(src).tolist() == [1, 0, 0]
    assert sow.scatter_add(x, 0, index, src, bounds="drop").tolist() == [1, 0, 0]
    with pytest.raises(IndexError):
        sow.scatter_add(x, 0, index, src)


def test_jax_moves_gathers_to_the_edge_without_a_word():
    x = jax.numpy.arange(3.0)
    assert x[np.array([7])].tolist() == [2]
    assert sow.gather(x, 0, np.array([7]), bounds="clip").tolist() == [2]
    with pytest.raises(IndexError):
        sow.gather(x, 0, np.array([7]))


def test_jax_sums_halves_in_their_own_type():
    x, index = jax.numpy.zeros(1, "bfloat16"), jax.numpy.zeros(1000, int)
    ones = jax.numpy.ones(1000, "bfloat16")
    assert float(x.at[index].add(ones)[0]) == 256
    assert float(sow.scatter_add(x, 0, index, ones)[0]) == 1000


def test_jax_adds_no_booleans():
    x, index = jax.numpy.array([False, False]), jax.numpy.array([0])
    with pytest.raises(TypeError):
        x.at[index].add(jax.numpy.array([True]))
    same_bits(np.asarray(sow.scatter_add(x, 0, index, jax.numpy.array([True]))), np.array([True, False]))


def test_jax_arrays_are_not_written():
    x = jax.numpy.zeros(3)
    with pytest.raises(TypeError, match="JAX|jax"):
        sow.scatter_add_(x, 0, np.array([0]), np.ones(1))

# SPDX-License-Identifier: Apache-2.0
"""Every operation against PyTorch on the CPU, on torch's own tensors, and where the two part ways."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from oracles import exact
from oracles.draw import ALL, FLOATS, check, nearly, problems, same_bits, same_numbers, types_of

import sow

import peers

torch = peers.torch
pytestmark = [pytest.mark.skipif(torch is None, reason="torch is not here"),
              pytest.mark.filterwarnings("ignore")]

TORCH_NAMES = {"add": "sum", "mul": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}
HALVES = [dtype for dtype in FLOATS if dtype.itemsize == 2]


class Torch:
    in_place = True
    negative_strides = False

    def make(self, array):
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.from_numpy(array)

    def read(self, tensor):
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(peers.ml_dtypes.bfloat16)
        return tensor.numpy()


KIND = Torch()


def t(array):
    return KIND.make(np.array(array))


def n(tensor):
    return KIND.read(tensor)


def positive(index, size):
    """torch's scatters and rows take no negative index."""
    return np.where(index < 0, index + size, index)


def along_axis_problem(d):
    shape = d.shape()
    axis = d.axis(shape)
    size = shape[axis] if shape else 1
    index = d.index(d.narrower(shape, axis), size)
    return shape, axis, index, t(positive(index, size)).long(), d.wider(index.shape)


def equal(reduce, dtype):
    """How the results must agree where torch falls short of bits.

    Halves travel through float32 in torch's scatters, which changes NaNs, even untouched ones. Products of complex numbers
    may differ in the sign of a zero; a complex mean is a product with the count's reciprocal.
    """
    if dtype.kind == "c":
        return {"same": {"mul": same_numbers, "mean": nearly}.get(reduce, same_bits)}
    return {"same": same_numbers if dtype in HALVES else same_bits}


@given(d=problems)
def test_scatter(d):
    shape, axis, index, key, larger = along_axis_problem(d)
    for dtype in ALL:
        x, src, value, same = d.bytes(shape, dtype), d.bytes(larger, dtype), d.small((), dtype), equal("assign", dtype)
        # With duplicates torch promises nothing; on a CPU it goes along each line in order, so that the last one wins.
        expected = n(t(x).scatter(axis, key, t(src)))
        check(d, KIND, "scatter", expected, x, axis, index, src, **same)
        check(d, KIND, "put_along_axis", expected, x, index, src, axis, "assign", broadcast=False, **same)
        check(d, KIND, "scatter", n(t(x).scatter(axis, key, value.item())), x, axis, index, value.item(), **same)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", TORCH_NAMES)
@given(d=problems)
def test_scatter_reduce(d, reduce, include_self):
    shape, axis, index, key, larger = along_axis_problem(d)
    for dtype in types_of(reduce):
        x, src = d.exact(shape, dtype, reduce), d.exact(larger, dtype, reduce)
        expected = n(t(x).scatter_reduce(axis, key, t(src), TORCH_NAMES[reduce], include_self=include_self))
        same = equal(reduce, dtype)
        check(d, KIND, "scatter_reduce", expected, x, axis, index, src, TORCH_NAMES[reduce],
              include_self=include_self, **same)
        check(d, KIND, "put_along_axis", expected, x, index, src, axis, reduce, include_self, broadcast=False, **same)


@given(d=problems)
def test_scatter_add_and_scatter_with_a_reduction(d):
    shape, axis, index, key, larger = along_axis_problem(d)
    for dtype in ALL:
        x, src = d.small(shape, dtype), d.small(larger, dtype)
        check(d, KIND, "scatter_add", n(t(x).scatter_add(axis, key, t(src))), x, axis, index, src)
        for reduce in ("add", "multiply"):
            x, src = d.factors(shape, dtype), d.factors(larger, dtype)
            same = equal("mul", dtype)
            expected = t(x).scatter(axis, key, t(src), reduce=reduce)
            check(d, KIND, "scatter", n(expected), x, axis, index, src, reduce=reduce, **same)
            value = d.factors((), dtype).item()
            expected = t(x).scatter(axis, key, value, reduce=reduce)
            check(d, KIND, "scatter", n(expected), x, axis, index, value, reduce=reduce, **same)


def rows_problem(d):
    shape = d.shape(1)
    axis = d.axis(shape)
    index = d.index((d.pick(0, 1, 3, 8) if shape[axis] else 0,), shape[axis])
    rows = list(shape)
    rows[axis] = len(index)
    return shape, axis, index, t(positive(index, shape[axis])).long(), tuple(rows)


@given(d=problems)
def test_index_add_copy_fill_select(d):
    shape, axis, index, key, rows = rows_problem(d)
    for dtype in ALL:
        x, source = d.small(shape, dtype), d.small(rows, dtype)
        check(d, KIND, "index_add", n(t(x).index_add(axis, key, t(source))), x, axis, index, source)
        x, source = d.bytes(shape, dtype), d.bytes(rows, dtype)
        check(d, KIND, "index_copy", n(t(x).index_copy(axis, key, t(source))), x, axis, index, source)
        value = d.small((), dtype)
        expected = n(t(x).index_fill(axis, key, value.item()))
        check(d, KIND, "index_fill", expected, x, axis, index, value.item())
        check(d, KIND, "index_fill", expected, x, axis, index, value)
        check(d, KIND, "index_select", n(t(x).index_select(axis, key)), x, axis, index)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mul", "mean", "amax", "amin"])
@given(d=problems)
def test_index_reduce(d, reduce, include_self):
    shape, axis, index, key, rows = rows_problem(d)
    for dtype in types_of(reduce):
        if dtype.kind in "bc" or reduce == "mul" and dtype in HALVES:
            continue  # in torch only for some shapes
        x, source = d.exact(shape, dtype, reduce), d.exact(rows, dtype, reduce)
        expected = t(x).index_reduce(axis, key, t(source), TORCH_NAMES[reduce], include_self=include_self)
        check(d, KIND, "index_reduce", n(expected), x, axis, index, source, reduce, include_self,
              same=same_bits if dtype.kind in "iu" else same_numbers)


@pytest.mark.parametrize("accumulate", [False, True])
@given(d=problems)
def test_index_put(d, accumulate):
    shape = d.shape(1)
    depth = d.integer(1, len(shape))
    outer = d.shape(0, 2, (1, 2, 5, 0)) if all(shape[:depth]) else (0,)
    indices = [d.index(outer, size) for size in shape[:depth]]
    if d.flag() and outer:
        indices[0] = indices[0][..., :1]  # they broadcast together
    value_shape = d.spread((*np.broadcast_shapes(*[i.shape for i in indices]), *shape[depth:]))
    for dtype in ALL:
        make = d.small if accumulate else d.bytes
        x, value = make(shape, dtype), make(value_shape, dtype)
        expected = t(x).index_put(tuple(t(i).long() for i in indices), t(value), accumulate=accumulate)
        check(d, KIND, "index_put", n(expected), x, indices, value, accumulate)


@pytest.mark.parametrize("accumulate", [False, True])
@given(d=problems)
def test_index_put_with_masks(d, accumulate):
    shape = d.shape(1)
    depth = d.integer(1, len(shape))
    mask = d.bytes(shape[:depth], np.dtype(bool))
    indices = [mask]
    key = [t(mask)]
    count = int(mask.sum())
    if depth < len(shape) and shape[depth] and d.flag():
        indices.append(d.index((d.pick(1, count),), shape[depth]))
        key.append(t(indices[1]).long())
        depth += 1
    outer = np.broadcast_shapes((count,), *[i.shape for i in indices[1:]])
    value_shape = d.spread((*outer, *shape[depth:]))
    for dtype in ALL:
        make = d.small if accumulate else d.bytes
        x, value = make(shape, dtype), make(value_shape, dtype)
        expected = t(x).index_put(tuple(key), t(value), accumulate=accumulate)
        check(d, KIND, "index_put", n(expected), x, indices, value, accumulate)


@given(d=problems)
def test_masks(d):
    shape = d.shape()
    mask = d.bytes(d.spread(shape), np.dtype(bool))
    count = int(np.broadcast_to(mask, shape).sum())
    extra = d.pick(0, 0, 3)
    x_shape = d.spread(shape) if d.flag() else shape
    result_shape = np.broadcast_shapes(mask.shape, x_shape)
    count = int(np.broadcast_to(mask, result_shape).sum())
    value_shape = d.pick((count + extra,), (1, count + extra))
    for dtype in ALL:
        x, value = d.bytes(x_shape, dtype), d.bytes(value_shape, dtype)
        check(d, KIND, "masked_scatter", n(t(x).masked_scatter(t(mask), t(value))), x, mask, value)
        scalar = d.small((), dtype)
        expected = n(t(x).masked_fill(t(mask), scalar.item()))
        check(d, KIND, "masked_fill", expected, x, mask, scalar.item())
        check(d, KIND, "masked_fill", expected, x, mask, scalar)
        check(d, KIND, "masked_select", n(t(x).masked_select(t(mask))), x, mask)
        sparse = x * d.bytes(x_shape, np.dtype(bool)) if dtype.kind in "biu" else d.small(x_shape, dtype)
        check(d, KIND, "nonzero", n(t(sparse).nonzero()), sparse)


@given(d=problems)
def test_regular_places(d):
    shape = d.shape(2)
    axis1, axis2 = d.rng.permutation(len(shape))[:2].tolist()
    if d.flag():
        axis2 -= len(shape)
    offset = d.integer(-4, 4)
    dim = d.axis(shape)
    size = shape[dim]
    start, stop, step = d.pick(None, -9, -2, 0, 1), d.pick(None, -1, 2, 3, 9), d.integer(1, 3)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        diagonal = t(x).diagonal(offset, axis1, axis2)
        check(d, KIND, "diagonal", n(diagonal), x, offset, axis1, axis2)
        src = d.bytes(tuple(diagonal.shape), dtype)
        check(d, KIND, "diagonal_scatter", n(t(x).diagonal_scatter(t(src), offset, axis1, axis2)), x, src, offset,
              axis1, axis2)
        if size:
            position = d.integer(-size, size - 1)
            selected = t(x).select(dim, position)
            check(d, KIND, "select", n(selected), x, dim, position)
            src = d.bytes(tuple(selected.shape), dtype)
            check(d, KIND, "select_scatter", n(t(x).select_scatter(t(src), dim, position)), x, src, dim, position)
        cut = [slice(None)] * len(shape)
        cut[dim] = slice(start, stop, step)
        piece = x[tuple(cut)]
        check(d, KIND, "slice", piece, x, dim, start, stop, step)
        src = d.bytes(piece.shape, dtype)
        expected = t(x).slice_scatter(t(src), dim, start, stop, step)
        check(d, KIND, "slice_scatter", n(expected), x, src, dim, start, stop, step)


@given(d=problems)
def test_fill_diagonal(d):
    shape = d.shape(2, 2, (1, 2, 3, 5, 9)) if d.flag() else (d.integer(1, 4),) * d.integer(3, 4)
    wrap = d.flag()
    for dtype in ALL:
        x, value = d.bytes(shape, dtype), d.small((), dtype)
        expected = n(t(x).clone().fill_diagonal_(value.item(), wrap=wrap))
        check(d, KIND, "fill_diagonal", expected, x, value.item(), wrap)
        check(d, KIND, "fill_diagonal", expected, x, value, wrap)


@given(d=problems)
def test_gather(d):
    shape, axis, index, key, _ = along_axis_problem(d)
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        expected = n(t(x).gather(axis, key))
        check(d, KIND, "gather", expected, x, axis, index, **equal("assign", dtype))
        check(d, KIND, "take_along_axis", expected, x, index, axis, broadcast=False, **equal("assign", dtype))


@given(d=problems)
def test_views(d):
    shape = d.shape(1)
    axis1, axis2 = d.axis(shape), d.axis(shape)
    first, last = sorted(d.integer(0, len(shape) - 1) for _ in range(2))
    for dtype in ALL:
        x = d.bytes(shape, dtype)
        check(d, KIND, "transpose", n(t(x).transpose(axis1, axis2)), x, axis1, axis2)
        check(d, KIND, "flatten", n(t(x).flatten(first, last)), x, first, last)
        check(d, KIND, "reshape", n(t(x).reshape(shape[::-1])), x, shape[::-1])
        wide = (2, *shape)
        check(d, KIND, "broadcast_to", n(t(x).broadcast_to(wide)), x, wide)


def test_results_keep_the_order_of_dimensions_as_torch_s_do():
    x = torch.zeros(2, 3, 4).permute(2, 0, 1)
    for result, expected in (
            (sow.select_scatter(x, torch.ones(2, 3), 0, 1), x.select_scatter(torch.ones(2, 3), 0, 1)),
            (sow.slice_scatter(x, torch.ones(2, 2, 3), 0, 1, 3), x.slice_scatter(torch.ones(2, 2, 3), 0, 1, 3)),
            (sow.diagonal_scatter(x, torch.ones(3, 2)), x.diagonal_scatter(torch.ones(3, 2)))):
        assert result.stride() == expected.stride()


# -- where torch parts from the contract. Each test fails once torch and sow agree: then move the case up. ---------------


def test_torch_sums_halves_in_their_own_type():
    """torch.index_add rounds after every bfloat16 term; sums are exact here."""
    ones, key = torch.ones(1000, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.int64)
    zero = torch.zeros(1, dtype=torch.bfloat16)
    assert zero.index_add(0, key, ones).item() == 256
    assert sow.index_add(zero, 0, key, ones).item() == 1000


def test_torch_sums_in_order():
    terms, key = torch.tensor([1e20, 1, -1e20, 1]), torch.zeros(4, dtype=torch.int64)
    assert torch.zeros(1).scatter_add(0, key, terms).item() == 1
    assert sow.scatter_add(torch.zeros(1), 0, key, terms).item() == 2


def test_torch_overflows_on_the_way():
    terms, key = torch.tensor([1e30, 1e30, 1e-30, 1e-30]), torch.zeros(4, dtype=torch.int64)
    one = torch.ones(1)
    assert one.scatter_reduce(0, key, terms, "prod").item() == np.inf
    assert abs(sow.scatter_reduce(one, 0, key, terms, "prod").item() - 1) < 1e-6


def test_torch_wraps_integer_means_in_their_own_type():
    """Here the sum of a mean is an int64 whatever the type."""
    x, key, src = torch.tensor([100], dtype=torch.int8), torch.tensor([0, 0]), torch.full((2,), 100, dtype=torch.int8)
    assert x.scatter_reduce(0, key, src, "mean").item() == 14
    assert sow.scatter_reduce(x, 0, key, src, "mean").item() == 100
    assert x.index_reduce(0, key, src, "mean").item() == 14
    assert sow.index_reduce(x, 0, key, src, "mean").item() == 100


def test_torch_leaves_the_sign_of_zero_to_the_order():
    """-0 < +0 here; torch keeps whichever came first."""
    x, src, key = torch.tensor([-0.0]), torch.tensor([0.0]), torch.tensor([0])
    assert torch.signbit(x.scatter_reduce(0, key, src, "amax"))
    assert not torch.signbit(sow.scatter_reduce(x, 0, key, src, "amax"))


def test_torch_carries_a_nan_s_payload_through_reductions():
    x = torch.tensor([0x7FC01234], dtype=torch.int32).view(torch.float32)
    key, one = torch.tensor([0]), torch.ones(1)
    assert x.scatter_reduce(0, key, one, "amax").view(torch.int32).item() == 0x7FC01234
    assert sow.scatter_reduce(x, 0, key, one, "amax").view(torch.int32).item() == 0x7FC00000


def test_torch_changes_halves_that_it_does_not_touch():
    """A scatter of halves goes through float32 and back, which forgets the payload of a NaN; moves keep bytes here."""
    bits = torch.tensor([0, 0x7E01], dtype=torch.int16)
    key, one = torch.tensor([0]), torch.ones(1, dtype=torch.float16)
    assert bits.view(torch.float16).scatter(0, key, one).view(torch.int16)[1].item() != 0x7E01
    assert sow.scatter(bits.view(torch.float16), 0, key, one).view(torch.int16)[1].item() == 0x7E01


def test_torch_multiplies_no_halves_by_an_index_where_slices_have_one_element():
    """It fails in an assertion of its own, for this reduction of these types only."""
    x, key, source = torch.ones(2, 1).half(), torch.zeros(8, dtype=torch.int64), torch.full((8, 1), 2.0).half()
    with pytest.raises(RuntimeError):
        x.index_reduce(0, key, source, "prod")
    assert sow.index_reduce(x, 0, key, source, "prod").tolist() == [[256], [1]]


@pytest.mark.parametrize("op", ["scatter_add", "index_add", "index_copy"])
def test_torch_takes_no_negative_index(op):
    x, key, src = torch.zeros(3), torch.tensor([-1]), torch.ones(1)
    with pytest.raises((IndexError, RuntimeError)):
        getattr(x, op)(0, key, src)
    assert getattr(sow, op)(x, 0, key, src).tolist() == [0, 0, 1]


def test_torch_takes_an_empty_index_of_any_rank():
    """Here the rank of an index is checked even where it is empty."""
    x, key = torch.zeros(2, 3), torch.zeros(0, dtype=torch.int64)
    assert torch.equal(x.scatter(0, key, torch.zeros(0)), x)
    with pytest.raises(ValueError, match="rank"):
        sow.scatter(x, 0, key, torch.zeros(0))


def test_torch_writes_part_of_a_masked_scatter_that_lacks_values():
    """Here a call that fails has written nothing."""
    x, mask, few = torch.zeros(3), torch.tensor([True, True, True]), torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError):
        x.masked_scatter_(mask, few)
    assert x.tolist() == [1, 2, 0]
    y = torch.zeros(3)
    with pytest.raises(ValueError):
        sow.masked_scatter_(y, mask, few)
    assert y.tolist() == [0, 0, 0]


def test_torch_agrees_with_fractions_where_it_is_exact():
    """The two oracles are one: small integers as floats."""
    rng = np.random.default_rng(7)
    index, src = rng.integers(0, 5, 100), rng.integers(-9, 9, 100).astype("f4")
    expected = exact.fold(np.zeros(5, "f4"), index, src, "add")
    assert torch.zeros(5).scatter_add(0, torch.from_numpy(index), torch.from_numpy(src)).tolist() == expected.tolist()

# SPDX-License-Identifier: Apache-2.0
"""The forms that other libraries' users write, against those libraries: factors, numbers and reductions, axes left out,
several axes, narrow values into wide destinations, results into arrays that are there."""

import fractions

import numpy as np
import pytest

import sow

import peers

torch, paddle, ml_dtypes = peers.torch, peers.paddle, peers.ml_dtypes
random = np.random.default_rng(23)


def drawn(shape, dtype):
    """Values of every sign and size that the type has."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return (random.standard_normal(shape) * np.exp2(random.integers(-12, 12, shape))).astype(dtype)


# -- numbers, factors, reductions


def test_numbers_as_sources():
    x, keys = np.arange(4.0), np.array([0, 2, 2])
    expected = x.copy()
    np.add.at(expected, keys, 1.5)
    assert sow.index_add(x, 0, keys, 1.5).tolist() == sow.scatter_add(x, 0, keys, 1.5).tolist() == expected.tolist()
    assert sow.tensor_scatter_nd_add(x, keys[:, None], 1.5).tolist() == expected.tolist()
    assert sow.index_reduce(x, 0, keys, 1.5, "amax").tolist() == [1.5, 1, 2, 3]
    assert sow.scatter_reduce(x, 0, keys, 2, "mul", include_self=False).tolist() == [2, 1, 4, 3]
    assert sow.tensor_scatter_nd_max(np.arange(3), [[0]], 7).tolist() == [7, 1, 2]
    with pytest.raises(TypeError, match="index_add: the scalar 1.5 does not fit int64"):
        sow.index_add(np.zeros(3, "i8"), 0, keys, 1.5)
    ours = sow.zeros([3], "float64", requires_grad=True)
    (sow.index_add(ours, 0, [1], 2.0) * 3).sum().backward()
    assert ours.grad.tolist() == [3, 3, 3]


@pytest.mark.skipif(torch is None, reason="torch is not here")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_alpha_of_index_add(dtype):
    x, rows, keys = (drawn((5, 3), "i1").astype(dtype) for _ in "ab"), drawn((4, 3), "i1").astype(dtype), [4, 0, 0, 2]
    x = next(x)
    for alpha in (1, -1, 3, *([0.5] if dtype[0] in "fc" else []), *([2j] if dtype[0] == "c" else [])):
        expected = torch.tensor(x).index_add(0, torch.tensor(keys), torch.tensor(rows), alpha=alpha).numpy()
        assert sow.index_add(x, 0, keys, rows, alpha=alpha).tolist() == expected.tolist()
        copy = x.copy()
        assert sow.index_add_(copy, 0, keys, rows, alpha=alpha) is copy
        assert copy.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="alpha scales a tensor"):
        sow.index_add(x, 0, keys, 1, alpha=2)
    with pytest.raises(TypeError, match="alpha is a list; it must be a number"):
        sow.index_add(x, 0, keys, rows, alpha=[2])


AT = {"add": np.add, "mul": np.multiply, "amin": np.minimum, "amax": np.maximum}


@pytest.mark.parametrize("name", AT)
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1"])
def test_reductions_of_index_put(name, dtype):
    x, values = drawn((4, 5), dtype), drawn(30, dtype)
    if name in ("add", "mul") and dtype == "f8":
        x, values = np.round(x) % 3 + 1, np.round(values) % 2 + 1
    keys = random.integers(-4, 4, 30), random.integers(-5, 5, 30)
    expected = x.copy()
    AT[name].at(expected, keys, values)
    assert sow.index_put(x, keys, values, reduce=name).tolist() == expected.tolist()
    copy = x.copy()
    sow.index_put_(copy, keys, values, reduce=name)
    assert copy.tolist() == expected.tolist()
    mask = x > x.mean()
    under = np.where(mask, AT[name](x, values[0]), x)
    assert sow.index_put(x, (mask,), values[0], reduce=name).tolist() == under.astype(dtype).tolist()
    with pytest.raises(ValueError, match="accumulate adds, but reduce is mul; leave one of them out"):
        sow.index_put(x, keys, values, True, reduce="mul")


@pytest.mark.parametrize("key", [(None, 0), (None, None, 0), (0, None, 1), (None, 0, 1), (0, None), (None, 0, None, 1)])
def test_axes_left_out_of_index_put(key):
    x, keys = drawn((4, 3, 5, 2), "f8"), [random.integers(0, 2, (2, 3)), random.integers(0, 2, (3,))]
    ours = tuple(None if k is None else keys[k] for k in key)
    theirs = tuple(slice(None) if k is None else keys[k] for k in key)
    expected = x[theirs]
    found = sow.index_get(x, ours)
    assert found.shape == expected.shape and found.tolist() == expected.tolist()
    for value in (2.0, drawn(expected.shape, "f8"), drawn(expected.shape[-2:], "f8")):
        changed = x.copy()
        changed[theirs] = value
        assert sow.index_put(x, ours, value).tolist() == changed.tolist()
        copy = x.copy()
        assert sow.index_put_(copy, ours, value) is copy
        assert copy.tolist() == changed.tolist()
        run = sow.jit(lambda a, b, c, value=value: sow.index_put(a, tuple(None if k is None else (b, c)[k] for k in key), value))
        assert run(x, *keys).tolist() == changed.tolist()
        total = x.copy()
        np.add.at(total, theirs, np.ones(expected.shape))
        assert np.allclose(sow.index_put(x, ours, 1.0, accumulate=True), total)
    a = sow.tensor(x, requires_grad=True)
    b = a * 1
    sow.index_put_(b, ours, 0.0)
    b.sum().backward()
    zero = np.ones_like(x)
    zero[theirs] = 0
    assert a.grad.tolist() == zero.tolist()
    with pytest.raises(ValueError, match="no indices"):
        sow.index_put(x, (None, None), 1.0)


# -- narrow values into wide destinations

WIDER = [("f2", "f4"), ("f2", "f8"), ("f4", "f8"), ("i1", "i8"), ("u1", "i2"), ("i2", "i4"), ("i4", "i8"), ("i4", "f8"),
         ("u1", "f4"), ("i2", "f4"), ("?", "i8"), ("?", "f8"), ("i1", "f2"), ("c8", "c16")]


@pytest.mark.parametrize("narrow,wide", WIDER)
def test_narrow_values_are_added_to_wide_places(narrow, wide):
    x, rows, keys = drawn((3, 2), wide), drawn((40, 2), narrow), random.integers(0, 3, 40)
    if np.dtype(wide).kind == "f":
        x = drawn((3, 2), "f2").astype(wide)
    values = rows.astype(wide)
    for name in ("add", "mean"):
        expected = sow.index_reduce(x, 0, keys, values, name)
        assert sow.index_reduce(x, 0, keys, rows, name).tobytes() == expected.tobytes()
        along = np.repeat(keys[:, None], 2, 1)
        assert sow.scatter_reduce(x, 0, along, rows, name).tobytes() == expected.tobytes()
        assert sow.put_along_axis(x, along, rows, 0, name).tobytes() == expected.tobytes()
        assert sow.index_put(x, (keys,), rows, reduce=name).tobytes() == expected.tobytes()
        copy = x.copy()
        sow.index_reduce_(copy, 0, keys, rows, name)
        assert copy.tobytes() == expected.tobytes()
        run = sow.jit(lambda a, b, c, name=name: sow.index_reduce(a, 0, b, c, name))
        assert run(x, keys, rows).tobytes() == expected.tobytes()
    assert sow.tensor_scatter_nd_add(x, keys[:, None], rows).tobytes() == sow.index_add(x, 0, keys, values).tobytes()
    if np.dtype(wide).kind == "f":  # the real sum, rounded once
        for place in range(3):
            exact = sum((fractions.Fraction(float(v)) for v in values[keys == place, 0]), fractions.Fraction(float(x[place, 0])))
            found = fractions.Fraction(float(sow.index_add(x, 0, keys, rows)[place, 0]))
            both = [fractions.Fraction(float(np.nextafter(x.dtype.type(float(found)), x.dtype.type(to)))) for to in (-np.inf, np.inf)]
            assert all(abs(found - exact) <= abs(other - exact) for other in both)


@pytest.mark.parametrize("source,destination", [("f8", "f4"), ("f4", "f2"), ("i8", "f8"), ("i4", "f4"), ("i8", "i4"),
                                                ("i1", "u1"), ("f4", "i8"), ("u1", "i1"), ("f4", "c8"), ("i1", "?")])
def test_what_a_destination_cannot_hold_is_refused(source, destination):
    x = np.ones(2, destination)
    with pytest.raises(TypeError, match="must have the same type"):
        sow.index_add_(x, 0, [0], np.ones(1, source))
    assert x.tolist() == np.ones(2, destination).tolist()
    with pytest.raises(TypeError, match="must have the same type"):
        sow.scatter_reduce(np.ones(2, "f8"), 0, [0], np.ones(1, "f4"), "amax")


def test_gradients_of_narrow_values():
    x, rows = sow.zeros([2], "float64", requires_grad=True), sow.tensor([1, 2, 3], "float32", requires_grad=True)
    y = sow.index_add(x, 0, [0, 1, 1], rows)
    (y * sow.tensor([0.1, 3.0], "float64")).sum().backward()
    assert rows.grad.dtype == sow.float32 and rows.grad.tolist() == [float(np.float32(0.1)), 3.0, 3.0]
    assert x.grad.dtype == sow.float64 and x.grad.tolist() == [0.1, 3.0]


@pytest.mark.skipif(torch is None, reason="torch is not here")
def test_narrow_values_inside_of_torch():
    x, keys = torch.zeros(3, dtype=torch.float32, requires_grad=True), torch.tensor([0, 2, 2])
    rows = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    y = sow.index_add(x, 0, keys, rows)
    assert y.dtype == torch.float32 and y.tolist() == [1, 0, 2]
    y.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert rows.grad.dtype == torch.bfloat16 and rows.grad.tolist() == [1, 3, 3]
    many = sow.index_add(torch.zeros(1), 0, torch.zeros(1000, dtype=torch.int64), torch.ones(1000, dtype=torch.bfloat16))
    assert many.tolist() == [1000]


# -- regular places


@pytest.mark.skipif(paddle is None, reason="paddle is not here")
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (7, 3), (9, 2), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_offsets_of_fill_diagonal(shape, wrap):
    for offset in range(-shape[-1] - 1, shape[-1] + 2):
        x = drawn(shape, "f4")
        if len(shape) > 2 and offset:
            continue  # Paddle writes outside of the row there
        expected = paddle.to_tensor(x).fill_diagonal_(7.0, offset=offset, wrap=wrap).numpy()
        assert sow.fill_diagonal(x, 7.0, wrap, offset=offset).tolist() == expected.tolist()
        x = np.asfortranarray(x)
        sow.fill_diagonal_(x, 7.0, wrap, offset=offset)
        assert x.tolist() == expected.tolist()
    ours = sow.tensor(drawn(shape, "f4"), requires_grad=True)
    sow.fill_diagonal(ours, 7.0, wrap, offset=1).sum().backward()
    assert ours.grad.tolist() == sow.fill_diagonal(np.ones(shape, "f4"), 0.0, wrap, offset=1).tolist()


def test_slices_of_several_axes():
    x = drawn((5, 6, 4), "f8")
    for axes, starts, ends, steps, shape in [([0, 1], [1, 0], [5, 6], [2, 3], (2, 2, 4)), ([2, 0], [1, -2], [None, None], [1, 1], (1, 3)),
                                             ([-1, 1], [0, 1], [4, 2], [2, 1], ()), ((0, 1, 2), None, None, 1, (6, 1))]:
        key = [slice(None)] * 3
        for n, axis in enumerate(axes):
            start, end = (given[n] if given else None for given in (starts, ends))
            key[axis] = slice(start, end, steps if isinstance(steps, int) else steps[n])
        src, expected = drawn(shape, "f8"), x.copy()
        expected[tuple(key)] = src
        assert sow.slice_scatter(x, src, axes, starts, ends, steps).tolist() == expected.tolist()
        copy = x.copy()
        assert sow.slice_scatter_(copy, src, axes, starts, ends, steps) is copy
        assert copy.tolist() == expected.tolist()
        a, b = sow.tensor(x, requires_grad=True), sow.tensor(src, requires_grad=True)
        weight = drawn(x.shape, "i1").astype("f8")
        (sow.slice_scatter(a, b, axes, starts, ends, steps) * sow.tensor(weight)).sum().backward()
        outside = weight.copy()
        outside[tuple(key)] = 0
        assert a.grad.tolist() == outside.tolist() and b.grad.shape == src.shape
    with pytest.raises(ValueError, match="axis -3 is given twice"):
        sow.slice_scatter(x, 0 * x, [0, -3], [0, 0], [1, 1])
    with pytest.raises(ValueError, match="2 axes, 1 starts"):
        sow.slice_scatter(x, 0 * x, [0, 1], [0], [1, 1])
    with pytest.raises(ValueError, match="does not broadcast to the part"):
        sow.slice_scatter(x, np.zeros(7), [0, 1], [0, 0], [1, 1])


def test_values_and_indices_with_an_extent_of_one():
    x, mask = drawn((3, 2), "f4"), np.array([[True, False]] * 3)
    one = np.float32(7).reshape(1)
    assert sow.masked_fill(x, mask, one).tolist() == sow.masked_fill(x, mask, 7.0).tolist()
    assert sow.index_fill(x, 0, [1], one).tolist() == sow.index_fill(x, 0, [1], 7.0).tolist()
    assert sow.fill_diagonal(x, one).tolist() == sow.fill_diagonal(x, 7.0).tolist()
    value = sow.tensor([7.0], requires_grad=True)
    sow.masked_fill(sow.tensor(x), sow.tensor(mask), value).sum().backward()
    assert value.grad.tolist() == [3.0]
    keys = np.array([[2], [0]])
    assert sow.index_select(x, 0, keys).tolist() == x[[2, 0]].tolist()
    assert sow.index_copy(x, 0, keys, x[:2]).tolist() == sow.index_copy(x, 0, keys[:, 0], x[:2]).tolist()
    with pytest.raises(ValueError, match=r"value has shape \[2\]"):
        sow.masked_fill(x, mask, np.ones(2, "f4"))


@pytest.mark.skipif(torch is None, reason="torch is not here")
def test_without_dimensions():
    for keys in ([0], [-1]):
        ours = sow.index_select(torch.tensor(3.0), 0, torch.tensor(keys))
        # Not torch.index_select: PyTorch Geometric, once imported, puts one of its own there that takes no 0-d tensor.
        assert ours.shape == torch.ops.aten.index_select(torch.tensor(3.0), 0, torch.tensor([0])).shape == ()
    with pytest.raises(ValueError, match="0-d, which takes one index, not 2"):
        sow.index_select(np.array(3.0), 0, [0, 0])
    x = torch.tensor([[0, 3], [4, 0]])
    for given in (x, torch.tensor(5), torch.zeros(0, 2)):
        ours, theirs = sow.nonzero(given, as_tuple=True), torch.nonzero(given, as_tuple=True)
        assert [o.tolist() for o in ours] == [t.tolist() for t in theirs]
    assert sow.nonzero(x, as_tuple=False).tolist() == x.nonzero().tolist()
    assert [c.tolist() for c in sow.tensor(x).nonzero(as_tuple=True)] == [[0, 1], [1, 0]]


def test_where_of_numbers_and_of_types_that_differ():
    mask = np.array([True, False])
    for a, b, dtype in [(1, 2, "i8"), (1.5, 2, "f4"), (True, False, "?"), (1, 2j, "c8"), (True, 3, "i8")]:
        found = sow.where(mask, a, b)
        assert found.dtype == dtype and found.tolist() == [a, b]
    for a, b, dtype in [("f4", "f8", "f8"), ("i4", "f4", "f8"), ("u1", "i1", "i2"), ("i1", "f2", "f2"), ("i2", "f2", "f4"),
                        ("?", "i4", "i4"), ("c8", "c16", "c16")]:
        for first, second in ((a, b), (b, a)):
            found = sow.where(mask, np.ones(2, first), np.zeros(2, second))
            assert found.dtype == dtype and found.tolist() == [1, 0]
    for a, b in [("i8", "f4"), ("f4", "c8")]:
        with pytest.raises(TypeError, match="must have the same type"):
            sow.where(mask, np.ones(2, a), np.zeros(2, b))


# -- results into arrays that are there


def test_results_go_where_out_says():
    x, keys = drawn((4, 3), "f4"), np.array([2, 0])
    calls = [(sow.index_add, (x, 0, keys, x[:2])), (sow.index_select, (x, 0, keys)), (sow.masked_fill, (x, x > 0, 0.0)),
             (sow.scatter_nd, (keys[:, None], x[:2], [4, 3])), (sow.where, (x > 0, x, 0.0)), (sow.group_reduce, (x, [0, 1, 1, 0], "var")),
             (sow.bincount, (keys,)), (sow.add, (x, x)), (sow.sum, (x, 0)), (sow.take_along_axis, (x, keys, None)), (sow.nonzero, (x,))]
    for function, given in calls:
        expected = np.asarray(function(*given))
        for order in "CF":
            out = np.full(expected.shape, 99, expected.dtype, order=order)
            for _ in range(3):
                assert function(*given, out=out) is out
                assert out.tobytes() == expected.tobytes()
        with pytest.raises(ValueError, match=r"out has shape \[7\]"):
            function(*given, out=np.zeros(7, expected.dtype))
        other = np.zeros(expected.shape, "i2")
        with pytest.raises(TypeError, match="out is int16, the result is"):
            function(*given, out=other)
        frozen = np.zeros_like(expected)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            function(*given, out=frozen)
    assert sow.index_add(x, 0, keys, x[:2], out=x) is x  # as if it were read first
    moved = np.arange(5, dtype="u2")
    assert sow.index_select(moved, 0, keys, out=np.zeros(2, "u2")).tolist() == [2, 0]
    out = np.full(2, 5.0)
    with pytest.raises(IndexError):
        sow.index_select(np.zeros(3), 0, [0, 9], out=out)
    assert out.tolist() == [5, 5]


def test_out_is_no_part_of_graphs():
    out = sow.zeros([2])
    a = sow.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match="out= is for arrays at hand"):
        sow.index_select(a, 0, [0, 1], out=out)
    program = sow.Program()
    with pytest.raises(ValueError, match="out= is for arrays at hand"):
        sow.index_select(program.input("x", [2], "float32"), 0, sow.tensor([0, 1]), out=out)
    if torch is not None:
        with pytest.raises(ValueError, match="out= is for arrays at hand"):
            sow.index_select(torch.ones(2, requires_grad=True), 0, torch.tensor([0, 1]), out=torch.zeros(2))
        plain = torch.zeros(2)
        assert sow.index_select(torch.arange(3.0), 0, torch.tensor([2, 1]), out=plain) is plain and plain.tolist() == [2, 1]
        assert plain._version == 1


# -- unsigned integers


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8"])
def test_extremes_of_unsigned_integers(dtype):
    x, values, keys = drawn(6, dtype), drawn(40, dtype), random.integers(0, 6, 40)
    for name in ("amax", "amin"):
        expected = x.copy()
        AT[name].at(expected, keys, values)
        alone = np.array([AT[name].reduce(values[keys == k]) if (keys == k).any() else x[k] for k in range(6)], dtype)
        for _ in range(3):
            assert sow.index_reduce(x, 0, keys, values, name).tolist() == expected.tolist()
        assert sow.scatter_reduce(x, 0, keys, values, name, include_self=False).tolist() == alone.tolist()
        assert sow.index_put(x, (keys,), values, reduce=name).tolist() == expected.tolist()
        copy = x.copy()
        assert sow.put_along_axis_(copy, keys, values, 0, name) is copy
        assert copy.tolist() == expected.tolist() and copy.dtype == x.dtype
        assert sow.put_along_axis(x, [0], 7, 0, name).tolist() == [AT[name](x[0], np.array(7, dtype)), *x[1:]]
        grouped = sow.group_reduce(values, keys, name, size=6)
        empty = 0 if name == "amax" else np.iinfo(dtype).max
        assert grouped.dtype == values.dtype
        assert grouped.tolist() == [getattr(values[keys == k], name[1:])(initial=empty) for k in range(6)]
    assert sow.tensor_scatter_nd_max(x, keys[:, None], values).tolist() == sow.index_reduce(x, 0, keys, values, "amax").tolist()
    assert sow.bincount(np.array([0, 2], dtype)).tolist() == [1, 0, 1]

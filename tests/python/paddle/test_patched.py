# SPDX-License-Identifier: Apache-2.0
"""Paddle's functions with sow under them, over the shapes, types and mistakes that Paddle tests them with itself:
results and gradients are Paddle's, sums within rounding."""

import contextlib

import numpy as np
import pytest

import peers

if peers.paddle is None:
    pytest.skip("going on without paddle", allow_module_level=True)

import paddle

import sow.paddle

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")


def numbers(shape, dtype="float32", seed=0):
    drawn = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (drawn * 8 if dtype in INTEGERS else drawn > 0 if dtype == "bool" else drawn).astype(dtype)


def mask(shape, seed=1):
    return np.random.default_rng([seed, *shape]).random(shape) < 0.5


def keys(high, shape, dtype="int64", seed=2):
    return np.random.default_rng([seed, high, *shape]).integers(0, high, shape).astype(dtype)


def distinct(high, count, dtype="int64", seed=3):
    return np.random.default_rng([seed, high, count]).permutation(high)[:count].astype(dtype)


class Case:
    """One call: a name of Paddle's, arrays (a tuple of them is one argument), and what else it takes."""

    def __init__(self, name, *args, **kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs

    def __repr__(self):
        def word(value):
            if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
                return "(" + " ".join(map(word, value)) + ")"
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)
        return "-".join([self.name, *map(word, self.args), *(f"{k}={word(v)}" for k, v in self.kwargs.items())])

    def made(self, gradients):
        def made(value):
            if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
                return tuple(item if item is None else paddle.to_tensor(item) for item in value)
            return paddle.to_tensor(value) if isinstance(value, np.ndarray) else value

        args = [made(value) for value in self.args]
        leaves = [a for a in args if isinstance(a, paddle.Tensor) and a.dtype in (paddle.float32, paddle.float64)]
        for leaf in leaves:
            leaf.stop_gradient = not gradients
        return args, leaves


def masked_scatter_cases():
    shapes = [((50, 3), (50, 3)), ((6, 8, 9, 18), (6, 8, 9, 18)), ((168,), (168,)), ((3, 40), (3, 1)), ((3, 3), (1, 3)),
              ((120,), (30, 120)), ((30, 40), (40,)), ((30, 1), (30, 40)), ((3, 0), (3, 0)), ((4, 5), (1, 1))]
    for x, m in shapes:
        count = int(np.prod(np.broadcast_shapes(x, m)))
        yield Case("masked_scatter", numbers(x), mask(m), numbers((2, count), seed=5))
    for dtype in (*FLOATS, *INTEGERS, "bool"):
        yield Case("masked_scatter", numbers((7, 5), dtype), mask((7, 5)), numbers((60,), dtype, 5))


def put_along_axis_cases():
    grids = [((10, 10, 10), np.array([[[0]]]), (1,), 1), ((1, 3), np.array([[0]]), (), 0),
             ((2, 2), np.array([[0, 0], [1, 0]]), (), 0), ((2, 2), np.array([[0, 0], [1, 0], [0, 0], [1, 0]]), (), 0),
             ((3, 5), np.array([[0, 1, 2, 0, 1]]), (1, 5), 0), ((3, 5), np.array([[4], [0], [2]]), (3, 1), -1)]
    for shape, index, value, axis in grids:
        values = numbers(value, seed=6) if value else 99.0
        for reduce in ("assign", "add", "mul", "amax", "amin", "mean"):
            for include_self in (True, False):
                yield Case("put_along_axis", numbers(shape), index, values, axis, reduce, include_self)
    for dtype in (*FLOATS, *INTEGERS):
        for kind in INTEGERS:
            yield Case("put_along_axis", numbers((4, 6), dtype), keys(4, (3, 6), kind), numbers((3, 6), dtype, 7), 0, "add")
    for index, axis in ((np.array([[0, 1, 2, 0]]), 0), (np.array([[0, 1, 2], [0, 1, 4]]), 1)):
        for reduce in ("assign", "add"):  # Paddle's gradient of a product reads other values here
            yield Case("put_along_axis", numbers((3, 5)), index, numbers((2, 5), seed=8), axis, reduce, True, False)


def diagonal_scatter_cases():
    for shape, offset, axes in [((10, 10), 0, (0, 1)), ((6, 4), 1, (0, 1)), ((6, 4), -2, (0, 1)), ((4, 5, 6), 0, (0, 1)),
                                ((4, 5, 6), 1, (2, 0)), ((4, 5, 6), -1, (-1, -2)), ((3, 2, 4, 5), 2, (1, 3))]:
        y = np.diagonal(np.zeros(shape), offset, *axes).shape
        for dtype in (*FLOATS, "int64") if len(shape) < 3 else ("float32",):
            yield Case("diagonal_scatter", numbers(shape, dtype), numbers(y, dtype, 9), offset, *axes)


def index_add_cases():
    for shape, count, axis in [((101, 3), 3, 0), ((7, 20, 5), 9, 1), ((7, 20, 5), 9, -1), ((30,), 50, 0), ((4, 5), 0, 0)]:
        for dtype in (*FLOATS, *INTEGERS) if axis == 0 else ("float32",):
            for kind in INTEGERS:
                value = [*shape]
                value[axis] = count
                yield Case("index_add", numbers(shape, dtype), keys(shape[axis], (count,), kind), axis,
                           numbers(value, dtype, 10))


def index_put_cases():
    for accumulate in (False, True):
        for dtype in (*FLOATS, *INTEGERS, "bool") if not accumulate else (*FLOATS, *INTEGERS):
            yield Case("index_put", numbers((100, 11), dtype), (distinct(100, 21), keys(11, (21,))),
                       numbers((21,), dtype, 11), accumulate)
        grid = (distinct(110, 64).reshape(4, 16), keys(42, (4, 16)), keys(6, (1, 16)))
        for value in ((4, 16, 5), (5,), (1,)):
            yield Case("index_put", numbers((110, 42, 6, 5)), grid, numbers(value, seed=12), accumulate)
        yield Case("index_put", numbers((110, 42, 6, 5)), (*grid, keys(5, (1, 16))), numbers((4, 16), seed=12), accumulate)
        yield Case("index_put", numbers((11, 9)), (np.arange(11) % 2 == 0,), numbers((6, 9), seed=13), accumulate)
        yield Case("index_put", numbers((11, 9)), (np.arange(11) % 2 == 0,), numbers((9,), seed=13), accumulate)
        yield Case("index_put", numbers((11, 9)), (np.arange(11) % 2 == 0,), numbers((1,), seed=13), accumulate)
        whole = mask((11, 9))
        yield Case("index_put", numbers((11, 9)), (whole,), numbers((int(whole.sum()),), seed=14), accumulate)
        yield Case("index_put", numbers((11, 9)), (np.zeros((11, 9), bool),), numbers((1,), seed=14), accumulate)
        yield Case("index_put", numbers((12, 9, 4)), (distinct(12, 5), np.arange(9) % 2 == 0), numbers((5, 4), seed=15),
                   accumulate)
        yield Case("index_put", numbers((12, 9), "float64"), (distinct(12, 5, "int32"), keys(9, (5,), "int32")),
                   numbers((5,), "float64", 16), accumulate)
        yield Case("index_put", numbers((12, 9)), (distinct(12, 5) - 12,), numbers((5, 9), seed=17), accumulate)


def scatter_cases():
    for kind in INTEGERS:
        for dtype in (*FLOATS, *INTEGERS):
            yield Case("scatter", numbers((3, 50), dtype), np.array([1, 2], kind), numbers((2, 50), dtype, 18))
            yield Case("scatter", numbers((3, 3), dtype), np.array([1, 1], kind), numbers((2, 3), dtype, 18), overwrite=False)
    yield Case("scatter", numbers((6,)), np.array([5, 0, 3]), numbers((3,), seed=19))
    yield Case("scatter", numbers((6, 2, 3)), np.array([[5], [0], [3]]), numbers((3, 2, 3), seed=19))
    yield Case("scatter", numbers((16, 4)), keys(16, (40,)), numbers((40, 4), seed=20), False)


def scatter_nd_add_cases():
    for x, index, updates in [((100,), np.array([[1], [2], [2]]), (3,)), ((10, 9, 8), keys(8, (5, 3)), (5,)),
                              ((10, 9, 8), keys(9, (5, 2)), (5, 8)), ((10, 9, 8), keys(9, (4, 3, 1)), (4, 3, 9, 8)),
                              ((3, 16, 5), keys(3, (100, 1)), (100, 16, 5)), ((6, 5), keys(5, (7, 2), "int32"), (7,))]:
        for dtype in (*FLOATS, *INTEGERS):
            yield Case("scatter_nd_add", numbers(x, dtype), index, numbers(updates, dtype, 21))


CASES = [*masked_scatter_cases(), *put_along_axis_cases(), *diagonal_scatter_cases(), *index_add_cases(),
         *index_put_cases(), *scatter_cases(), *scatter_nd_add_cases()]


def weight_of(result):
    return numbers(result.shape, str(result.dtype).split(".")[-1], 40)


def run(case, gradients, patched, name=None, owner=paddle):
    args, leaves = case.made(gradients)
    with sow.paddle.patched() if patched else contextlib.nullcontext():
        result = getattr(owner, name or case.name)(*args, **case.kwargs)
    found = [result]
    if gradients and leaves:
        found += [g if g is not None else paddle.zeros_like(leaf) for g, leaf in zip(
            paddle.grad(result, leaves, paddle.to_tensor(weight_of(result)), allow_unused=True), leaves)]
    return [t.numpy() for t in found]


def where_paddle_is_wrong(case, wanted):
    """Paddle gives y of diagonal_scatter no gradient, and values of put_along_axis one of the index's shape."""
    if case.name == "diagonal_scatter":
        wanted[2] = np.diagonal(weight_of(wanted[0]), *case.args[2:])
    elif case.name == "put_along_axis" and case.args[-1] is False and len(case.args) == 7:
        part, wanted[2] = wanted[2], np.zeros_like(case.args[2])
        wanted[2][tuple(slice(n) for n in part.shape)] = part
    return wanted


def same(found, wanted):
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if got.dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-10}
        np.testing.assert_allclose(got, want, **tolerance)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_results_and_gradients_are_paddles(case, monkeypatch):
    taken = []
    plain = sow.paddle.call
    monkeypatch.setattr(sow.paddle, "call", lambda *args, **kwargs: taken.append(args[0]) or plain(*args, **kwargs))
    same(run(case, False, True), run(case, False, False))
    assert taken  # by sow, and not left to Paddle
    if case.args[0].dtype.name in FLOATS:
        same(run(case, True, True), where_paddle_is_wrong(case, run(case, True, False)))


@pytest.mark.parametrize("case", CASES[::5], ids=repr)
def test_methods_and_in_place_forms(case):
    wanted = run(case, False, False)
    same(run(case, False, True, owner=paddle.Tensor), wanted)
    if hasattr(paddle, case.name + "_") and wanted[0].shape == case.args[0].shape:
        same(run(case, False, True, case.name + "_"), wanted)
        same(run(case, False, True, case.name + "_", paddle.Tensor), wanted)


def test_arguments_by_name():
    x, index, value = paddle.zeros([3]), paddle.to_tensor([0, 0]), paddle.ones([2])
    with sow.paddle.patched():
        assert paddle.index_add(x=x, index=index, axis=0, value=value).tolist() == [2, 0, 0]
        assert paddle.put_along_axis(arr=x, indices=index, values=value, axis=0, reduce="add").tolist() == [2, 0, 0]


X = numbers((5, 3))
MISTAKES = [
    Case("masked_scatter", X, mask((5, 3)).astype("int32"), X), Case("masked_scatter", X, mask((5, 3)), X.astype("float64")),
    Case("masked_scatter", X, np.ones((5, 3), bool), numbers((2, 2))), Case("put_along_axis", X, np.array([1]), 1.0, 0),
    Case("put_along_axis", X, np.array([[1]]), 1.0, 0, "most"),     Case("index_add", X, np.array([[0, 1]]), 0, numbers((2, 3))), Case("index_add", X, np.array([0, 1]), 7, numbers((2, 3))),
    Case("index_put", X, (np.array([0.5]),), numbers((1, 3))), Case("scatter_nd_add", X, np.array([[0, 1, 2]]), numbers((1,))),
    Case("diagonal_scatter", X, numbers((4,))),
]


@pytest.mark.parametrize("case", MISTAKES, ids=repr)
def test_mistakes_are_told_by_paddle(case):
    with pytest.raises(Exception) as plain:  # noqa: B017
        run(case, False, False)
    with pytest.raises(type(plain.value)) as patched:
        run(case, False, True)
    assert str(patched.value).strip().splitlines()[-1:] == str(plain.value).strip().splitlines()[-1:]


@pytest.mark.parametrize("case", [Case("index_add", X, np.array([9]), 0, X[:1]), Case("index_put", X, (np.array([9]),), X[:1]),
                                  Case("put_along_axis", X, np.array([[9]]), 1.0, 0), Case("scatter", X, np.array([9]), X[:1]),
                                  Case("scatter_nd_add", X, np.array([[9]]), X[:1])], ids=repr)
def test_an_index_out_of_range_writes_nothing(case):
    args, _ = case.made(False)
    with sow.paddle.patched():
        for name in (case.name, case.name + "_"):
            if hasattr(paddle, name):
                with pytest.raises(IndexError, match="index 9"):
                    getattr(paddle, name)(*args)
    assert args[0].numpy().tobytes() == X.tobytes()

# SPDX-License-Identifier: Apache-2.0
"""Every operation on Paddle's tensors that want gradients has the bits of sow's own tape."""

import framework_cases as cases
import numpy as np
import pytest

import peers

if peers.paddle is None:
    pytest.skip("going on without paddle", allow_module_level=True)

import paddle

import sow
import sow.paddle

smooth = pytest.mark.parametrize("case", cases.SMOOTH, ids=repr)


def arguments(case, wanted=True):
    """The arrays of a case as Paddle's, and those of them that want a gradient."""
    def made(value):
        if isinstance(value, tuple) and any(isinstance(item, np.ndarray) for item in value):
            return tuple(item if item is None else paddle.to_tensor(item) for item in value)
        return paddle.to_tensor(value) if isinstance(value, np.ndarray) else value

    args = [made(value) for value in case.args]
    leaves = [args[i] for i in case.floats]
    for leaf in leaves:
        leaf.stop_gradient = not wanted
    return args, leaves


def run(case, args):
    return getattr(sow, case.name)(*args, **case.kwargs)


@pytest.mark.parametrize("case", cases.CASES, ids=repr)
def test_results(case):
    for wanted in (False, True):
        found = run(case, arguments(case, wanted)[0])
        assert isinstance(found, paddle.Tensor)
        assert cases.bits(found.numpy()) == cases.bits(cases.eager(case))


@smooth
def test_gradients(case):
    args, leaves = arguments(case)
    grad = cases.weight(case)
    wanted = cases.eager_gradients(case, grad)
    found = paddle.grad(run(case, args), leaves, paddle.to_tensor(grad))
    assert [cases.bits(g.numpy()) for g in found] == [cases.bits(w) for w in wanted]
    for leaf, want in zip(leaves, wanted):  # one alone, which needs the others less
        found, = paddle.grad(run(case, args), [leaf], paddle.to_tensor(grad))
        assert cases.bits(found.numpy()) == cases.bits(want)
    run(case, args).backward(paddle.to_tensor(grad))
    assert [cases.bits(leaf.grad.numpy()) for leaf in leaves] == [cases.bits(w) for w in wanted]


@smooth
def test_gradients_of_gradients(case):
    args, leaves = arguments(case)
    outer = paddle.to_tensor(cases.weight(case))
    outer.stop_gradient = False
    weights = [cases.array(*value.shape, seed=60 + i).astype(value.dtype) for i, value in enumerate(case.values())]
    first = paddle.grad(run(case, args), leaves, outer, create_graph=True)
    found = paddle.grad(first, [*leaves, outer], [paddle.to_tensor(w) for w in weights], allow_unused=True)
    wanted = cases.eager_second(case, outer.numpy(), weights)
    for got, want in zip(found, wanted, strict=True):
        # The terms that come by way of different arguments are added by Paddle.
        np.testing.assert_allclose(np.zeros_like(want) if got is None else got.numpy(), want, rtol=1e-6, atol=1e-6)


def test_in_place_takes_part_in_the_graph():
    x = paddle.to_tensor(cases.X, stop_gradient=False)
    rows = paddle.to_tensor(cases.ROWS, stop_gradient=False)
    keys = paddle.to_tensor(cases.KEYS)
    y = x * 2
    assert sow.index_reduce_(y, 0, keys, rows, "mul") is y
    expected = sow.index_reduce(x * 2, 0, keys, rows, "mul")
    assert cases.bits(y.numpy()) == cases.bits(expected.numpy())
    for got, want in zip(paddle.grad((y * y).sum(), [x, rows]), paddle.grad((expected * expected).sum(), [x, rows])):
        assert cases.bits(got.numpy()) == cases.bits(want.numpy())
    with pytest.raises(RuntimeError, match="index_add_: x is a leaf that wants a gradient"):
        sow.index_add_(x, 0, keys, rows)
    with paddle.no_grad():
        sow.index_fill_(x, 0, keys, 1.0)
    assert x.numpy()[0, 0] == 1


def test_a_changed_tensor_is_an_error():
    rows = paddle.to_tensor(cases.ROWS, stop_gradient=False) * 1
    x = paddle.to_tensor(cases.X, stop_gradient=False) * 1
    y = sow.index_reduce(x, 0, paddle.to_tensor(cases.KEYS), rows, "amax")
    with paddle.no_grad():
        rows.zero_()
    with pytest.raises(OSError, match="index_reduce: a tensor that its gradient needs was written in place"):
        y.sum().backward()


@pytest.mark.parametrize(("error", "make", "sentence"), [
    (IndexError, lambda x: sow.index_add(x, 0, paddle.to_tensor([0, 9]), x[:2]), "index_add: index 9 at position"),
    (TypeError, lambda x: sow.index_add(x, 0, paddle.to_tensor([0, 1]), x[:2].astype("float64")), "same type"),
    (ValueError, lambda x: sow.index_add(x, 7, paddle.to_tensor([0, 1]), x[:2]), "index_add: "),
])
def test_errors(error, make, sentence):
    with pytest.raises(error, match=sentence):
        make(paddle.to_tensor(cases.X, stop_gradient=False))


def test_patched_functions_are_sows_and_come_back():
    keys, before = paddle.to_tensor(cases.KEYS), paddle.index_add
    x, rows = paddle.to_tensor(cases.X), paddle.to_tensor(cases.ROWS)
    ones, many = paddle.zeros([1], "bfloat16"), paddle.ones([1000], "bfloat16")
    with sow.paddle.patched(), sow.paddle.patched():
        assert paddle.index_add(ones, paddle.zeros([1000], "int32"), 0, many).item() == 1000
        assert cases.bits(paddle.index_add(x, keys, 0, rows).numpy()) == cases.bits(
            sow.index_add(cases.X, 0, cases.KEYS, cases.ROWS))
        y = x * 1
        assert y.put_along_axis_(paddle.to_tensor(cases.ALONG), 2.0, 0) is y
        assert cases.bits(y.numpy()) == cases.bits(sow.put_along_axis(cases.X, cases.ALONG, 2.0, 0, "assign"))
        w = paddle.to_tensor(cases.X, stop_gradient=False)
        paddle.masked_scatter(w, paddle.to_tensor(cases.MASK), paddle.ones([12])).sum().backward()
        assert w.grad.numpy().tolist() == (~cases.MASK).astype("f4").tolist()
        summed = paddle.scatter(x, keys.abs(), rows, overwrite=False)
        assert cases.bits(summed.numpy()) == cases.bits(
            sow.index_reduce(cases.X, 0, np.abs(cases.KEYS), cases.ROWS, "add", include_self=False))
        assert paddle.scatter_nd_add(x, paddle.to_tensor(cases.PAIRS), paddle.ones([3])).shape == x.shape
        assert paddle.index_put(x, (keys,), rows).shape == x.shape
        assert paddle.diagonal_scatter(x, paddle.ones([3])).numpy()[0, 0] == 1
    assert paddle.index_add is before

# SPDX-License-Identifier: Apache-2.0
"""Gradients from Python: against PyTorch where it is right, with a test for each place where it is not."""

import pathlib
import runpy
import threading

import numpy as np
import pytest

import sow

import peers

torch = peers.torch
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


def leaf(values, dtype="float64"):
    return sow.tensor(np.asarray(values, dtype)).requires_grad_()


def both_gradients(ours, theirs, *arrays):
    """The gradients of the same function of the same arrays, ours and PyTorch's."""
    mine = [leaf(a) for a in arrays]
    result = ours(*mine)
    weight = np.random.default_rng(1).normal(size=result.shape)
    result.backward(weight)
    tensors = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    theirs(*tensors).backward(torch.tensor(weight))
    return [np.asarray(a.grad) for a in mine], [t.grad.numpy() for t in tensors]


def random_case(seed=0):
    random = np.random.default_rng(seed)
    x, src = random.normal(size=(5, 6)), random.normal(size=(7, 6))
    index = random.integers(0, 5, size=(7, 6))
    return x, src, index


# -- PyTorch as the oracle -----------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_reduce_is_pytorch_s_without_ties(reduce, include_self, axis):
    x, src, index = random_case()
    if axis == 1:
        x, src, index = x.T.copy(), src.T.copy(), index.T.copy()
    mine, theirs = both_gradients(
        lambda a, b: sow.scatter_reduce(a, axis, index, b, reduce, include_self),
        lambda a, b: a.scatter_reduce(axis, torch.tensor(index), b, reduce, include_self=include_self), x, src)
    for ours, reference in zip(mine, theirs):
        np.testing.assert_allclose(ours, reference, rtol=1e-12, atol=1e-12)


@needs_torch
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros_are_pytorch_s(zeros):
    x, src = np.array([2.0, 3.0]), np.array([1.5, 2.5, -2.0, 4.0])
    src[:zeros] = 0
    mine, theirs = both_gradients(
        lambda a, b: sow.scatter_reduce(a, 0, [0, 0, 0, 1], b, "prod"),
        lambda a, b: a.scatter_reduce(0, torch.tensor([0, 0, 0, 1]), b, "prod"), x, src)
    for ours, reference in zip(mine, theirs):
        np.testing.assert_allclose(ours, reference, rtol=1e-12)


@needs_torch
def test_the_other_families_are_pytorch_s():
    x, src, _ = random_case()
    mask = np.random.default_rng(3).random((5, 6)) < 0.5
    rows = np.array([4, 0, 4, 2, 0, 1, 3])
    t = torch.tensor
    cases = [
        (lambda a, b: sow.index_add(a, 0, rows, b), lambda a, b: a.index_add(0, t(rows), b)),
        (lambda a, b: sow.masked_scatter(a, mask, b), lambda a, b: a.masked_scatter(t(mask), b)),
        (lambda a, b: sow.masked_fill(a, mask, 2.0) * sow.sum(b),
         lambda a, b: a.masked_fill(t(mask), 2.0) * b.sum()),
        (lambda a, b: sow.select_scatter(a, b[0], 0, -1), lambda a, b: a.select_scatter(b[0], 0, -1)),
        (lambda a, b: sow.slice_scatter(a, b[:2], 0, 1, 5, 3), lambda a, b: a.slice_scatter(b[:2], 0, 1, 5, 3)),
        (lambda a, b: sow.diagonal_scatter(a, b[0, :5], 1), lambda a, b: a.diagonal_scatter(b[0, :5], 1)),
        (lambda a, b: sow.gather(a, 0, rows.reshape(7, 1)) * b[:, :1],
         lambda a, b: a.gather(0, t(rows.reshape(7, 1))) * b[:, :1]),
        (lambda a, b: sow.index_select(a, 0, rows) * b, lambda a, b: a.index_select(0, t(rows)) * b),
        (lambda a, b: sow.masked_select(a, mask) * sow.sum(b), lambda a, b: a.masked_select(t(mask)) * b.sum()),
        (lambda a, b: sow.index_put(a, (rows, [0, 1, 2, 3, 4, 5, 0]), b[:, 0], accumulate=True),
         lambda a, b: a.index_put((t(rows), t([0, 1, 2, 3, 4, 5, 0])), b[:, 0], accumulate=True)),
    ]
    for ours, theirs in cases:
        mine, reference = both_gradients(ours, theirs, x, src)
        for a, b in zip(mine, reference):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@needs_torch
def test_complex_gradients_follow_pytorch_s_convention():
    random = np.random.default_rng(5)
    values = [random.normal(size=4) + 1j * random.normal(size=4) for _ in range(3)]
    x, src = leaf(values[0], "complex128"), leaf(values[1], "complex128")
    index = [0, 1, 2, 3]
    sow.mul(sow.scatter_reduce(x, 0, index, src, "prod"), sow.conj(src)).backward(values[2])
    a, b = (torch.tensor(v, requires_grad=True) for v in values[:2])
    (a * b * b.conj()).backward(torch.tensor(values[2]))
    np.testing.assert_allclose(np.asarray(x.grad), a.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(src.grad), b.grad.numpy(), rtol=1e-12)


# -- where PyTorch is not right ------------------------------------------------------------------------


def test_assign_gives_duplicates_gradient_to_the_winner_alone():
    # PyTorch's scatter gives it to all three.
    x, src = leaf([0.0, 0.0]), leaf([1.0, 2.0, 3.0])
    result = sow.scatter(x, 0, [0, 0, 0], src)
    assert result.tolist() == [3.0, 0.0]
    result.backward(np.array([1.0, 1.0]))
    assert src.grad.tolist() == [0.0, 0.0, 1.0]
    assert x.grad.tolist() == [0.0, 1.0]


def test_amax_without_self_splits_among_the_updates_alone():
    # PyTorch's destination takes a third of it, which then is nobody's.
    x, src = leaf([5.0]), leaf([5.0, 5.0])
    sow.scatter_reduce(x, 0, [0, 0], src, "amax", include_self=False).backward(np.array([1.0]))
    assert src.grad.tolist() == [0.5, 0.5]
    assert x.grad.tolist() == [0.0]


def test_products_with_two_zeros_can_be_differentiated_twice():
    # PyTorch refuses the second derivative of scatter_reduce's prod.
    src = leaf([0.0, 3.0, 0.0])
    result = sow.scatter_reduce(sow.tensor(np.array([2.0])), 0, [0, 0, 0], src, "prod")
    first, = sow.grad(result, src, create_graph=True)
    assert first.tolist() == [0.0, 0.0, 0.0]
    assert sow.grad(first[0], src)[0].tolist() == [0.0, 0.0, 6.0]


def test_an_index_smaller_than_its_source_has_gradients():
    # PyTorch: "expects src to be of the same shape as index" on the way back.
    x, src = leaf(np.zeros((2, 2))), leaf(np.ones((3, 4)))
    sow.scatter_reduce(x, 0, [[1, 0]], src, "amax").backward(np.array([[1.0, 2.0], [3.0, 4.0]]))
    expected = np.zeros((3, 4))
    expected[0, :2] = [3.0, 2.0]
    np.testing.assert_array_equal(src.grad, expected)


def test_sums_of_gradients_are_exact():
    value = leaf([0.0], "float32")
    sow.put_along_axis(sow.zeros([4]), [0, 1, 2, 3], value, 0).backward([1e30, 1.0, -1e30, 1.0])
    assert value.grad.tolist() == [2.0]


# -- the engine from Python ------------------------------------------------------------------------------


def test_operators_and_properties():
    w = leaf([1.0, 2.0])
    assert w.requires_grad and w.is_leaf and w.grad is None
    y = (2 * w + w / 4 - 1) * (3 - w) / 0.5 + -w + w**2
    y.sum().backward()
    reference = [2 * (2.25 * (3 - v) - (2.25 * v - 1)) - 1 + 2 * v for v in (1.0, 2.0)]
    np.testing.assert_allclose(w.grad, reference, rtol=1e-14)
    w.grad = None
    assert w.grad is None
    w.grad = np.array([1.0, 1.0])
    (1 / w).sum().backward()
    np.testing.assert_allclose(w.grad, [0.0, 0.75])
    w.zero_grad()
    assert (w > 1).tolist() == [False, True] and (w <= 1).tolist() == [True, False]
    assert sow.where(w > 1, w, 0.0).tolist() == [0.0, 2.0]
    w.requires_grad = False
    assert not (w * 2).requires_grad


def test_no_grad_is_a_context_and_a_decorator_of_its_thread():
    w = leaf([1.0])

    @sow.no_grad()
    def step():
        return w * 2

    with sow.no_grad():
        assert not (w * 2).requires_grad
        with sow.enable_grad():
            assert (w * 2).requires_grad
        found = []
        thread = threading.Thread(target=lambda: found.append(sow.is_grad_enabled()))
        thread.start()
        thread.join()
        assert found == [True]
    assert not step().requires_grad and sow.is_grad_enabled()


def test_errors_are_python_s():
    w = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="only an output of one element"):
        (w * 2).backward()
    with pytest.raises(RuntimeError, match="leaf that requires a gradient; use masked_fill"):
        sow.masked_fill_(w, [True, False], 0.0)
    with pytest.raises(RuntimeError, match="view whose base takes part in the graph; use slice_scatter"):
        (w * 2)[:1].copy_(np.array([0.0]))
    with pytest.raises(TypeError, match="int64 has no gradients"):
        sow.arange(3).requires_grad_()
    x = sow.tensor(np.array([3.0, 4.0]))
    y = (w * x).sum()
    x.fill_(0)
    with pytest.raises(RuntimeError, match="mul: an operand of shape .2., which its gradient needs, was changed"):
        y.backward()


def test_three_zeros_refuse_the_third_derivative():
    src = leaf([0.0, 0.0, 2.0])
    value = sow.scatter_reduce(sow.tensor(np.array([1.0])), 0, [0, 0, 0], src, "mul")
    first, = sow.grad(value, src, create_graph=True)
    second, = sow.grad(first[0], src, create_graph=True)
    with pytest.raises(RuntimeError, match="third or higher order"):
        sow.grad(second[1], src)


# -- vjp -------------------------------------------------------------------------------------------------


def test_vjp_keeps_kinds():
    x, src = np.zeros((3, 2), "f4"), np.ones((2, 2), "f4")
    result, pullback = sow.vjp(sow.index_add, x, 0, np.array([2, 2]), src)
    assert type(result) is np.ndarray and result[2].tolist() == [2.0, 2.0]
    gradients = pullback(np.arange(6, dtype="f4").reshape(3, 2))
    assert [type(g) for g in gradients] == [np.ndarray, type(None), type(None), np.ndarray]
    assert gradients[3].tolist() == [[4.0, 5.0], [4.0, 5.0]]
    assert x.tolist() == np.zeros((3, 2)).tolist()


def test_vjp_of_names_keywords_and_refusals():
    result, pullback = sow.vjp("put_along_axis", np.zeros(3), [0, 0], np.array([1.0, 4.0]), axis=0, reduce="amax")
    assert result.tolist() == [4.0, 0.0, 0.0]
    assert pullback(np.ones(3))[2].tolist() == [0.0, 1.0]
    result, pullback = sow.vjp("nonzero", np.array([0.0, 1.0]))
    assert result.tolist() == [[1]] and pullback(result)[0].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="vjp: scatter_ writes into its first argument; use scatter"):
        sow.vjp("scatter_", np.zeros(3), 0, [0], 1.0)
    with pytest.raises(ValueError, match="'sprinkle' is no operation"):
        sow.vjp("sprinkle", np.zeros(3))


@needs_torch
def test_vjp_on_torch_tensors():
    x, value = torch.zeros(3), torch.tensor([1.0, 2.0])
    mask = torch.tensor([True, False, True])
    result, pullback = sow.vjp(sow.masked_scatter, x, mask, value)
    assert isinstance(result, torch.Tensor) and result.tolist() == [1.0, 0.0, 2.0]
    gradients = pullback(torch.tensor([1.0, 2.0, 3.0]))
    assert gradients[0].tolist() == [0.0, 2.0, 0.0] and gradients[1] is None
    assert isinstance(gradients[2], torch.Tensor) and gradients[2].tolist() == [1.0, 3.0]


def test_the_example_runs(capsys):
    example = pathlib.Path(__file__).parents[2] / "examples" / "training_step.py"
    runpy.run_path(str(example), run_name="__main__")
    assert "loss after one step" in capsys.readouterr().out

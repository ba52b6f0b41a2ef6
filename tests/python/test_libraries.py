"""What only torch, JAX and Paddle have: gradients, versions, lazy bits, immutability."""

import numpy as np
import peers
import pytest

import sow

torch, jax, paddle = peers.torch, peers.jax, peers.paddle
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not here")
needs_jax = pytest.mark.skipif(jax is None, reason="jax is not here")
needs_paddle = pytest.mark.skipif(paddle is None, reason="paddle is not here")


@needs_torch
def test_a_tensor_that_requires_a_gradient_is_refused():
    x = torch.zeros(3, requires_grad=True)
    for call in (lambda: sow.scatter_(x, 0, [0], 1.0), lambda: sow.scatter(x, 0, [0], 1.0),
                 lambda: sow.scatter_add(np.zeros(3, "f4"), 0, [0, 1, 2], x)):
        with pytest.raises(RuntimeError, match="detach"):
            call()
    assert isinstance(sow.scatter(x.detach(), 0, [0], 1.0), torch.Tensor)


@needs_torch
def test_writing_in_place_counts_as_a_version():
    weight = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    loss = (weight * x).sum()
    before = x._version
    sow.scatter_(x, 0, [0], 5.0)
    assert x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@needs_torch
def test_lazy_conjugates_and_negatives_are_resolved():
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert sow.index_select(x.conj(), 0, [0, 1]).tolist() == [1 - 2j, 3 + 4j]
    assert sow.index_select(x.conj().imag, 0, [0, 1]).tolist() == [-2, 4]
    with pytest.raises(ValueError, match="conjugated"):
        sow.scatter_(x.conj(), 0, [0], 1.0)


@needs_torch
def test_torch_tensors_that_are_no_plain_memory():
    for x in (torch.zeros(3, device="meta"), torch.zeros(3).to_sparse()):
        with pytest.raises((TypeError, RuntimeError), match="torch.Tensor"):
            sow.scatter(x, 0, [0], 1.0)


@needs_torch
def test_torch_views_write_through():
    base = torch.zeros(4, 3)
    sow.masked_scatter_(base.T[1:], torch.ones(2, 4, dtype=torch.bool), torch.arange(8.0))
    assert base.T.tolist() == [[0, 0, 0, 0], [0, 1, 2, 3], [4, 5, 6, 7]]


@needs_torch
def test_torch_without_the_exchange_table_gives_the_same(monkeypatch):
    class Plain(torch.Tensor):
        __dlpack_c_exchange_api__ = None

    x = torch.zeros(3).as_subclass(Plain)
    assert sow.scatter_(x, 0, [1], 2.0) is x and x.tolist() == [0, 2, 0]
    assert isinstance(sow.scatter(x, 0, [0], 1.0), torch.Tensor)
    with pytest.raises(RuntimeError, match="detach"):
        sow.scatter(torch.zeros(3, requires_grad=True).as_subclass(Plain), 0, [0], 1.0)


@needs_torch
def test_results_share_memory_with_torch_safely():
    result = sow.scatter(torch.zeros(1000), 0, torch.arange(1000), 1.0)
    result += 1
    assert result.sum().item() == 2000


@needs_jax
def test_jax_is_refused_in_place_by_its_name():
    with pytest.raises(TypeError, match="jax.Array"):
        sow.scatter_(jax.numpy.zeros(3), 0, [0], 1.0)


@needs_jax
def test_jax_tracers_are_refused():
    with pytest.raises(TypeError):
        jax.jit(lambda x: sow.scatter(x, 0, [0], 1.0))(jax.numpy.zeros(3))


@needs_jax
def test_jax_bfloat16():
    x = jax.numpy.ones(3, jax.numpy.bfloat16)
    result = sow.scatter_add(x, 0, [0], x[:1])
    assert result.dtype == x.dtype and result.tolist() == [2, 1, 1]


@needs_paddle
def test_paddle_gradients_are_refused():
    x = paddle.zeros([3])
    x.stop_gradient = False
    with pytest.raises(RuntimeError, match="detach"):
        sow.scatter(x, 0, [0], 1.0)
    assert isinstance(sow.scatter(x.detach(), 0, [0], 1.0), paddle.Tensor)


@needs_paddle
def test_views_of_paddle_are_copies():
    x = paddle.arange(6, dtype="float32")
    for _ in range(3):
        view = sow.reshape(x, [2, 3])
        sow.scatter_(x, 0, [0], 7.0)
        assert isinstance(view, paddle.Tensor) and view[0, 0].item() == 0
        x[0] = 0
        del view


@needs_paddle
def test_paddle_in_place_counts_as_a_version():
    x = paddle.zeros([3])
    before = x.inplace_version
    assert sow.scatter_(x, 0, [0], 1.0) is x
    assert x.inplace_version > before and x.tolist() == [1, 0, 0]

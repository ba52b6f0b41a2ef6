# SPDX-License-Identifier: Apache-2.0
"""What only torch, JAX and Paddle have: gradients, versions, lazy bits, immutability."""

import numpy as np
import pytest

import sow

import peers

torch, jax, paddle = peers.torch, peers.jax, peers.paddle
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not here")
needs_jax = pytest.mark.skipif(jax is None, reason="jax is not here")
needs_paddle = pytest.mark.skipif(paddle is None, reason="paddle is not here")


@needs_torch
def test_a_gradient_that_would_be_lost_is_refused():
    x = torch.zeros(3, requires_grad=True)
    for call in (lambda: sow.asarray(x), lambda: sow.scatter_add(np.zeros(3, "f4"), 0, [0, 1, 2], x),
                 lambda: sow.zeros([3]).scatter_add(0, [0, 1, 2], x)):
        with pytest.raises(RuntimeError, match="detach"):
            call()
    assert sow.scatter(x, 0, [0], 1.0).requires_grad


@needs_torch
@pytest.mark.parametrize("guard", ["no_grad", "inference_mode"])
def test_parameters_are_taken_where_torch_records_nothing(guard):
    class Plain(torch.nn.Parameter):  # as torch was before the exchange table
        __dlpack_c_exchange_api__ = None

    for make in (torch.nn.Parameter, Plain):
        weight = make(torch.arange(3.0))
        with getattr(torch, guard)():
            for _ in range(4):  # the same call again goes another way
                assert sow.index_select(weight, 0, np.array([2, 0])).tolist() == [2, 0]
            before = weight._version
            assert sow.index_fill_(weight, 0, np.array([1]), 5.0) is weight and weight.tolist() == [0, 5, 2]
            assert weight._version > before
            sow.index_fill_(torch.zeros(3), 0, np.array([1]), 5.0)  # an inference tensor has no version
        assert sow.index_select(weight, 0, np.array([2, 0])).requires_grad


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
    with pytest.raises((TypeError, RuntimeError), match="torch.Tensor"):
        sow.scatter(torch.zeros(3).to_sparse(), 0, [0], 1.0)
    assert sow.scatter(torch.zeros(3, device="meta"), 0, [0], 1.0).is_meta


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
    assert sow.scatter(torch.zeros(3, requires_grad=True).as_subclass(Plain), 0, [0], 1.0).requires_grad


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
def test_jax_is_read_only_as_a_tensor_too():
    x = jax.numpy.zeros(4)
    for view in (sow.asarray(x), sow.from_dlpack(x), sow.asarray(x)[1:], sow.reshape(sow.asarray(x), [2, 2])):
        with pytest.raises(ValueError, match="read-only"):
            sow.masked_fill_(view, np.ones(view.shape, bool), 5.0)
        with pytest.raises(ValueError, match="read-only"):
            view[:] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        sow.index_fill_(sow.asarray(x), 0, np.array([0]), 5.0)
    assert x.tolist() == [0, 0, 0, 0]
    assert isinstance(sow.reshape(x, [2, 2]), jax.Array) and isinstance(sow.diagonal(sow.reshape(x, [2, 2])), jax.Array)


@needs_jax
def test_jax_bfloat16():
    x = jax.numpy.ones(3, jax.numpy.bfloat16)
    result = sow.scatter_add(x, 0, [0], x[:1])
    assert result.dtype == x.dtype and result.tolist() == [2, 1, 1]


@needs_paddle
def test_paddle_gradients_are_recorded():
    x = paddle.zeros([3])
    x.stop_gradient = False
    assert not sow.scatter(x, 0, [0], 1.0).stop_gradient
    assert isinstance(sow.scatter(x.detach(), 0, [0], 1.0), paddle.Tensor)
    with paddle.no_grad():
        assert sow.scatter(x, 0, [0], 1.0).tolist() == [1, 0, 0]


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

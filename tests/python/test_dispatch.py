# SPDX-License-Identifier: Apache-2.0
"""Calls that another library must see reach the function it registered, with every argument."""

import importlib

import pytest

import sow
from sow import _core, _frameworks

torch = pytest.importorskip("torch")


@pytest.fixture
def calls():
    seen = []

    def answer(op, arguments):
        seen.append((op, arguments))
        return "answered"

    importlib.import_module("sow.torch")
    before = _core._set_dispatch("torch", answer, torch.is_grad_enabled)
    yield seen
    _core._set_dispatch("torch", *before)


X, KEYS, S = torch.zeros(3, 4), torch.tensor([0, 1, 1]), torch.ones(3, 4)


def test_recorded_tensors_are_handed_over_with_defaults_filled_in(calls):
    x = torch.zeros(3, 4, requires_grad=True)
    assert sow.put_along_axis(x, KEYS[:, None], 1.0, axis=1) == "answered"
    (op, arguments), = calls
    assert op == "put_along_axis"
    assert len(arguments) == len(_frameworks.OPERATIONS[op].names)
    assert dict(zip(_frameworks.OPERATIONS[op].names, arguments))["reduce"] == "add"
    assert arguments[0] is x


@pytest.mark.parametrize("size", [4, 5000])
def test_any_argument_may_be_the_recorded_one(calls, size):
    x, s = torch.zeros(3, size), torch.ones(3, size, requires_grad=True)
    assert sow.index_add(x, 0, KEYS, s) == "answered"
    assert sow.index_put(x, [KEYS], s) == "answered"
    assert sow.where(x > 0, x, s) == "answered"
    assert sow.scatter_nd(KEYS[:, None], s, [3, size]) == "answered"
    assert sow.select(s, 0, 1) == "answered"
    assert sow.index_add_(x, 0, KEYS, s) == "answered"
    assert len(calls) == 6


def test_plain_tensors_are_not(calls):
    x = torch.nn.Parameter(torch.zeros(3, 4))
    with torch.no_grad():
        assert sow.index_add(x, 0, KEYS, S).tolist() == [[1.0] * 4, [2.0] * 4, [0.0] * 4]
        assert sow.index_add_(x, 0, KEYS, S) is x
    with torch.inference_mode():
        sow.index_add(x, 0, KEYS, S)
    sow.index_add(X, 0, KEYS, S)
    assert not calls


def test_duals_wrapped_and_watched_tensors_are_handed_over(calls):
    import torch.autograd.forward_ad as forward_ad
    from torch._subclasses.fake_tensor import FakeTensorMode

    with forward_ad.dual_level():
        assert sow.index_add(forward_ad.make_dual(X, S), 0, KEYS, S) == "answered"
    with FakeTensorMode():
        assert sow.index_add(torch.zeros(3, 4), 0, KEYS, S) == "answered"
    seen = []
    torch.func.vmap(lambda x: (seen.append(sow.index_add(x, 0, KEYS, S)), x)[1])(X[None])
    torch.func.grad(lambda x: (seen.append(sow.index_add(x, 0, KEYS, S)), x.sum())[1])(X)
    assert seen == ["answered"] * 2


def test_not_implemented_leaves_the_plain_error(calls):
    before = _core._set_dispatch("torch", lambda op, arguments: NotImplemented)
    assert before is not None
    with pytest.raises(RuntimeError, match="index_add: x is a torch.Tensor that requires a gradient"):
        sow.index_add(torch.zeros(3, 4, requires_grad=True), 0, KEYS, S)


def test_an_unknown_library_is_an_error():
    with pytest.raises(ValueError, match="'numpy' is no library"):
        _core._set_dispatch("numpy", None)


def test_the_table_holds_every_operation():
    table = _frameworks.OPERATIONS
    for name in ("masked_scatter", "index_put_", "scatter_nd", "where", "diagonal", "sum"):
        assert name in table
    assert table["index_add_"].form == "in_place" and table["index_add_"].stem == "index_add"
    assert table["select"].form == "view"
    assert [table["index_add"].names[i] for i in table["index_add"].sources] == ["x", "source"]
    for operation in table.values():
        assert hasattr(sow, operation.name)

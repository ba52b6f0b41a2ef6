# SPDX-License-Identifier: Apache-2.0
"""Every operation of the table in torch's graphs, group, segment and elementwise ones too: the bits of sow's own tape."""

import framework_cases as cases
import numpy as np
import pytest
import torch

import sow


def tensors(value):
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return tuple(tensors(item) for item in value) if isinstance(value, tuple) else value


def function_of(case):
    """The call as a function of its differentiable tensors, and these."""
    args, places, name, keywords = [tensors(a) for a in case.args], case.floats, case.name, case.kwargs

    def function(*values):
        given = list(args)
        for place, value in zip(places, values):
            given[place] = value
        return getattr(sow, name)(*given, **keywords)

    return function, [args[place] for place in places]


@pytest.mark.parametrize("case", [case for case in cases.SMOOTH if case.floats], ids=repr)
def test_gradients(case):
    function, values = function_of(case)
    leaves = [value.clone().requires_grad_() for value in values]
    result = function(*leaves)
    assert cases.bits(result.detach()) == cases.bits(cases.eager(case))
    grad = np.asarray(cases.weight(case))
    weight = torch.from_numpy(grad.copy()).to(result.dtype)
    wanted = cases.eager_gradients(case, grad)
    for found in (torch.autograd.grad(result, leaves, weight), torch.func.vjp(function, *values)[1](weight)):
        assert [cases.bits(one) for one in found] == [cases.bits(one) for one in wanted]
    again = torch.autograd.grad(function(*leaves), leaves, weight, create_graph=True)
    for found, one in zip(again, wanted):
        np.testing.assert_allclose(found.detach(), one, rtol=1e-6)
    # Forward mode: <w, J t> is <J' w, t>.
    tangents = [torch.from_numpy(cases.array(*value.shape, seed=70 + i)).to(value.dtype) for i, value in enumerate(values)]
    _, moved = torch.func.jvp(function, tuple(values), tuple(tangents))
    left = (moved.double() * weight.double()).sum().item()
    right = sum(float(np.vdot(p.astype("f8"), t.double().numpy())) for p, t in zip(wanted, tangents))
    narrow = any(value.dtype == torch.float16 for value in values)
    assert abs(left - right) <= (1e-3 if narrow else 1e-5) * max(1, abs(left))


@pytest.mark.parametrize("case", [case for case in cases.SMOOTH if case.floats], ids=repr)
def test_gradients_of_gradients(case):
    function, values = function_of(case)
    leaves = [value.clone().requires_grad_() for value in values]
    grad = np.asarray(cases.weight(case))
    weight = torch.from_numpy(grad.copy()).to(function(*values).dtype).requires_grad_()
    weights = [cases.array(*value.shape, seed=60 + i).astype(value.dtype) for i, value in enumerate(case.values())]
    wanted = cases.eager_second(case, grad, weights)
    for first in (torch.autograd.grad(function(*leaves), leaves, weight, create_graph=True),
                  torch.func.vjp(function, *leaves)[1](weight)):
        taken = [(one, torch.from_numpy(np.array(w))) for one, w in zip(first, weights) if one.requires_grad]
        second = torch.autograd.grad([one for one, _ in taken], [*leaves, weight], [w for _, w in taken], allow_unused=True)
        for found, want in zip(second, wanted, strict=True):
            np.testing.assert_allclose(np.zeros_like(want) if found is None else found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [case for case in cases.SMOOTH if case.floats], ids=repr)
def test_vmap_in_vmap(case):
    function, values = function_of(case)
    given = [torch.stack([torch.stack([value, value + 1]), torch.stack([value + 2, value])]) for value in values]
    found = torch.func.vmap(torch.func.vmap(function))(*given)
    for i in range(2):
        for j in range(2):
            assert torch.equal(found[i, j], function(*(value[i, j] for value in given)))


@pytest.mark.parametrize("case", cases.CASES, ids=repr)
def test_compiled_with_unknown_extents(case):
    torch._dynamo.reset()
    function, values = function_of(case)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    assert cases.bits(compiled(*values)) == cases.bits(cases.eager(case))

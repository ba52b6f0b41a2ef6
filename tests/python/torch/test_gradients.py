# SPDX-License-Identifier: Apache-2.0
"""Gradients of every operation inside of torch: reverse, forward, batched, of any order, in place."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import sow

from torch_operations import INDEX, VIEWS, calls, sources, values, with_in_place_form

CALLS = [c for c in calls() if c[1] not in ("nonzero",)]
IDS = [c[0] for c in CALLS]


def of_sources(name, args, keywords, in_place=False):
    """The call as a function of its differentiable tensors."""
    places = sources(args)

    def function(*tensors):
        given = list(args)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        if in_place:
            given[0] = given[0] * 1
            return getattr(sow, name + "_")(*given, **keywords)
        return getattr(sow, name)(*given, **keywords)

    return function, tuple(args[i].clone().requires_grad_() for i in places)


def test_every_operation_is_drawn():
    from sow._frameworks import OPERATIONS

    drawn = {c[1] for c in calls()} | {name for name, _ in VIEWS}
    wanted = {o.stem for o in OPERATIONS.values() if o.form != "out" or (o.arrays and any(
        p.is_index for p in o.parameters))}
    assert wanted - drawn <= {"index_get"}, "what x[...] becomes; sow.Tensor has it, torch's tensors have their own"


@pytest.mark.parametrize("id, name, args, keywords", CALLS, ids=IDS)
def test_gradcheck(id, name, args, keywords):
    function, inputs = of_sources(name, args, keywords)
    assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True,
                     check_batched_forward_grad=True)
    assert gradgradcheck(function, inputs, check_batched_grad=True)


@pytest.mark.parametrize("id, name, args, keywords", CALLS, ids=IDS)
def test_the_bits_are_those_of_sows_own_gradients(id, name, args, keywords):
    args = tuple(a.float() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)
    function, inputs = of_sources(name, args, keywords)
    result = function(*inputs)
    weight = values(*result.shape, dtype=result.dtype, seed=20)
    expected, pull = sow.vjp(name, *args, **keywords)
    assert torch.equal(result.detach(), expected)
    found = torch.autograd.grad(result, inputs, weight)
    assert all(torch.equal(a, b) for a, b in zip(found, [pull(weight)[i] for i in sources(args)]))


@pytest.mark.parametrize("name", with_in_place_form())
def test_in_place_on_what_is_recorded(name):
    _, _, args, keywords = next(c for c in CALLS if c[1] == name)
    function, inputs = of_sources(name, args, keywords, in_place=True)
    twin, _ = of_sources(name, args, keywords)
    result, expected = function(*inputs), twin(*inputs)
    assert torch.equal(result, expected)
    weight = values(*result.shape, seed=21)
    for a, b in zip(torch.autograd.grad(result, inputs, weight),
                    torch.autograd.grad(expected, inputs, weight)):
        assert torch.equal(a, b)
    leaf = args[0].clone().requires_grad_()
    before = leaf.detach().clone()
    with pytest.raises(RuntimeError, match=f"{name}_: a leaf Variable that requires grad"):
        getattr(sow, name + "_")(leaf, *args[1:], **keywords)
    assert torch.equal(leaf, before)
    with torch.no_grad():
        assert getattr(sow, name + "_")(leaf, *args[1:], **keywords) is leaf


def test_in_place_moves_the_version_and_views_are_seen():
    x = torch.zeros(3, 4, requires_grad=True)
    y = x * 2
    kept = y.exp()
    version = y._version
    assert sow.index_add_(y, 0, INDEX, torch.ones(3, 4)) is y
    assert y._version > version
    row = y[1]
    sow.masked_fill_(row, torch.tensor([True, False, False, True]), 5.0)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [[2.0] * 4, [0.0, 2.0, 2.0, 0.0], [2.0] * 4]
    kept.sum().backward()  # exp's result was not written to


def test_a_saved_tensor_that_was_changed_is_torchs_error():
    x = torch.ones(3, 4, requires_grad=True)
    s = torch.full((3, 4), 2.0)
    y = sow.index_reduce(x, 0, INDEX, s, "mul")
    s.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_nothing_is_kept_that_the_gradient_does_not_read():
    import weakref

    x = torch.zeros(3, 4, requires_grad=True)
    s = torch.ones(3, 4, requires_grad=True) * 1
    gone = weakref.ref(s)
    y = sow.index_add(x, 0, INDEX, s)
    del s
    assert gone() is None
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 4))


def test_gradients_that_are_the_weight_are_not_shared():
    a = torch.zeros(3, 4, requires_grad=True)
    b = torch.zeros(3, 4, requires_grad=True)
    sow.index_add(a, 0, INDEX, torch.ones(3, 4)).sum().backward()
    first = a.grad.clone()
    (sow.index_add(a, 0, INDEX, torch.ones(3, 4)) + b).sum().backward()
    assert torch.equal(b.grad, torch.ones(3, 4)) and torch.equal(a.grad, 2 * first)
    b.grad.add_(1)
    assert torch.equal(a.grad, 2 * first)


@pytest.mark.parametrize("name, args", VIEWS, ids=[v[0] for v in VIEWS])
def test_views_are_torchs(name, args):
    x = values(3, 4).clone().requires_grad_()
    y = getattr(sow, name)(x, *args)
    assert torch.equal(y.detach(), getattr(sow, name)(x.detach(), *args))
    assert y._base is x or y is x or name in ("flatten", "reshape")
    assert gradcheck(lambda x: getattr(sow, name)(x, *args), (x,))


def test_elementwise_and_sums():
    a, b = values(3, 4, seed=1).requires_grad_(), values(3, 4, seed=2).requires_grad_()
    for f in (sow.add, sow.sub, sow.mul, sow.div, lambda a, b: sow.where(b > 0, a, b),
              lambda a, b: sow.pow(a, 2.0), lambda a, b: sow.sum(a, 0), lambda a, b: sow.mean(a * b)):
        assert gradcheck(f, (a, b), check_forward_ad=True)
    assert not sow.lt(a, b).requires_grad


def test_bad_input_says_the_same_sentence():
    x, s = torch.zeros(3, 4), torch.ones(3, 4)
    bad = torch.tensor([0, 7, 1])
    for given in (x, x.clone().requires_grad_()):
        with pytest.raises(IndexError, match=r"index_add: index 7 at position \[1\] is out of range for "
                                             "axis 0 of size 3"):
            sow.index_add(given, 0, bad, s)
        with pytest.raises(TypeError, match="index_add: x is float32 but source is float64"):
            sow.index_add(given, 0, INDEX, s.double())
        with pytest.raises(ValueError, match="axis 5"):
            sow.index_add(given, 5, INDEX, s)
    with pytest.raises(RuntimeError, match="x is no torch.Tensor, but a tensor that requires a gradient"):
        sow.index_add(x.numpy(), 0, INDEX, s.requires_grad_())


def test_transformations():
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

    x, s = values(3, 4, seed=1), values(3, 4, seed=2)

    def loss(x, s):
        return (sow.index_reduce(x, 0, INDEX, s, "mul") ** 2).sum()

    def plain(x, s):
        return (torch.index_reduce(x, 0, INDEX, s, "prod") ** 2).sum()

    assert torch.allclose(grad(loss)(x, s), grad(plain)(x, s))
    assert torch.allclose(jacrev(loss, 1)(x, s), jacfwd(loss, 1)(x, s))
    assert torch.allclose(hessian(loss)(x, s), hessian(loss)(x, s).transpose(0, 2).transpose(1, 3))
    _, tangent = jvp(lambda x: sow.index_add(x, 0, INDEX, s), (x,), (s,))
    assert torch.equal(tangent, s)
    batch = values(5, 3, 4, seed=3)
    per_sample = vmap(grad(loss), (0, None))(batch, s)
    assert torch.allclose(per_sample, torch.stack([grad(loss)(b, s) for b in batch]))


# How many elements masked_select gives depends on the sample.
# Of one shape whatever the data; pointers that are rolled do not ascend.
ONE_SHAPE = [c for c in CALLS if c[1] not in ("masked_select", "segment_reduce", "gather_csr", "segment_cumsum")]


@pytest.mark.parametrize("id, name, args, keywords", ONE_SHAPE, ids=[c[0] for c in ONE_SHAPE])
def test_vmap(id, name, args, keywords):
    """Every pattern of batched arguments, one at a time and all at once, at the front and the back."""
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    for batched in [*([p] for p in places), places]:
        for dim in (0, -1):
            given = list(args)
            for p in batched:
                given[p] = torch.stack([args[p], args[p].roll(1, 0) if args[p].dim() else args[p]], dim)
            dims = tuple(dim if i in batched else None for i in range(len(args)))
            call = [i for i in range(len(args)) if isinstance(args[i], torch.Tensor)]

            def function(*tensors, given=given, call=call):
                full = list(given)
                for i, t in zip(call, tensors):
                    full[i] = t
                return getattr(sow, name)(*full, **keywords)

            found = torch.func.vmap(function, tuple(dims[i] for i in call))(*(given[i] for i in call))
            for sample in range(2):
                single = [given[i].select(dim, sample) if i in batched else given[i] for i in call]
                assert torch.equal(found[sample], function(*single)), (batched, dim, sample)


def test_a_bad_key_of_a_batch_lands_nowhere():
    x, s = torch.zeros(2, 3, 4), torch.ones(3, 4)
    with pytest.raises(IndexError, match="out of range"):
        torch.func.vmap(lambda x, i: sow.index_add(x, 0, i, s))(x, torch.tensor([[0, 1, 2], [0, 3, 1]]))

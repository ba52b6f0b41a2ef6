# SPDX-License-Identifier: Apache-2.0
"""Every operation, by its plain name, under JAX's transformations has the bits that it has without them."""

import framework_cases as cases
import numpy as np
import pytest

import peers

if peers.jax is None:
    pytest.skip("going on without jax", allow_module_level=True)

import jax
import jax.numpy as jnp

import sow

smooth = pytest.mark.parametrize("case", cases.SMOOTH, ids=repr)


def test_every_operation_has_a_case():
    assert {case.name for case in cases.CASES} == cases.operations()


@pytest.mark.parametrize("case", cases.CASES, ids=repr)
def test_jit(case):
    assert cases.bits(jax.jit(case.function())(*case.values())) == cases.bits(cases.eager(case))


@pytest.mark.parametrize("case", cases.CASES, ids=repr)
def test_concrete_arrays(case):
    def on_jax(value):
        if isinstance(value, tuple) and any(isinstance(item, np.ndarray) for item in value):
            return tuple(item if item is None else jnp.asarray(item) for item in value)
        return jnp.asarray(value) if isinstance(value, np.ndarray) else value

    found = getattr(sow, case.name)(*(on_jax(value) for value in case.args), **case.kwargs)
    assert isinstance(found, jax.Array)
    assert cases.bits(found) == cases.bits(cases.eager(case))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "complex64", "int64"])
def test_concrete_arrays_of_types_with_and_without_a_buffer(dtype):
    x = jnp.asarray(cases.X > 0).astype(dtype)
    assert cases.bits(sow.index_select(x, 0, jnp.asarray(cases.KEYS))) == cases.bits(np.asarray(x)[cases.KEYS])
    assert sow.index_select(x, 0, [3]).dtype == x.dtype


@smooth
def test_gradients(case):
    grad = cases.weight(case)
    _, pullback = jax.vjp(case.function(), *case.values())
    for found, wanted in zip(pullback(jnp.asarray(grad)), cases.eager_gradients(case, grad), strict=True):
        assert cases.bits(found) == cases.bits(wanted)


@smooth
def test_gradients_of_gradients(case):
    grad = cases.weight(case)
    weights = [cases.array(*value.shape, seed=60 + i).astype(value.dtype) for i, value in enumerate(case.values())]

    def first(grad, *floats):
        return jax.vjp(case.function(), *floats)[1](grad)

    _, pullback = jax.vjp(first, jnp.asarray(grad), *case.values())
    of_grad, *found = pullback(tuple(jnp.asarray(w) for w in weights))
    wanted = cases.eager_second(case, grad, weights)
    for got, want in zip([*found, of_grad], wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


@smooth
def test_forward_mode_is_the_transpose_of_reverse_mode(case):
    """In exact small numbers: <w, J t> is <J' w, t>."""
    grad = cases.weight(case)
    tangents = [cases.array(*value.shape, seed=70 + i).astype(value.dtype) for i, value in enumerate(case.values())]
    _, moved = jax.jvp(case.function(), case.values(), tangents)
    pulled = cases.eager_gradients(case, grad)
    left = np.vdot(grad.astype("f8"), np.asarray(moved, "f8"))
    right = sum(np.vdot(p.astype("f8"), t.astype("f8")) for p, t in zip(pulled, tangents))
    narrow = any(value.dtype == np.float16 for value in case.values())
    assert abs(left - right) <= (1e-3 if narrow else 1e-5) * max(1, abs(left))


def test_comparisons_have_no_gradient():
    x = jnp.asarray(cases.X)
    found, tangent = jax.jvp(lambda x: sow.gt(x, 0), (x,), (x,))
    assert found.dtype == bool
    assert tangent.dtype == jax.dtypes.float0
    assert not jax.grad(lambda x: jnp.where(sow.gt(x, 0), 1.0, 2.0).sum())(x).any()


@smooth
@pytest.mark.parametrize("shared", [False, True])
def test_vmap(case, shared):
    """Each sample as if it were alone; `shared`: only the first argument has a batch."""
    samples = [np.stack([value, value + 1, -value]) for value in case.values()]
    axes = [0 if i == 0 or not shared else None for i in range(len(samples))]
    given = [sample if axis == 0 else sample[0] for sample, axis in zip(samples, axes)]
    found = jax.vmap(case.function(), in_axes=axes)(*given)
    for b in range(3):
        alone = [sample[b] if axis == 0 else sample for sample, axis in zip(given, axes)]
        assert cases.bits(found[b]) == cases.bits(case.function()(*alone))


@pytest.mark.parametrize("name", ["index_add", "scatter_reduce", "gather"])
def test_vmap_over_keys_and_gradients_of_it(name):
    keys = np.stack([cases.ALONG, cases.ALONG[::-1]])
    x, source = cases.X, np.stack([cases.SOURCE, cases.SOURCE + 1])

    def one(x, keys, source):
        if name == "index_add":
            return sow.index_add(x, 0, keys[:, 0], source)
        if name == "gather":
            return sow.gather(x, 0, keys) * source
        return sow.scatter_reduce(x, 0, keys, source, "mean")

    def loss(run):
        return lambda x, source: (run(x, source) ** 2).sum()

    batched = loss(lambda x, source: jax.vmap(one, in_axes=(None, 0, 0))(x, keys, source))
    looped = loss(lambda x, source: jnp.stack([one(x, keys[b], source[b]) for b in range(2)]))
    for got, want in zip(jax.grad(batched, (0, 1))(x, source), jax.grad(looped, (0, 1))(x, source)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    # A batch of gradients, and a batch in a batch.
    each = jax.vmap(jax.grad(lambda x, k, s: (one(x, k, s) ** 2).sum()), in_axes=(None, 0, 0))(x, keys, source)
    for b in range(2):
        alone = jax.grad(lambda x, b: (one(x, keys[b], source[b]) ** 2).sum())(x, b)
        assert cases.bits(each[b]) == cases.bits(alone)
    twice = jax.vmap(jax.vmap(one, in_axes=(None, 0, 0)), in_axes=(0, None, None))(np.stack([x, x + 1]), keys, source)
    assert cases.bits(twice[1, 1]) == cases.bits(one(x + 1, keys[1], source[1]))


@pytest.mark.parametrize("reduce", ["add", "mul", "amax", "mean"])
def test_scan_checkpoint_and_hessian(reduce):
    def step(x, source):
        x = sow.index_reduce(x, 0, cases.KEYS, source, reduce)
        return x * 0.5, sow.sum(x)

    def loss(x, rows):
        return jax.lax.scan(jax.checkpoint(step), x, rows)[1].sum()

    rows = jnp.stack([jnp.asarray(cases.ROWS), jnp.asarray(cases.ROWS) + 1])

    def unrolled(x, rows):
        total = 0.0
        for b in range(2):
            x, part = step(x, rows[b])
            total = total + part
        return total

    assert cases.bits(jax.jit(loss)(cases.X, rows)) == cases.bits(unrolled(cases.X, rows))
    for got, want in zip(jax.jit(jax.grad(loss, (0, 1)))(cases.X, rows), jax.grad(unrolled, (0, 1))(cases.X, rows)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    small = jnp.asarray(cases.X[:, :1])

    def of_source(source):
        return (sow.index_reduce(small, 0, cases.KEYS, source, reduce) ** 2).sum()

    column = jnp.asarray(cases.ROWS[:, :1]) + 5  # no ties, no zeros
    forward, reverse = jax.hessian(of_source)(column), jax.jacrev(jax.jacrev(of_source))(column)
    np.testing.assert_allclose(forward, reverse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32", "float64", "complex64", "complex128"])
def test_types(dtype):
    x = jnp.asarray(cases.X > 0).astype(dtype) if dtype == "bool" else jnp.asarray(cases.X * 2 + 6).astype(dtype)
    rows = jnp.asarray(cases.ROWS * 2 + 6).astype(dtype)
    for keys in (cases.KEYS, cases.KEYS.astype("i8")):
        found = jax.jit(lambda x, keys, rows: sow.index_add(x, 0, keys, rows))(x, keys, rows)
        wanted = sow.index_add(np.asarray(x), 0, keys, np.asarray(rows))
        assert cases.bits(found) == cases.bits(wanted)


def test_complex_gradients_follow_jax():
    x = jnp.asarray(cases.X[:, 0] + 1j * cases.X[:, 1])
    factors = jnp.asarray(cases.ROWS[:, 0] + 2 - 1j * cases.ROWS[:, 1])

    def ours(x, factors):
        return sow.index_reduce(x, 0, cases.KEYS, factors, "mul")

    def theirs(x, factors):
        for key, factor in zip(cases.KEYS, factors):
            x = x.at[key].multiply(factor)
        return x

    def loss(f):
        return lambda x, factors: (jnp.abs(f(x, factors)) ** 2).sum()

    for got, want in zip(jax.grad(loss(ours), (0, 1))(x, factors), jax.grad(loss(theirs), (0, 1))(x, factors)):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    for got, want in zip(jax.jvp(ours, (x, factors), (x, factors)), jax.jvp(theirs, (x, factors), (x, factors))):
        np.testing.assert_allclose(got, want, rtol=1e-5)

# SPDX-License-Identifier: Apache-2.0
"""sow inside of JAX programs on a GPU: eager's bits, donation, errors that are told later."""

import framework_cases as cases
import numpy as np
import pytest

import sow

from gpu_device import KINDS, jax, needs_device

pytestmark = [needs_device, pytest.mark.skipif(all(kind.name != "jax" for kind in KINDS), reason="JAX has no device here")]

if jax is not None:
    import jax.numpy as jnp

X, KEYS, ROWS = cases.X, cases.KEYS, cases.ROWS


def on_device(*arrays):
    device = next(d for d in jax.devices() if d.platform == "gpu")
    return [jax.device_put(np.asarray(array), device) for array in arrays]


def is_on_device(array):
    return all(device.platform == "gpu" for device in array.devices())


def large(rows=100_000, places=1000, columns=16, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal((places, columns)).astype("f4"), generator.integers(0, places, rows).astype("i4"),
            generator.standard_normal((rows, columns)).astype("f4"))


@pytest.mark.parametrize("case", cases.CASES, ids=repr)
def test_results_and_gradients_have_the_bits_of_the_cpu(case):
    """One jitted program for each call: its result and, where it has one, its gradient."""
    values = on_device(*case.values())
    if not values or all(case is not one for one in cases.SMOOTH):
        found = jax.jit(case.function())(*values)
        assert cases.bits(found) == cases.bits(cases.eager(case))
        return
    grad = cases.weight(case)

    @jax.jit
    def both(grad, *values):
        result, pullback = jax.vjp(case.function(), *values)
        return result, pullback(grad)

    result, gradients = both(*on_device(grad), *values)
    assert is_on_device(result)
    assert cases.bits(result) == cases.bits(cases.eager(case))
    for found, wanted in zip(gradients, cases.eager_gradients(case, grad), strict=True):
        assert cases.bits(found) == cases.bits(wanted)


@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "amax", "amin", "mean"])
def test_many_rows(reduce):
    """What meets in a place is more than one block's work."""
    x, keys, rows = large()
    run = jax.jit(lambda x, keys, rows: sow.index_reduce(x, 0, keys, sow.index_select(x, 0, keys) * rows, reduce))
    wanted = sow.index_reduce(x, 0, keys, x[keys] * rows, reduce)
    found = [np.asarray(run(*on_device(x, keys, rows))) for _ in range(3)]
    assert all(cases.bits(one) == cases.bits(wanted) for one in found)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                                   "float64", "complex64", "complex128"])
def test_types(dtype):
    dtype = jnp.dtype(dtype)
    x, rows = (cases.X > 0 if dtype.kind == "b" else cases.X * 2 + 6).astype(dtype), (ROWS * 2 + 6).astype(dtype)
    for keys in (KEYS, KEYS.astype("i8")):
        found = jax.jit(lambda x, keys, rows: sow.index_add(x, 0, keys, rows))(*on_device(x, keys, rows))
        assert cases.bits(found) == cases.bits(sow.index_add(x, 0, keys, rows))


@pytest.mark.parametrize("name", ["index_add", "scatter_reduce", "gather"])
def test_vmap_and_gradients_of_it(name):
    keys = np.stack([cases.ALONG, cases.ALONG[::-1]])
    source = np.stack([cases.SOURCE, cases.SOURCE + 1])

    def one(x, keys, source):
        if name == "index_add":
            return sow.index_add(x, 0, keys[:, 0], source)
        if name == "gather":
            return sow.gather(x, 0, keys) * source
        return sow.scatter_reduce(x, 0, keys, source, "mean")

    def each(x, keys, source):
        return jax.vmap(jax.value_and_grad(lambda x, k, s: (one(x, k, s) * 2).sum()), in_axes=(None, 0, 0))(x, keys, source)

    batched = jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))(*on_device(X, keys, source))
    _, gradients = jax.jit(each)(*on_device(X, keys, source))
    for b in range(2):
        alone = jax.jit(one)(*on_device(X, keys[b], source[b]))
        assert cases.bits(batched[b]) == cases.bits(alone)
        grad = jax.jit(jax.grad(lambda x, k, s: (one(x, k, s) * 2).sum()))(*on_device(X, keys[b], source[b]))
        assert cases.bits(gradients[b]) == cases.bits(grad)


def test_scan_and_its_gradient():
    def step(x, rows):
        x = sow.index_reduce(x, 0, KEYS, rows, "amax")
        return x * 0.5, sow.sum(x)

    def loss(x, rows):
        return jax.lax.scan(jax.checkpoint(step), x, rows)[1].sum()

    rows = np.stack([ROWS, ROWS + 1, ROWS - 1])
    value, gradients = jax.jit(jax.value_and_grad(loss, (0, 1)))(*on_device(X, rows))

    def unrolled(x, rows):
        total = 0.0
        for b in range(3):
            x, part = step(x, rows[b])
            total = total + part
        return total

    wanted, on_host = jax.value_and_grad(unrolled, (0, 1))(X, rows)
    assert float(value) == float(wanted)
    for a, b in zip(gradients, on_host):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_forward_mode_and_second_derivatives():
    column = (ROWS[:, :1] + 5).astype("f4")  # no ties, no zeros

    def of_source(source):
        return (sow.index_reduce(X[:, :1], 0, KEYS, source, "mul") ** 2).sum()

    forward = jax.jit(jax.hessian(of_source))(*on_device(column))
    np.testing.assert_allclose(forward, jax.jit(jax.jacrev(jax.jacrev(of_source)))(*on_device(column)), rtol=1e-5)


def test_a_donated_destination_is_written_in_place():
    add = jax.jit(lambda x, keys, rows: sow.index_add(x, 0, keys, rows), donate_argnums=0)
    x, keys, rows = large()
    given = on_device(x, keys, rows)
    before = given[0].unsafe_buffer_pointer()
    out = add(*given)
    assert given[0].is_deleted()
    assert out.unsafe_buffer_pointer() == before
    wanted = sow.index_add(x, 0, keys, rows)
    assert cases.bits(out) == cases.bits(wanted)
    kept = on_device(x, keys, rows)
    again = jax.jit(lambda x, keys, rows: sow.index_add(x, 0, keys, rows))(*kept)
    assert cases.bits(again) == cases.bits(wanted)
    assert cases.bits(kept[0]) == cases.bits(x)


@pytest.mark.parametrize("donate", [False, True])
def test_a_bad_index_writes_nothing_and_is_told_by_check(donate):
    add = jax.jit(lambda x, keys, rows: sow.index_add(x, 0, keys, rows), donate_argnums=(0,) if donate else ())
    sow.cuda.synchronize()
    bad = KEYS.copy()
    bad[1] = 9
    out = add(*on_device(X, bad, ROWS)).block_until_ready()
    with pytest.raises(IndexError, match=r"index_add: index 9 at position \[1\] is out of range for axis 0 of size 4 "
                                         r"\(valid: -4 to 3\)"):
        sow.cuda.check()
    assert cases.bits(out) == cases.bits(X)
    # The next call is as if nothing had been.
    assert cases.bits(add(*on_device(X, KEYS, ROWS))) == cases.bits(sow.index_add(X, 0, KEYS, ROWS))
    sow.cuda.check()


def test_a_bad_key_of_a_batch_stays_in_its_sample():
    keys = np.stack([KEYS, KEYS])
    keys[0, 2] = 4  # where the next sample begins
    x = np.stack([X, X])
    sow.cuda.synchronize()
    out = jax.jit(jax.vmap(lambda x, keys: sow.index_add(x, 0, keys, ROWS)))(*on_device(x, keys)).block_until_ready()
    with pytest.raises(IndexError, match="index_add: index 4 at position"):
        sow.cuda.check()
    assert cases.bits(out[0]) == cases.bits(X)
    assert cases.bits(out[1]) == cases.bits(sow.index_add(X, 0, KEYS, ROWS))


def test_too_few_values_for_a_mask_are_told_by_check():
    sow.cuda.synchronize()
    out = jax.jit(sow.jax.masked_scatter)(*on_device(X, cases.MASK, np.ones(2, "f4"))).block_until_ready()
    with pytest.raises(ValueError, match="masked_scatter: "):
        sow.cuda.check()
    assert cases.bits(out) == cases.bits(X)


@pytest.mark.parametrize(("error", "make", "sentence"), [
    (ValueError, lambda x: sow.index_add(x, 5, KEYS, ROWS), "index_add: "),
    (TypeError, lambda x: sow.index_add(x, 0, KEYS, ROWS.astype("i4")), "index_add: .*same type"),
    (TypeError, lambda x: sow.index_add_(x, 0, KEYS, ROWS), "index_add_: JAX arrays are immutable; use index_add"),
    (ValueError, lambda x: sow.nonzero(x), "nonzero: the shape of its result depends on data"),
])
def test_what_needs_no_data_is_refused_while_tracing(error, make, sentence):
    with pytest.raises(error, match=sentence):
        jax.jit(make)(*on_device(X))


def test_what_xla_does_before_and_after_is_waited_for():
    """On XLA's own stream: the operands come out of a kernel, and the result goes into one."""
    x, keys, rows = large()

    @jax.jit
    def run(x, keys, rows, big):
        for _ in range(10):
            big = big @ big
            big = big / jnp.linalg.norm(big)
        delayed = jnp.where(jnp.isnan(big[0, 0]), 2.0, 1.0).astype("f4")
        y = sow.index_reduce(x * delayed, 0, keys, rows * delayed, "amax")
        return sow.index_select(y * delayed, 0, keys) * delayed

    big = np.random.default_rng(0).random((1024, 1024), "f4")
    found = run(*on_device(x, keys, rows, big))
    assert cases.bits(found) == cases.bits(sow.index_reduce(x, 0, keys, rows, "amax")[keys])


def test_two_training_runs_are_equal():
    x, keys, rows = large()
    target = np.random.default_rng(1).standard_normal(x.shape).astype("f4")

    def trained():
        weight, given = on_device(np.eye(16, dtype="f4"))[0], on_device(x, keys, rows, target)

        def loss(weight, x, keys, rows, target):
            pooled = sow.index_add(jnp.zeros_like(x), 0, keys, rows @ weight)
            return ((pooled - target) ** 2).mean()

        step = jax.jit(lambda weight, *given: weight - 1e-3 * jax.grad(loss)(weight, *given))
        for _ in range(5):
            weight = step(weight, *given)
        return cases.bits(weight)

    first = trained()
    assert all(trained() == first for _ in range(3))

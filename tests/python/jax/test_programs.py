# SPDX-License-Identifier: Apache-2.0
"""sow in JAX programs beyond the transformations: errors, donation, export, sharding."""

import os
import pathlib
import subprocess
import sys
import textwrap

import framework_cases as cases
import numpy as np
import pytest

import peers

if peers.jax is None:
    pytest.skip("going on without jax", allow_module_level=True)

import jax
import jax.numpy as jnp
from jax import export

import sow
import sow.jax

try:
    RuntimeError_ = jax.errors.JaxRuntimeError
except AttributeError:  # before 0.4.34
    from jaxlib.xla_extension import XlaRuntimeError as RuntimeError_

X, KEYS, ROWS = jnp.asarray(cases.X), jnp.asarray(cases.KEYS), jnp.asarray(cases.ROWS)


def test_a_bad_index_is_a_sentence_and_the_process_lives():
    add = jax.jit(lambda x, keys: sow.jax.index_add(x, 0, keys, ROWS))
    with pytest.raises(RuntimeError_, match=r"index_add: index 9 at position \[1\] is out of range "
                                                         r"for axis 0 of size 4 \(valid: -4 to 3\)"):
        add(X, KEYS.at[1].set(9)).block_until_ready()
    assert cases.bits(add(X, KEYS)) == cases.bits(sow.index_add(cases.X, 0, cases.KEYS, cases.ROWS))


def test_too_few_values_for_a_mask():
    scatter = jax.jit(sow.jax.masked_scatter)
    with pytest.raises(RuntimeError_, match="masked_scatter: "):
        scatter(X, cases.MASK, jnp.ones(2, "f4")).block_until_ready()


@pytest.mark.parametrize(("error", "make", "sentence"), [
    (ValueError, lambda x: sow.jax.index_add(x, 5, KEYS, ROWS), "index_add: "),
    (ValueError, lambda x: sow.jax.index_add(x, 0, KEYS[:2], ROWS), "index_add: "),
    (TypeError, lambda x: sow.jax.index_add(x, 0, KEYS, ROWS.astype("int32")), "index_add: .*same type"),
    (ValueError, lambda x: sow.jax.index_reduce(x, 0, KEYS, ROWS, "median"), "index_reduce: .*median"),
    (TypeError, lambda x: sow.jax.index_add(x, 0, KEYS, ROWS.astype("float8_e5m2")), "index_add: source is float8_e5m2"),
    (TypeError, lambda x: sow.jax.index_add(x, 0, KEYS), "index_add: 'source' is missing"),
    (TypeError, lambda x: sow.jax.index_add(x, 0, KEYS, ROWS, boundz="drop"), "index_add: 'boundz' is no argument"),
    (TypeError, lambda x: sow.jax.index_add_(x, 0, KEYS, ROWS), "index_add_: JAX arrays are immutable; use index_add"),
    (ValueError, lambda x: sow.jax.nonzero(x), "nonzero: the shape of its result depends on data"),
    (ValueError, lambda x: sow.jax.index_add(x, 0, KEYS, ROWS, stream=7), "index_add: .*stream"),
])
def test_what_needs_no_data_is_refused_while_tracing(error, make, sentence):
    with pytest.raises(error, match=sentence):
        jax.jit(make)(X)


def test_without_64_bit_types():
    with jax.experimental.enable_x64(False) if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(False):
        found = jax.jit(lambda x: sow.jax.index_add(x, 0, cases.KEYS.astype("i8"), cases.ROWS))(cases.X)
        assert cases.bits(found) == cases.bits(sow.index_add(cases.X, 0, cases.KEYS, cases.ROWS))
        with pytest.raises(TypeError, match="index_add: source is float64, but JAX has 64-bit types switched off"):
            sow.jax.index_add(X, 0, KEYS, cases.ROWS.astype("f8"))


def test_in_place_names_are_refused():
    for function in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(TypeError, match="index_add_: JAX arrays are immutable; use index_add"):
            function(lambda x: sow.index_add_(x, 0, [0], x))(jnp.ones((1, 1)))
    with pytest.raises(TypeError, match="index_add_: x is a jax.Array, which is immutable"):
        sow.index_add_(jnp.ones(4), 0, [0], [1.0])


def test_one_tracer_is_enough():
    """The destination may be anybody's array, and the tracer any argument."""
    found = jax.jit(lambda keys: sow.index_add(cases.X, 0, keys, cases.ROWS))(KEYS)
    assert cases.bits(found) == cases.bits(sow.index_add(cases.X, 0, cases.KEYS, cases.ROWS))
    found = jax.jit(lambda keys: sow.index_put(X, (keys, [0, 1, 2, 2, 0]), 1.0))(KEYS)
    assert cases.bits(found) == cases.bits(sow.index_put(cases.X, (cases.KEYS, [0, 1, 2, 2, 0]), 1.0))
    found = jax.jit(lambda value: sow.scatter_nd(cases.PAIRS, value, (4, 3)))(jnp.ones(3))
    assert cases.bits(found) == cases.bits(sow.scatter_nd(cases.PAIRS, np.ones(3), (4, 3)))


def test_lists_numbers_and_held_indices():
    assert sow.jax.index_add(jnp.zeros(3, "f4"), 0, [0, 2, 0], [1.0, 2.0, 3.0]).tolist() == [4, 0, 2]
    held = sow.Index(np.array([0, 5, 0]), 3, bounds="drop")
    found = jax.jit(lambda x: sow.jax.index_add(x, 0, held, jnp.ones(3)))(jnp.zeros(3))
    assert found.tolist() == [2, 0, 0]


def test_a_traced_number_is_of_the_destinations_type():
    """What Python's float is outside: weakly typed, and float64 where JAX has 64-bit types."""
    for function in (lambda v: sow.index_fill(X, 0, KEYS, v), lambda v: sow.mul(X, v),
                     lambda v: sow.masked_fill(X.astype("bfloat16"), cases.MASK, v)):
        assert cases.bits(jax.jit(function)(1.5)) == cases.bits(function(1.5))
        assert jax.grad(lambda v, f=function: f(v).astype("float32").sum())(1.5).dtype == float
    assert cases.bits(jax.jit(lambda v: sow.index_fill(KEYS, 0, [1], v))(7)) == cases.bits(sow.index_fill(KEYS, 0, [1], 7))
    with pytest.raises(TypeError, match="index_fill: .*same type"):
        jax.jit(lambda v: sow.index_fill(KEYS, 0, [1], v))(1.5)


def test_a_donated_destination_is_written_in_place():
    add = jax.jit(lambda x, keys, rows: sow.jax.index_add(x, 0, keys, rows), donate_argnums=0)
    x = jnp.zeros((1000, 3), "f4") + 1
    before = x.unsafe_buffer_pointer()
    out = add(x, KEYS, ROWS)
    assert x.is_deleted()
    assert out.unsafe_buffer_pointer() == before
    kept = jnp.zeros((1000, 3), "f4") + 1
    again = jax.jit(lambda x, keys, rows: sow.jax.index_add(x, 0, keys, rows))(kept, KEYS, ROWS)
    assert cases.bits(again) == cases.bits(out)
    assert np.all(np.asarray(kept) == 1)


def test_export_with_symbolic_shapes():
    n, e, d = export.symbolic_shape("n, e, d")
    dtype = X.dtype
    shapes = [jax.ShapeDtypeStruct((n, d), dtype), jax.ShapeDtypeStruct((e,), "int32"),
              jax.ShapeDtypeStruct((e, d), dtype)]

    def layer(x, keys, rows):
        gathered = sow.jax.index_select(x, 0, keys)
        return sow.jax.index_reduce(x, 0, keys, gathered * rows, "mean")

    def gradients(x, keys, rows):
        return jax.grad(lambda x, rows: (layer(x, keys, rows) ** 2).sum(), (0, 1))(x, rows)

    checks = [export.DisabledSafetyCheck.custom_call("sow")]
    for function in (layer, gradients):
        exported = export.export(jax.jit(function), disabled_checks=checks)(*shapes)
        for rows in (5, 3):
            given = (X, KEYS[:rows], ROWS[:rows])
            got, want = jax.tree.leaves(exported.call(*given)), jax.tree.leaves(function(*given))
            assert [cases.bits(a) for a in got] == [cases.bits(a) for a in want]
    with pytest.raises(ValueError, match="flatten: the shape of its result cannot be told"):
        export.export(jax.jit(sow.jax.flatten), disabled_checks=checks)(shapes[0])


def test_a_graph_network():
    example = pathlib.Path(__file__).resolve().parents[3] / "examples" / "jax_graph_network.py"
    done = subprocess.run([sys.executable, str(example)], env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=False,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the same bits" in done.stdout


def run_on_two_devices(program):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=False,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_shard_map():
    run_on_two_devices("""
        import jax, numpy as np, jax.numpy as jnp, sow, sow.jax
        from jax.sharding import Mesh, PartitionSpec as P
        try:
            from jax import shard_map
        except ImportError:
            from jax.experimental.shard_map import shard_map
        mesh = Mesh(np.array(jax.devices()), ("columns",))
        x, keys, rows = np.zeros((4, 6), "f4"), np.array([0, 2, 2], "i4"), np.arange(18, dtype="f4").reshape(3, 6)

        def loss(x, rows):
            add = shard_map(lambda x, rows: sow.jax.index_add(x, 0, jnp.asarray(keys), rows) ** 2, mesh=mesh,
                            in_specs=(P(None, "columns"), P(None, "columns")), out_specs=P(None, "columns"))
            return add(x, rows).sum()

        def alone(x, rows):
            return (sow.jax.index_add(x, 0, keys, rows) ** 2).sum()

        assert jax.jit(loss)(x, rows) == alone(x, rows)
        for got, want in zip(jax.jit(jax.grad(loss, (0, 1)))(x, rows), jax.grad(alone, (0, 1))(x, rows)):
            assert np.array_equal(got, want)
    """)


def test_columns_need_no_gather():
    """Under plain jit, split along dimensions that no index addresses: forward and backward."""
    run_on_two_devices("""
        import jax, numpy as np, jax.numpy as jnp, sow, sow.jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("columns",))
        x, keys = np.ones((4, 6), "f4"), np.array([0, 2, 2], "i4")
        rows = np.random.default_rng(0).standard_normal((3, 6)).astype("f4")
        split = NamedSharding(mesh, P(None, "columns"))
        for reduce in ("add", "mul"):
            def loss(x, keys, rows):
                y = sow.index_reduce(x, 0, keys, sow.index_select(x, 0, keys) * rows, reduce)
                return y
            def grads(x, keys, rows):
                return jax.vjp(lambda x, rows: loss(x, keys, rows), x, rows)[1](x)
            for f in (loss, grads):
                want = f(x, keys, rows)
                given = (jax.device_put(x, split), jnp.asarray(keys), jax.device_put(rows, split))
                run = jax.jit(f)
                with mesh:  # which JAX before 0.5 has to be told
                    text, found = run.lower(*given).compile().as_text(), run(*given)
                assert "all-gather" not in text and "all-reduce" not in text and "all-to-all" not in text, text
                for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want)):
                    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
                    assert a.sharding.is_equivalent_to(split, 2), a.sharding
        # What is split along the indexed axis is gathered, and right.
        by_rows = NamedSharding(mesh, P("columns", None))
        found = jax.jit(lambda x: sow.index_add(x, 0, keys, rows))(jax.device_put(x, by_rows))
        assert np.asarray(found).tobytes() == sow.index_add(x, 0, keys, rows).tobytes()
    """)

# SPDX-License-Identifier: Apache-2.0
"""Sharded scatters inside of shard_map on host devices, against one call; started with XLA_FLAGS by test_processes.py.

Every type and reduction on 1 to 8 devices:
    JAX_ENABLE_X64=1 XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/python/distributed/jax_ranks.py --all
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from ranks import REDUCTIONS, TYPES, allowed

import sow

d = sow.distributed
ROWS, COUNT = 24, 48


def sharded(function, devices, arrays):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("r",))
    spec = PartitionSpec("r")
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=(spec,) * arrays, out_specs=spec))


def same(a, b, what):
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), what


def compare(devices, cases):
    random = np.random.default_rng(devices)
    for dtype, reduce in cases:
        x = (random.standard_normal((ROWS, 2)) * 2.0 ** random.integers(-9, 9, (ROWS, 2))).astype(dtype)
        source = (random.standard_normal((COUNT, 2)) * 2.0 ** random.integers(-9, 9, (COUNT, 2))).astype(dtype)
        index = random.integers(-ROWS, ROWS, COUNT).astype("i4")
        call = sharded(lambda x, i, s, r=reduce: d.index_reduce(x, 0, i, s, r, group="r"), devices, 3)
        same(call(x, index, source), sow.index_reduce(x, 0, index, source, reduce), (devices, dtype, reduce))
        crowded = np.full(COUNT, ROWS - 1, "i4")  # more than the blocks for an even share hold
        same(call(x, crowded, source), sow.index_reduce(x, 0, crowded, source, reduce), (devices, dtype, reduce, "crowded"))
    select = sharded(lambda x, i: d.index_select(x, 0, i, group="r"), devices, 2)
    same(select(x, index), sow.index_select(x, 0, index), "select")
    indices = np.stack([index, random.integers(0, 2, COUNT).astype("i4")], -1)
    nd = sharded(lambda x, i, s: d.tensor_scatter_nd_sub(x, i, s, group="r"), devices, 3)
    same(nd(x, indices, source[:, 0]), sow.tensor_scatter_nd_sub(x, indices, source[:, 0]), "nd")
    add = sharded(lambda x, i, s: d.index_add(x, 0, i, s, group="r"), devices, 3)
    x, source = x.real.astype("f4"), source.real.astype("f4")
    got = jax.grad(lambda x, s: (add(x, index, s) ** 2).sum(), (0, 1))(x, source)
    want = jax.grad(lambda x, s: (sow.index_add(x, 0, index, s) ** 2).sum(), (0, 1))(jnp.asarray(x), jnp.asarray(source))
    for a, b in zip(got, want):
        same(a, b, "gradients")
    bad = index.copy()
    bad[-1] = ROWS
    try:
        add(x, bad, source).block_until_ready()
    except Exception as error:
        assert f"index {ROWS}" in str(error), error
    else:
        raise AssertionError("a bad index went through")


if __name__ == "__main__":
    if "--all" in sys.argv:
        for number in (1, 2, 3, 4, 8):
            compare(number, [(t, r) for t in TYPES for r in REDUCTIONS if allowed(t, r)])
            print(f"jax, {number} devices: equal bits", flush=True)
    else:
        compare(4, [("float32", "add"), ("int32", "assign")])
        print("jax, 4 devices: equal bits")

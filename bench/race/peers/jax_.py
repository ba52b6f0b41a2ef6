# SPDX-License-Identifier: Apache-2.0
"""JAX on the CPU or, where the parent says so, on the GPU: x.at[...] under jit, the destination donated where the case is in place."""

# mypy: ignore-errors
from __future__ import annotations

import os
from typing import Any

import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp

from ..cases import Case
from ..data import Arrays
from ..way import Way

METHODS = {"add": "add", "mul": "multiply", "amax": "max", "amin": "min", "assign": "set"}


def start(threads: int) -> str:
    jax.config.update("jax_enable_x64", True)
    return str(jax.__version__)


def set_threads(threads: int) -> None:
    """XLA sizes its pool when the process starts: cases on fewer threads leave JAX out."""


def on_gpu() -> bool:
    return jax.default_backend() == "gpu"


def own(array: Any, dtype: str) -> jax.Array:
    if not isinstance(array, np.ndarray):
        return jax.dlpack.from_dlpack(array)
    if dtype == "bfloat16" and array.dtype == np.uint16:
        array = array.view(jnp.bfloat16)
    return jnp.array(array)


def plain(array: Any) -> Any:
    if on_gpu():
        return array
    array = np.asarray(array)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def step(case: Case) -> Any:
    """The case as a function of the destination, what addresses it, and the source."""
    method = METHODS.get(case.reduce)
    if case.kind == "masked":
        return lambda x, mask, src: jnp.place(x, jnp.broadcast_to(mask, x.shape), src, inplace=False)
    if case.kind == "nd":
        return lambda x, index, src: x.at[index[:, 0], index[:, 1]].add(src, mode="promise_in_bounds")
    if case.kind == "cache":
        return lambda x, index, src: x.at[:, :, index].set(src, mode="promise_in_bounds")
    if case.kind == "diagonal":
        extent = np.arange(min(case.shape[-2:]))
        return lambda x, _, src: x.at[..., extent, extent].set(src)
    if case.kind == "gather" and case.axis < 0:
        return lambda x, index, _: x.at[index].get(mode="promise_in_bounds")
    if case.kind == "gather":
        return lambda x, index, _: jnp.take_along_axis(x, index, case.axis, mode="promise_in_bounds")
    if case.kind == "along":
        def along(x: jax.Array, index: jax.Array, src: jax.Array) -> jax.Array:
            grid = list(jnp.ogrid[tuple(slice(extent) for extent in case.items)])
            grid[case.axis] = index
            return getattr(x.at[tuple(grid)], method)(src, mode="promise_in_bounds")  # type: ignore[arg-type]

        return along
    return lambda x, index, src: getattr(x.at[index], method)(src, mode="promise_in_bounds")  # type: ignore[arg-type]


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    if case.kind == "family" or case.reduce not in METHODS or (on_gpu() and case.kind == "masked") or (case.threads and case.threads != os.cpu_count()):
        return []
    x0, src = own(arrays["x"], case.dtype), own(arrays["src"], case.dtype)
    address = own(arrays["mask"], "bool") if case.kind == "masked" else None
    if "index" in arrays:
        address = own(arrays["index"], "int64").astype(jnp.int32)  # half the bytes: the faster of its two
    if case.backward:
        return [backward(case, x0, address, src, own(arrays["grad"], case.dtype))]
    quick: Any = jax.jit(step(case), donate_argnums=(0,) if case.in_place else ())
    state = {"x": jnp.copy(x0)}

    def compile() -> None:
        nonlocal quick
        quick = quick.lower(state["x"], address, src).compile()

    def run() -> jax.Array:
        out = quick(state["x"], address, src)
        if not on_gpu():
            out.block_until_ready()
        if case.in_place:
            state["x"] = out
        return out

    def reset() -> None:
        state["x"] = jnp.copy(x0).block_until_ready()

    return [Way("x.at under jit", run=run, result=lambda out: [plain(out)], reset=reset if case.in_place else None,
                compiled=True, compile=compile if on_gpu() else None, wait=jax.block_until_ready)]


def backward(case: Case, x: jax.Array, index: Any, src: jax.Array, grad: jax.Array) -> Way:
    function = step(case)

    def both(x: jax.Array, index: Any, src: jax.Array, grad: jax.Array) -> tuple[jax.Array, jax.Array]:
        out, pull = jax.vjp(lambda source: function(x, index, source), src)
        return out, pull(grad)[0]

    quick: Any = jax.jit(both)

    def compile() -> None:
        nonlocal quick
        quick = quick.lower(x, index, src, grad).compile()

    return Way("x.at, vjp under jit", run=lambda: jax.block_until_ready(quick(x, index, src, grad)),
               result=lambda out: [plain(out[0]), plain(out[1])], compiled=True, compile=compile if on_gpu() else None,
               wait=jax.block_until_ready)

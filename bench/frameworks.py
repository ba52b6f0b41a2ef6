# SPDX-License-Identifier: Apache-2.0
"""sow inside PyTorch, JAX and Paddle beside their own operations: small calls, and forward with backward.

    python bench/frameworks.py [--device cuda] [--only torch jax paddle]

A time is the smallest of many short runs, so that other work on the machine shows little. Inside of JAX
everything is jitted. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sow

Call = Callable[[], Any]
Case = tuple[str, Call, Call]  # a name, sow's call, the library's own

ROWS, COLUMNS, PLACES = 200_000, 64, 50_000


def smallest(run: Call, times: int, repeats: int, wait: Callable[[Any], Any]) -> float:
    """Seconds a call."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        result = None
        for _ in range(times):
            result = run()
        wait(result)
        best = min(best, (time.perf_counter() - begin) / times)
    return best


def table(title: str, library: str, cases: list[Case], unit: float, times: int, repeats: int,
          wait: Callable[[Any], Any]) -> None:
    print(f"\n{title:48}{'sow':>9}{library:>9}{'ratio':>7}")
    for name, ours, theirs in cases:
        taken = []
        for call in (ours, theirs):
            wait(call())  # compiled, planned, pages touched
            taken.append(smallest(call, times, repeats, wait))
        print(f"{name:48}{taken[0] / unit:9.2f}{taken[1] / unit:9.2f}{taken[0] / taken[1]:7.2f}", flush=True)


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, index, source, and a weight for the gradient."""
    generator = np.random.default_rng(0)
    return (np.zeros((PLACES, COLUMNS), "f4"), generator.integers(0, PLACES, ROWS),
            generator.standard_normal((ROWS, COLUMNS), "f4"), generator.standard_normal((PLACES, COLUMNS), "f4"))


SMALL = "16 rows of 8, us a call"
LARGE = f"{ROWS} rows of {COLUMNS} to {PLACES}, forward and backward, ms"


def in_torch(torch: Any, device: str) -> None:
    def wait(_: Any) -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    small, ones = torch.zeros(16, 8, device=device), torch.ones(16, 8, device=device)
    leaf, keys = torch.zeros(16, 8, device=device, requires_grad=True), torch.arange(16, device=device)
    table(SMALL, "torch", [
        ("index_add", lambda: sow.index_add(small, 0, keys, ones), lambda: torch.index_add(small, 0, keys, ones)),
        ("index_add, recorded", lambda: sow.index_add(leaf, 0, keys, ones), lambda: torch.index_add(leaf, 0, keys, ones)),
    ], 1e-6, 60, 1500, wait)

    x, index, source, weight = (torch.from_numpy(a).to(device) for a in arrays())
    x.requires_grad_(), source.requires_grad_()
    grid = index[:, None].expand(ROWS, COLUMNS)

    def step(call: Call) -> Call:
        return lambda: torch.autograd.grad(call(), (x, source), weight)

    table(LARGE, "torch", [
        ("index_add", step(lambda: sow.index_add(x, 0, index, source)),
         step(lambda: torch.index_add(x, 0, index, source))),
        ("scatter_add", step(lambda: sow.scatter_add(x, 0, grid, source)),
         step(lambda: torch.scatter_add(x, 0, grid, source))),
        *((f"index_reduce {r}", step(lambda r=r: sow.index_reduce(x, 0, index, source, r)),
           step(lambda r=r: torch.index_reduce(x, 0, index, source, r))) for r in ("mean", "amax")),
    ], 1e-3, 1, 7, wait)


def in_jax(jax: Any, device: str) -> None:
    jnp, wait = jax.numpy, jax.block_until_ready
    place = jax.devices("gpu" if device == "cuda" else "cpu")[0]

    def put(array: np.ndarray) -> Any:
        return jax.device_put(array, place)

    def jitted(call: Callable[..., Any], *args: Any) -> Call:
        compiled = jax.jit(call)
        return lambda: compiled(*args)

    small = put(np.zeros((16, 8), "f4")), put(np.arange(16)), put(np.ones((16, 8), "f4"))
    table(SMALL, "jax", [
        ("index_add", jitted(lambda x, i, s: sow.index_add(x, 0, i, s), *small),
         jitted(lambda x, i, s: x.at[i].add(s), *small)),
    ], 1e-6, 60, 500, wait)

    x, index, source, weight = map(put, arrays())

    def step(call: Callable[..., Any]) -> Call:
        """The value is wanted as well: else XLA leaves the forward of a sum away."""
        def both(x: Any, index: Any, source: Any, weight: Any) -> Any:
            value, pull = jax.vjp(lambda x, s: call(x, index, s), x, source)
            return value, pull(weight)
        return jitted(both, x, index, source, weight)

    table(LARGE, "jax", [
        ("index_add", step(lambda x, i, s: sow.index_add(x, 0, i, s)), step(lambda x, i, s: x.at[i].add(s))),
        ("index_reduce amax", step(lambda x, i, s: sow.index_reduce(x, 0, i, s, "amax")),
         step(lambda x, i, s: x.at[i].max(s))),
        ("index_add of index_select", step(lambda x, i, s: sow.index_add(x, 0, i, sow.index_select(x, 0, i) * s)),
         step(lambda x, i, s: x.at[i].add(jnp.take(x, i, 0) * s))),
    ], 1e-3, 1, 5, wait)


def in_paddle(paddle: Any, device: str) -> None:
    paddle.set_device("gpu" if device == "cuda" else "cpu")

    def wait(_: Any) -> None:
        if device == "cuda":
            paddle.device.synchronize()

    def made(array: np.ndarray, gradient: bool = False) -> Any:
        return paddle.to_tensor(array, stop_gradient=not gradient)

    small, leaf, keys, ones = (made(np.zeros((16, 8), "f4")), made(np.zeros((16, 8), "f4"), True), made(np.arange(16)),
                               made(np.ones((16, 8), "f4")))
    table(SMALL, "paddle", [
        ("index_add", lambda: sow.index_add(small, 0, keys, ones), lambda: paddle.index_add(small, keys, 0, ones)),
        ("index_add, recorded", lambda: sow.index_add(leaf, 0, keys, ones),
         lambda: paddle.index_add(leaf, keys, 0, ones)),
    ], 1e-6, 20, 200, wait)

    plain = arrays()
    x, index, source, weight = made(plain[0], True), made(plain[1]), made(plain[2], True), made(plain[3])
    grid = index.unsqueeze(1).expand([ROWS, COLUMNS])

    def step(call: Call) -> Call:
        return lambda: paddle.grad(call(), [x, source], weight)

    table(LARGE, "paddle", [
        ("index_add", step(lambda: sow.index_add(x, 0, index, source)),
         step(lambda: paddle.index_add(x, index, 0, source))),
        ("put_along_axis add", step(lambda: sow.put_along_axis(x, grid, source, 0, "add", broadcast=False)),
         step(lambda: paddle.put_along_axis(x, grid, source, 0, "add", broadcast=False))),
    ], 1e-3, 1, 5, wait)


def has_device(library: Any) -> bool:
    """Whether the library sees a GPU."""
    if library.__name__ == "jax":
        return any(device.platform == "gpu" for device in library.devices())
    return bool(library.cuda.is_available() if library.__name__ == "torch" else library.is_compiled_with_cuda())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="+", default=["torch", "jax", "paddle"], choices=("torch", "jax", "paddle"))
    given = parser.parse_args()
    os.environ.setdefault("GLOG_minloglevel", "2")
    if given.device == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    for name, measure in (("torch", in_torch), ("jax", in_jax), ("paddle", in_paddle)):
        if name not in given.only:
            continue
        try:
            library = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not here, going on without")
            continue
        if given.device == "cuda" and not has_device(library):
            print(f"{name} sees no GPU here, going on without")
            continue
        print(f"\nsow {sow.__version__} inside of {name} {library.__version__}, {given.device}")
        measure(library, given.device)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""`sow info`: the machine, and the array libraries that are there."""

import importlib.metadata
import importlib.util
import os
import platform
import time
from collections.abc import Iterator

from . import __version__, _core, cuda, get_num_threads, ones
from ._race import look

LIBRARIES = {
    "NumPy": ("numpy", "numpy"),
    "ml_dtypes": ("ml_dtypes", "ml_dtypes"),
    "PyTorch": ("torch", "torch"),
    "JAX": ("jax", "jax"),
    "CuPy": ("cupy", "cupy"),
    "Paddle": ("paddle", "paddlepaddle"),
}


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} processors"


def copy_bandwidth(megabytes: int = 128) -> float:
    """GB/s of our own copy, counting what is read and what is written; the best of five."""
    source = ones(megabytes << 18)
    target = ones(megabytes << 18)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - began)
    return 2 * source.nbytes / best / 1e9


def libraries() -> Iterator[tuple[str, str]]:
    """The version of each library that could be imported; none of them is."""
    for label, (module, package) in LIBRARIES.items():
        if importlib.util.find_spec(module) is None:
            yield label, "not here"
            continue
        try:
            yield label, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield label, "here"


def main() -> None:
    rows = [
        ("sow", __version__),
        ("Python", platform.python_version()),
        ("processor", processor()),
        ("instructions", _core._instruction_set()),
        ("threads", str(get_num_threads())),
        ("memory", f"{copy_bandwidth():.1f} GB/s copied, reads and writes counted"),
        ("devices", f"cpu; {cuda.status()}"),
        *libraries(),
    ]
    look.rows(rows)

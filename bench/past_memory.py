# SPDX-License-Identifier: Apache-2.0
"""Arrays larger than memory: a memmap of 6 GiB under a control group of 1 GiB, beside np.add.at and sort-and-fold.

    python bench/past_memory.py FOLDER [--gib 6] [--limit 1] [--updates 100000000] [--peers 10000000] [--only NAME ...]

FOLDER is on a disk with room for twice the array and half as much again. Every contender is a process of its own, in a
control group of its own (of version 1 or 2; root makes it), with the file written anew and out of the page cache before it
starts. What sow wrote is compared, bit for bit, with one call in memory, outside of the group.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import sow

BATCH = 1_000_000
PATTERN = 1 << 24  # elements of what the file holds, again and again


class Group:
    """A control group with a limit of memory."""

    def __init__(self, limit: int):
        old, new = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        self.path = (old if old.is_dir() else new) / f"sow-past-memory-{os.getpid()}"
        self.path.mkdir()
        name = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
        (self.path / name).write_text(str(limit))

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int:
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (self.path / name).exists():
                return int((self.path / name).read_text())
        return 0

    def remove(self) -> None:
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.2)


# -- problems: the same numbers for everybody, made in parts so that nobody holds them all


def pattern() -> Any:
    return np.random.default_rng(1).standard_normal(PATTERN).astype("f4")


def batches(places: int, count: int) -> Iterator[tuple[Any, Any]]:
    for number, first in enumerate(range(0, count, BATCH)):
        random = np.random.default_rng([2, number])
        size = min(BATCH, count - first)
        yield random.integers(0, places, size), random.standard_normal(size).astype("f4")


def updates(places: int, count: int) -> tuple[Any, Any]:
    keys, values = zip(*batches(places, count))
    return np.concatenate(keys), np.concatenate(values)


def rows_of(places: int, count: int) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    return random.integers(0, places // 64, count), random.standard_normal((count, 64)).astype("f4")


def mask_of(folder: pathlib.Path, places: int) -> Any:
    """One true in a hundred; a file too, as it is a quarter of the array."""
    return np.memmap(folder / "mask", "?", "r", shape=(places,))


def values_of(trues: int) -> Any:
    return np.random.default_rng(4).standard_normal(trues).astype("f4")


# -- contenders: each takes the array, the folder and how many updates


def add_rows(x: Any, folder: pathlib.Path, count: int) -> None:
    sow.index_add_(x.reshape(-1, 64), 0, *rows_of(x.size, count))


def add_rows_numpy(x: Any, folder: pathlib.Path, count: int) -> None:
    np.add.at(x.reshape(-1, 64), *rows_of(x.size, count))


def sort_rows(x: Any, folder: pathlib.Path, count: int) -> None:
    keys, rows = rows_of(x.size, count)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    x.reshape(-1, 64)[keys[begins]] += np.add.reduceat(rows[order], begins)


def put(x: Any, folder: pathlib.Path, count: int) -> None:
    keys, values = updates(x.size, count)
    sow.put_along_axis_(x, keys, values, 0, "add")


def put_numpy(x: Any, folder: pathlib.Path, count: int) -> None:
    np.add.at(x, *updates(x.size, count))


def sort_and_fold(x: Any, folder: pathlib.Path, count: int) -> None:
    keys, values = updates(x.size, count)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    x[keys[begins]] += np.add.reduceat(values[order], begins)


def fill_mask(x: Any, folder: pathlib.Path, count: int) -> None:
    mask = mask_of(folder, x.size)
    sow.masked_scatter_(x, mask, values_of(int((folder / "trues").read_text())))


def fill_mask_numpy(x: Any, folder: pathlib.Path, count: int) -> None:
    x[mask_of(folder, x.size)] = values_of(int((folder / "trues").read_text()))


def stream(x: Any, folder: pathlib.Path, count: int) -> None:
    with sow.stream(x, 0, "add", memory=1 << 28, progress=False) as one:
        for keys, values in batches(x.size, count):
            one.add(keys, values)


def stream_numpy(x: Any, folder: pathlib.Path, count: int) -> None:
    for keys, values in batches(x.size, count):
        np.add.at(x, keys, values)


def stream_sorted(x: Any, folder: pathlib.Path, count: int) -> None:
    for keys, values in batches(x.size, count):
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        x[keys[begins]] += np.add.reduceat(values[order], begins)


def in_memory(name: str, x: Any, folder: pathlib.Path, count: int) -> None:
    """What sow must have written: one call on an array in memory."""
    if name == "stream":
        sow.index_add_(x, 0, *updates(x.size, count))
    else:
        CASES[name][0](x, folder, count)


CASES = {
    "index_add_": (add_rows, add_rows_numpy, sort_rows),
    "put_along_axis_": (put, put_numpy, sort_and_fold),
    "masked_scatter_": (fill_mask, fill_mask_numpy),
    "stream": (stream, stream_numpy, stream_sorted),
}
WORDS = {
    "index_add_": "rows of 64",
    "put_along_axis_": "elements, reduce add",
    "masked_scatter_": "1% true, the mask a file too",
    "stream": "elements, in calls of a million",
}


# -- running


def write(folder: pathlib.Path, places: int) -> None:
    block = pattern().tobytes()
    with open(folder / "x", "wb") as file:
        left = places * 4
        while left > 0:
            file.write(block[:left])
            left -= len(block)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_mask(folder: pathlib.Path, places: int) -> None:
    trues = 0
    with open(folder / "mask", "wb") as file:
        for number, first in enumerate(range(0, places, PATTERN)):
            part = np.random.default_rng([5, number]).random(min(PATTERN, places - first), "f4") < 0.01
            trues += int(part.sum())
            file.write(part.tobytes())
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    (folder / "trues").write_text(str(trues))


def work(folder: pathlib.Path, name: str, number: int, places: int, count: int) -> None:
    """The child: in the group already."""
    x = np.memmap(folder / "x", "f4", "r+", shape=(places,))
    begin = time.perf_counter()
    CASES[name][number](x, folder, count)
    x.flush()
    print(f"{time.perf_counter() - begin:.1f}", flush=True)


def run(arguments: argparse.Namespace, name: str, number: int, count: int) -> str:
    places = arguments.gib * 2**28
    write(arguments.folder, places)
    group = Group(int(arguments.limit * 2**30))
    command = [sys.executable, __file__, str(arguments.folder), "--gib", str(arguments.gib), "--work", name, str(number), str(count)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
    try:
        out = child.communicate(timeout=arguments.patience if number else None)[0]
        said = f"{out.strip()} s" if child.returncode == 0 else f"ended by signal {-child.returncode}"
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        said = f"not done in {arguments.patience} s"
    peak = group.peak()
    group.remove()
    return f"{said}, {peak / 2**20:.0f} MiB"


def is_equal(arguments: argparse.Namespace, name: str, count: int) -> bool:
    places = arguments.gib * 2**28
    x = np.resize(pattern(), places)
    in_memory(name, x, arguments.folder, count)
    found = np.memmap(arguments.folder / "x", "u4", "r", shape=(places,))
    return all(bool((x[a:a + PATTERN].view("u4") == found[a:a + PATTERN]).all()) for a in range(0, places, PATTERN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gib", type=int, default=6)
    parser.add_argument("--limit", type=float, default=1, help="of the group, in GiB")
    parser.add_argument("--rows", type=int, default=200_000, help="of index_add_")
    parser.add_argument("--elements", type=int, default=10_000_000, help="of put_along_axis_")
    parser.add_argument("--updates", type=int, default=100_000_000, help="of the stream")
    parser.add_argument("--peers", type=int, default=10_000_000, help="of NumPy's streams")
    parser.add_argument("--patience", type=float, default=300, help="seconds for NumPy")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        name, number, count = arguments.work
        work(arguments.folder, name, int(number), arguments.gib * 2**28, int(count))
        return
    unknown = set(arguments.only) - set(CASES)
    if unknown:
        parser.error(f"no case {sorted(unknown)}; there are {', '.join(CASES)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"{arguments.gib} GiB of float32 in a file, {arguments.limit} GiB for the process and its pages")
    counts = {"index_add_": arguments.rows, "put_along_axis_": arguments.elements, "masked_scatter_": 0, "stream": arguments.updates}
    for name in arguments.only:
        if name == "masked_scatter_":
            write_mask(arguments.folder, arguments.gib * 2**28)
        for number, contender in enumerate(CASES[name]):
            count = min(arguments.peers, counts[name]) if number else counts[name]
            said = run(arguments, name, number, count)
            if number == 0:
                said += ", " + ("equal bits" if is_equal(arguments, name, count) else "OTHER BITS than in memory")
            print(f"{name:16} {contender.__name__:16} {count:>11,} {WORDS[name]}: {said}", flush=True)
    for left in ("x", "mask", "trues"):
        (arguments.folder / left).unlink(missing_ok=True)


if __name__ == "__main__":
    main()

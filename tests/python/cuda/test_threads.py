# SPDX-License-Identifier: Apache-2.0
"""Many threads and streams at once, and a failing index among good ones."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sow

from gpu_device import needs_device, torch

pytestmark = needs_device


def on_streams(work, count=8):
    """work(number) on `count` threads, each with a stream of its own; what a thread raises is raised here."""

    def run(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_threads_with_streams_of_their_own():
    random = np.random.default_rng(0)
    x, index = np.zeros((50, 8), "f4"), random.integers(0, 50, 4000)
    source = random.standard_normal((4000, 8)).astype("f4")
    expected = sow.index_add(x, 0, index, source).tobytes()

    def work(_):
        dx, di, ds = (torch.from_numpy(a).cuda() for a in (x, index, source))
        return sum(sow.index_add(dx, 0, di, ds).cpu().numpy().tobytes() != expected for _ in range(25))

    assert on_streams(work) == [0] * 8


def test_sums_to_different_numbers_of_places_at_once():
    # What a launch needs of shared memory follows the number of places.
    random = np.random.default_rng(1)
    problems = []
    for places in (1, 2, 5, 17, 60, 200, 650, 1000, 1500, 2200, 3000, 4000):
        index = random.integers(0, places, 20000)
        source = random.standard_normal(20000).astype("f4")
        expected = sow.scatter_add(np.zeros(places, "f4"), 0, index, source).tobytes()
        problems.append((np.zeros(places, "f4"), index, source, expected))

    def work(number):
        arrays = [[torch.from_numpy(a).cuda() for a in problem[:3]] for problem in problems]
        wrong = 0
        for round_ in range(1600):
            which = (7 * round_ + 5 * number) % len(problems)
            x, index, source = arrays[which]
            found = sow.scatter_add(x, 0, index, source)
            if round_ % 20 == 0:
                wrong += found.cpu().numpy().tobytes() != problems[which][3]
        return wrong

    assert on_streams(work) == [0] * 8
    sow.cuda.check()


def test_a_failing_index_among_good_ones():
    sow.cuda.synchronize()
    x = torch.zeros(1000, device="cuda")
    good, bad = torch.arange(1000, device="cuda"), torch.arange(1000, device="cuda")
    bad[777] = 1000
    ones = torch.ones(1000, device="cuda")
    for round_ in range(20):
        sow.scatter_add_(x, 0, good, ones)
        if round_ % 5 == 2:
            sow.scatter_add_(x, 0, bad, ones)
    with pytest.raises(IndexError, match=r"index 1000 at position \[777\]"):
        sow.cuda.check()
    sow.cuda.check()
    assert x.unique().tolist() == [20]


def test_debug_checks_raise_at_once():
    sow.cuda.set_debug_checks(True)
    try:
        with pytest.raises(IndexError, match="scatter_add_"):
            sow.scatter_add_(torch.zeros(3, device="cuda"), 0, torch.tensor([3], device="cuda"), torch.ones(1, device="cuda"))
    finally:
        sow.cuda.set_debug_checks(False)
    sow.cuda.check()


def test_info_shows_the_device():
    import subprocess
    import sys

    said = subprocess.run([sys.executable, "-m", "sow", "info"], capture_output=True, text=True, check=True).stdout
    assert "cuda:0" in said and torch.cuda.get_device_name(0) in said

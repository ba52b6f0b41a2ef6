"""Many threads and streams at once, and a failing index among good ones."""

import threading

import numpy as np
import pytest
from gpu_device import needs_device, torch

import sow

pytestmark = needs_device


def test_threads_with_streams_of_their_own():
    random = np.random.default_rng(0)
    x, index = np.zeros((50, 8), "f4"), random.integers(0, 50, 4000)
    source = random.standard_normal((4000, 8)).astype("f4")
    expected = sow.index_add(x, 0, index, source).tobytes()
    wrong = []

    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            dx, di, ds = (torch.from_numpy(a).cuda() for a in (x, index, source))
            for _ in range(25):
                found = sow.index_add(dx, 0, di, ds)
                if found.cpu().numpy().tobytes() != expected:
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


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

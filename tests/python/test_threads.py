"""The GIL is free while a kernel runs, many threads may call at once, a forked child works."""

import subprocess
import sys
import threading
import time

import numpy as np
import peers
import pytest

import sow


def problem(seed, size=200_000):
    generator = np.random.default_rng(seed)
    return np.zeros(1000, "f4"), generator.integers(0, 1000, size), generator.standard_normal(size, "f4")


def run_in_child(code, timeout=120):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_many_threads_at_once_give_the_same_bits():
    problems = [problem(seed) for seed in range(4)]
    expected = [sow.scatter_add(x, 0, index, source).tobytes() for x, index, source in problems]
    held = [sow.Index(index, size=1000) for _, index, _ in problems]
    wrong = []

    def work(number):
        for round_ in range(6):
            x, index, source = problems[(number + round_) % 4]
            keys = index if round_ % 2 else held[(number + round_) % 4]
            if sow.scatter_add(x, 0, keys, source).tobytes() != expected[(number + round_) % 4]:
                wrong.append((number, round_))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_while_a_kernel_does():
    x, index, source = problem(1, 3_000_000)
    inside, seen = threading.Event(), []

    def watch():
        # Counts while the other thread is inside of a call; with the GIL held it could not.
        while not inside.is_set():
            time.sleep(0)
        while inside.is_set():
            seen.append(None)
            time.sleep(0)

    previous = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # a thread gives the GIL away only by itself
    try:
        watcher = threading.Thread(target=watch)
        watcher.start()
        inside.set()
        for _ in range(5):
            sow.scatter_add(x, 0, index, source)
        inside.clear()
    finally:
        sys.setswitchinterval(previous)
        inside.clear()
        watcher.join()
    assert seen


def test_thread_count_changes_no_bit():
    x, index, source = problem(2)
    before = sow.get_num_threads()
    try:
        results = set()
        for count in (1, 2, 3, 7):
            sow.set_num_threads(count)
            assert sow.get_num_threads() == count
            results.add(sow.scatter_add(x, 0, index, source).tobytes())
    finally:
        sow.set_num_threads(before)
    assert len(results) == 1


@pytest.mark.skipif(peers.torch is None, reason="torch is not here")
def test_threads_of_torch_and_sow_are_their_own():
    theirs, ours = peers.torch.get_num_threads(), sow.get_num_threads()
    try:
        peers.torch.set_num_threads(1)
        assert sow.get_num_threads() == ours
        sow.set_num_threads(3)
        assert peers.torch.get_num_threads() == 1
    finally:
        peers.torch.set_num_threads(theirs)
        sow.set_num_threads(ours)


def test_a_forked_child_works():
    code = """
import os, sys, numpy as np, sow
index, source = np.arange(400000) % 1000, np.ones(400000, "f4")
expected = sow.scatter_add(np.zeros(1000, "f4"), 0, index, source).tobytes()
child = os.fork()
if child == 0:
    same = sow.scatter_add(np.zeros(1000, "f4"), 0, index, source).tobytes() == expected
    os._exit(0 if same else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run_in_child(code) == "0"


def test_a_pool_of_forked_children_works():
    code = """
import multiprocessing, numpy as np, sow
def total(_):
    return sow.scatter_add(np.zeros(1000, "f4"), 0, np.arange(400000) % 1000, np.ones(400000, "f4")).tobytes()
expected = total(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(result == expected for result in pool.map(total, range(4))))
"""
    assert run_in_child(code) == "True"


def test_memory_may_be_let_go_on_any_thread_and_at_the_end():
    code = """
import threading, numpy as np, sow
def work(tensors):
    tensors.clear()
for _ in range(200):
    tensors = [sow.asarray(np.zeros(10)) for _ in range(10)]
    thread = threading.Thread(target=work, args=(tensors,)); thread.start(); thread.join()
kept = [sow.asarray(np.zeros(10)), sow.zeros([5]).numpy(), np.from_dlpack(sow.ones([3]))]
endless = threading.Thread(target=lambda: [sow.asarray(np.zeros(5)) for _ in iter(int, 1)], daemon=True)
endless.start()
print("done")
"""
    assert run_in_child(code) == "done"

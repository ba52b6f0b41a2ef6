# SPDX-License-Identifier: Apache-2.0
"""The GIL is free while a kernel runs, many threads may call at once, a forked child works."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sow

import peers


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


def test_a_thread_limit_ends_with_its_block():
    x, index, source = problem(3)
    before, elsewhere = sow.get_num_threads(), []
    try:
        sow.set_num_threads(4)
        expected = sow.scatter_add(x, 0, index, source).tobytes()
        limit = sow.thread_limit(1)
        with sow.thread_limit(2), sow.thread_limit(3):
            assert sow.get_num_threads() == 2
            with limit, limit:
                assert sow.get_num_threads() == 1
                assert sow.scatter_add(x, 0, index, source).tobytes() == expected
                other = threading.Thread(target=lambda: elsewhere.append(sow.get_num_threads()))
                other.start()
                other.join()
            assert sow.get_num_threads() == 2
        assert limit(sow.get_num_threads)() == 1
        with pytest.raises(IndexError), limit:
            sow.scatter_add(x, 0, [10**6], np.ones(1, "f4"))
        assert sow.get_num_threads() == 4 and elsewhere == [4]
    finally:
        sow.set_num_threads(before)


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


def test_memory_is_counted_and_given_back():
    before = sow.memory_stats()
    x = sow.zeros([1 << 22], dtype="float32")
    during = sow.memory_stats()
    assert during["bytes_in_use"] - before["bytes_in_use"] >= 1 << 24
    assert during["peak_bytes_in_use"] >= during["bytes_in_use"]
    del x
    kept = sow.memory_stats()
    assert kept["bytes_in_use"] < during["bytes_in_use"]
    if "ASAN_OPTIONS" in os.environ:
        return  # builds for the sanitizers keep no memory, so that every use after free is seen
    assert 1 << 24 <= kept["bytes_kept"] <= kept["keep_limit"]
    sow.release_memory()
    assert sow.memory_stats()["bytes_kept"] == 0


INTERRUPTED = """
import signal, numpy as np, sow
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
n = 1 << 24
def interrupted(call):
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        call()
    except Stop:
        return True
    return False

# In place, with an input that has to be copied first: a signal that comes while it is copied is seen before
# anything is written, a later one after everything is.
x = np.zeros(n, "f4")
source = np.lib.stride_tricks.as_strided(x, (n,), (4,))
index = np.arange(n)[::-1]
for attempt in range(5):  # when it is seen depends on the machine: tests/program/interrupt_test.cc tries every part
    x[:] = 1
    assert interrupted(lambda: sow.index_add_(x, 0, index, source))
    assert (x == 1).all() or (x == 2).all(), "half of it was written when the signal was seen"

# Gradients reach all leaves or none.
w = sow.ones([n]).requires_grad_()
y = w
for step in range(20):
    y = y * 1.5
loss = y.sum()
assert interrupted(lambda: loss.backward())
assert w.grad is None, "gathered though the call was given up"
loss.backward()
assert w.grad is not None
print("stopped")
"""


def test_signals_are_seen_between_the_parts_of_a_call():
    assert run_in_child(INTERRUPTED) == "stopped"


SMALL_STACK = """
import threading, numpy as np, sow
generator = np.random.default_rng(0)
done = []
def work():
    for count in (10, 1000, 50000):
        for width in (1, 4, 64):
            for dtype in ("f4", "f8", "f2", "i8"):
                places = count // 2 + 1
                x, source = np.zeros((places, width), dtype), np.ones((count, width), dtype)
                index = generator.integers(0, places, count)
                for reduce in ("add", "mul", "mean", "amax", "assign"):
                    sow.put_along_axis(x, index[:, None], source, 0, reduce, broadcast=False)
                    sow.index_add_(x, 0, sow.Index(index, size=places), source)
                sow.masked_scatter(x, x > 0, source)
                sow.index_select(x, 0, index)
                w = sow.tensor(np.ones((places, width), "f4")).requires_grad_()
                sow.index_reduce(w, 0, index, np.ones((count, width), "f4"), "amax").sum().backward()
                done.append(count)
threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(len(done))
"""


def test_a_thread_with_a_small_stack_may_call():
    assert run_in_child(SMALL_STACK) == "36"

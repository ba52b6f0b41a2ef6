# SPDX-License-Identifier: Apache-2.0
"""A call that is made again takes a shorter way, and must not be told from the first."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import sow

import peers

TIMES = 6  # the short way is taken from the third time on
RANDOM = np.random.default_rng(7)


def table(*shape):
    return RANDOM.standard_normal(shape).astype("f4")


def keys(extent, *shape):
    return RANDOM.integers(-extent, extent, shape)


CALLS = {
    "scatter_add_": lambda: ((table(5, 6), 0, keys(5, 3, 6), table(3, 6)), {}),
    "scatter_": lambda: ((table(5, 6), 1, keys(6, 5, 2), 2.5), {}),
    "scatter": lambda: ((table(5, 6), 0, keys(5, 3, 6), table(3, 6)), {"bounds": "clip"}),
    "scatter_reduce_": lambda: ((table(30), 0, keys(30, 20), table(20), "amax", False), {}),
    "scatter_reduce": lambda: ((table(30), 0, keys(30, 20), table(20), "mean"), {}),
    "put_along_axis_": lambda: ((table(5, 6), keys(6, 5, 2), table(5, 2), 1), {}),
    "take_along_axis": lambda: ((table(5, 6), keys(6, 5, 2), 1), {}),
    "gather": lambda: ((table(5, 6), 1, keys(6, 5, 2)), {}),
    "index_add_": lambda: ((table(100), 0, keys(100, 50), table(50)), {}),
    "index_add": lambda: ((table(7, 3), 0, keys(7, 20), table(20, 3)), {"bounds": "drop"}),
    "index_copy_": lambda: ((table(7, 3), 1, keys(3, 4), table(7, 4)), {}),
    "index_fill_": lambda: ((table(7, 3), 1, keys(3, 4), 7), {}),
    "index_select": lambda: ((table(7, 3), 0, keys(7, 4)), {}),
    "index_put_": lambda: ((table(7, 3), (keys(7, 4), keys(3, 4)), table(4), True), {}),
    "masked_scatter_": lambda: ((table(8, 8), RANDOM.random((8, 8)) < 0.5, table(64)), {}),
    "masked_scatter": lambda: ((table(8, 8), RANDOM.random(8) < 0.5, table(64)), {}),
    "masked_fill_": lambda: ((table(8, 8), RANDOM.random((8, 8)) < 0.5, 1.5), {}),
    "masked_select": lambda: ((table(8, 8), RANDOM.random((8, 8)) < 0.5), {}),
    "tensor_scatter_nd_add_": lambda: ((table(7, 3), keys(3, 4, 2), table(4)), {}),
    "scatter_nd": lambda: ((keys(7, 4, 1), table(4, 3), (7, 3)), {}),
    "diagonal_scatter": lambda: ((table(6, 6), table(6)), {}),
    "slice_scatter": lambda: ((table(6, 6), table(3, 6), 0, 1, 4), {}),
    "fill_diagonal_": lambda: ((table(6, 6), 3.0), {}),
    "diagonal": lambda: ((table(6, 6),), {}),
}


def as_kind(argument, make):
    if isinstance(argument, np.ndarray):
        return make(argument)
    if isinstance(argument, tuple):
        return tuple(as_kind(part, make) for part in argument)
    return argument


def bytes_of(array):
    return np.asarray(array).tobytes()


KINDS = {"numpy": np.array, "turned": np.asfortranarray}
if peers.torch:
    KINDS["torch"] = lambda array: peers.torch.from_numpy(np.array(array))
if peers.paddle:
    KINDS["paddle"] = lambda array: peers.paddle.to_tensor(np.array(array))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_every_time_gives_the_bits_of_a_tensor(name, kind):
    call = getattr(sow, name)
    for _ in range(TIMES):
        arguments, named = CALLS[name]()
        ours = as_kind(arguments, sow.tensor)
        theirs = as_kind(arguments, KINDS[kind])
        expected, found = call(*ours, **named), call(*theirs, **named)
        assert type(found) is type(next(a for a in theirs if hasattr(a, "dtype")))
        assert tuple(found.shape) == expected.shape
        assert bytes_of(found) == bytes_of(expected.numpy())
        if name.endswith("_"):
            assert found is theirs[0]
        for before, after in zip(ours, theirs):
            if isinstance(before, sow.Tensor):
                assert bytes_of(after) == bytes_of(before.numpy())


def again(call, make):
    """Takes the short way: the same call on fresh arrays, often enough."""
    for _ in range(TIMES):
        call(*make())


def add_problem():
    return table(50), 0, keys(50, 30), table(30)


def test_a_bad_index_is_found_every_time():
    again(sow.index_add_, add_problem)
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        index[17] = 50
        before = x.copy()
        with pytest.raises(IndexError, match=r"index_add_: index 50 at position \[17\]"):
            sow.index_add_(x, axis, index, source)
        assert bytes_of(x) == bytes_of(before)
        sow.index_add_(*add_problem())


def test_too_few_values_are_found_every_time():
    x, mask, value = np.zeros(20, "f4"), np.zeros(20, bool), table(5)
    again(sow.masked_scatter_, lambda: (x, mask, value))
    mask[:6] = True
    for _ in range(TIMES):
        with pytest.raises(ValueError, match="6 true values"):
            sow.masked_scatter_(x, mask, value)
        assert not x.any()


def test_overlapping_arrays_are_read_before_they_are_written():
    again(sow.index_copy_, lambda: (table(40), 0, keys(40, 20), table(20)))
    for _ in range(TIMES):
        x = table(40)
        index = np.arange(10, 30)
        expected = x.copy()
        expected[10:30] = x[:20]
        sow.index_copy_(x, 0, index, x[:20])
        assert bytes_of(x) == bytes_of(expected)
        sow.index_copy_(table(40), 0, keys(40, 20), table(20))


def test_what_may_not_be_written_is_refused_every_time():
    again(sow.index_add_, add_problem)
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        x.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            sow.index_add_(x, axis, index, source)
        swapped = table(50).astype(">f4")
        with pytest.raises(TypeError, match="swapped"):
            sow.index_add_(swapped, axis, index, source)
        unaligned = np.frombuffer(bytearray(201), np.uint8)[1:].view("f4")
        with pytest.raises(ValueError, match="aligned"):
            sow.index_add_(unaligned, axis, index, source)
        wide = np.broadcast_to(np.zeros(1, "f4"), (50,))
        with pytest.raises(ValueError):
            sow.index_add_(wide, axis, index, source)


def test_other_arguments_are_other_calls():
    for reduce, bounds, include_self, axis in [(r, b, s, a) for _ in range(3) for r in ("amax", "amin", "mean", "add")
                                               for b in ("clip", "drop") for s in (False, True) for a in (0, 1)]:
        arguments = table(6, 6), axis, keys(9, 6, 6), table(6, 6), reduce, include_self
        expected = sow.scatter_reduce(*as_kind(arguments, sow.tensor), bounds=bounds)
        # Names that are equal, but another object every time.
        made = "".join(reduce), "".join(list(bounds))
        found = sow.scatter_reduce(*arguments[:4], made[0], include_self, bounds=made[1])
        assert bytes_of(found) == bytes_of(expected.numpy())
        found = sow.scatter_reduce(*arguments, bounds=bounds)
        assert bytes_of(found) == bytes_of(expected.numpy())


def test_numbers_are_not_remembered_for_others():
    for value in (1.5, 2, 2.0, -0.0, 0.0, True, 1.5, 2, 3) * TIMES:
        x = np.ones(20, "f4")
        sow.index_fill_(x, 0, np.arange(20), value)
        assert bytes_of(x) == bytes_of(np.full(20, value, "f4"))


def test_results_are_new_and_writable():
    results = []
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        results.append(sow.index_add(x, axis, index, source))
        assert results[-1].flags.writeable and results[-1].flags.aligned
        assert not np.shares_memory(results[-1], x)
    addresses = {result.ctypes.data for result in results}
    assert len(addresses) == TIMES


def test_settings_are_seen_every_time():
    again(sow.index_add_, add_problem)
    threads = sow.get_num_threads()
    problem = add_problem()
    expected = sow.index_add(*as_kind(problem, sow.tensor)).numpy()
    try:
        for count in (1, 2, 3) * 3:
            sow.set_num_threads(count)
            assert bytes_of(sow.index_add(*problem)) == bytes_of(expected)
    finally:
        sow.set_num_threads(threads)
    for _ in range(TIMES):
        x = problem[0].copy()
        assert "strategy" in sow.explain("index_add_", x, *problem[1:])
        assert bytes_of(x) == bytes_of(problem[0])


def test_subclasses_go_the_long_way():
    class Mine(np.ndarray):
        pass

    again(sow.index_add_, add_problem)
    for _ in range(TIMES):
        x, axis, index, source = add_problem()
        expected = sow.index_add(x, axis, index, source)
        mine = x.view(Mine)
        assert sow.index_add_(mine, axis, index, source) is mine
        assert bytes_of(mine) == bytes_of(expected)
        with pytest.raises(TypeError, match="MaskedArray"):
            sow.index_add_(np.ma.masked_array(x), axis, index, source)


def expect_torch_is_told_and_asked(problem, bytes_of):
    """Of every call on tensors of PyTorch that problem() makes."""
    again(sow.index_add_, problem)
    for _ in range(TIMES):
        x, axis, index, source = problem()
        version = x._version
        sow.index_add_(x, axis, index, source)
        assert x._version == version + 1
        assert sow.index_add_(x.clone(), axis, index, source.clone().requires_grad_()).requires_grad
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            sow.index_add_(x.clone().requires_grad_(), axis, index, source)
        negated = peers.torch._neg_view(source)
        assert bytes_of(sow.index_add(x, axis, index, negated)) == bytes_of(sow.index_add(x, axis, index, -source))


@pytest.mark.skipif(not peers.torch, reason="PyTorch is not installed")
def test_torch_is_told_and_asked_every_time():
    expect_torch_is_told_and_asked(lambda: tuple(as_kind(part, KINDS["torch"]) for part in add_problem()), bytes_of)


def test_threads_at_once_do_not_meet():
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(300):
            x, index, source = random.integers(-9, 9, 60), random.integers(0, 60, 40), random.integers(-9, 9, 40)
            expected = x.copy()
            np.add.at(expected, index, source)
            if bytes_of(sow.index_add(x, 0, index, source)) != bytes_of(expected):
                wrong.append(seed)
            sow.index_add_(x, 0, index, source)
            if bytes_of(x) != bytes_of(expected):
                wrong.append(seed)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not wrong


def test_a_forked_child_goes_on():
    code = """
import os, numpy as np, sow
x, index, source = np.zeros(50, "f4"), np.arange(50), np.ones(50, "f4")
for _ in range(6): sow.index_add_(x, 0, index, source)
child = os.fork()
for _ in range(6): sow.index_add_(x, 0, index, source)
good = (x == 12).all()
if child == 0: os._exit(0 if good else 1)
print(bool(good), os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "0"], done.stderr

# SPDX-License-Identifier: Apache-2.0
"""Static programs of Paddle: the forward from Python, what is checked before Paddle sees it, and the seeds'
programs, trained through the operator that build() compiles."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import peers

if peers.paddle is None:
    pytest.skip("going on without paddle", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(*command):
    """In a process of its own: what goes wrong in a static program may end it."""
    environment = {**os.environ, "SOW_CACHE": str(ROOT / "build" / "paddle"), "GLOG_minloglevel": "2"}
    done = subprocess.run([sys.executable, "-W", "ignore", *command], env=environment, capture_output=True, text=True,
                          check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_forward_from_python():
    run("-c", textwrap.dedent("""
        import numpy as np, paddle, sow
        paddle.enable_static()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [-1, 4], "float32")
            mask = paddle.static.data("mask", [-1, 4], "bool")
            value = paddle.static.data("value", [-1], "float32")
            keys = paddle.static.data("keys", [-1], "int64")
            y = sow.masked_scatter(x, mask, value)
            assert tuple(y.shape) == (-1, 4)
            z = sow.index_add_(sow.index_select(y, 0, keys), 0, np.array([0]), np.ones((1, 4), "f4"))
            for error, make in (
                    (TypeError, lambda: sow.masked_scatter(x, mask, value.astype("float64"))),
                    (ValueError, lambda: sow.index_add(x, 5, keys, x)),
                    (ValueError, lambda: sow.nonzero(x)),
                    (RuntimeError, lambda: sow.masked_scatter(paddle.static.nn.fc(x, 4), mask, value))):
                try:
                    make()
                except error as told:
                    assert ": " in str(told)
                else:
                    raise AssertionError("no error")
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        feed = {"x": np.zeros((3, 4), "f4"), "mask": np.array([[True, False, True, False]] * 3),
                "value": np.arange(1, 8, dtype="f4"), "keys": np.array([2, 0])}
        got_y, got_z = executor.run(main, feed=feed, fetch_list=[y, z])
        want_y = sow.masked_scatter(feed["x"], feed["mask"], feed["value"])
        want_z = sow.index_select(want_y, 0, feed["keys"])
        want_z[0] += 1
        assert np.array_equal(got_y, want_y) and np.array_equal(got_z, want_z)
    """))


def test_a_bad_index_leaves_the_process_alive():
    run("-c", textwrap.dedent("""
        import numpy as np, paddle, sow, sow.paddle
        sow.paddle.build()
        paddle.enable_static()
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [-1, 2], "float32")
            keys = paddle.static.data("keys", [-1], "int64")
            y = sow.index_select(x, 0, keys)
        executor = paddle.static.Executor(paddle.CPUPlace())
        feed = {"x": np.ones((3, 2), "f4"), "keys": np.array([0, 9])}
        try:
            executor.run(main, feed=feed, fetch_list=[y])
        except Exception as error:
            assert "index_select: index 9 at position [1] is out of range" in str(error), error
        else:
            raise AssertionError("no error")
        found, = executor.run(main, feed={**feed, "keys": np.array([0, 1, 2, 2])}, fetch_list=[y])
        assert found.shape == (4, 2)
    """))


@pytest.mark.parametrize("name", ["paddle_dynamic", "paddle_static"])
def test_the_seeds_programs(name):
    told = run(str(ROOT / "examples" / f"{name}.py"))
    assert "the loss falls" in told
    assert told.count("put_along_axis, ") == 6

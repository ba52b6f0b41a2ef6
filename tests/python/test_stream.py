# SPDX-License-Identifier: Apache-2.0
"""Streams: the bits of one call whatever the calls were, in bounded memory, into anything with slices, and killed at any time."""

import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import sow

REDUCTIONS = ("assign", "add", "mul", "amax", "amin", "mean")


def updates(random, count, rows, dtype, width=3):
    keys = random.integers(-rows, rows, count)
    values = random.standard_normal((count, width)) * 2.0 ** random.integers(-9, 9, (count, width))
    return keys, values.astype(dtype)


def pieces(random, count):
    cuts = np.sort(random.integers(0, count + 1, 6))
    return zip([0, *cuts], [*cuts, count])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "int8", "int64"])
@pytest.mark.parametrize("spills", [False, True])
def test_has_the_bits_of_one_call(dtype, spills, tmp_path):
    random = np.random.default_rng(3)
    for reduce in REDUCTIONS:
        if dtype == "complex64" and reduce in ("amax", "amin"):
            continue
        for include_self in (True, False):
            rows, count = 200, 3000
            x = updates(random, rows, rows, dtype)[1]
            keys, source = updates(random, count, rows, dtype)
            expected = sow.index_reduce(x, 0, keys, source, reduce, include_self)
            out = x.copy()
            memory = 6000 if spills else 1 << 24
            one = sow.stream(out, 0, reduce, include_self=include_self, memory=memory, directory=tmp_path / "log" if spills else None)
            spilled = False
            for a, b in pieces(random, count):
                one.add(keys[a:b], source[a:b])
                spilled = spilled or (spills and any((tmp_path / "log").glob("*.log")))
                assert one.held <= memory
            assert out.tobytes() == x.tobytes()  # nothing is written before the end
            assert one.finish() is out
            assert spilled == spills
            assert out.tobytes() == expected.tobytes(), (reduce, include_self)
            assert not (tmp_path / "log").exists()


def test_tiles_of_the_caller_do_not_hold_inside():
    x = np.zeros((4, 3), "f4")
    for reduce in ("add", "mean"):
        with sow.tiles(2, 2, 2), sow.stream(x, 0, reduce, memory=1024) as one:
            for _ in range(20):
                one.add([0, 3], np.ones((2, 3), "f4"))
    assert (x[[0, 3]] == np.float32(40 / 21)).all()


def test_sums_are_rounded_once():
    x = np.ones(1, "f4")
    with sow.stream(x) as one:
        for _ in range(4):
            one.add([0], np.float32([2**-25]))
    assert x[0] == np.float32(1 + 2**-23)
    y = np.ones(1, "f4")
    for _ in range(4):
        sow.index_add_(y, 0, [0], np.float32([2**-25]))
    assert y[0] == 1  # several calls round several times


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_of_any_array(axis, tmp_path):
    random = np.random.default_rng(4)
    x = random.standard_normal((6, 7, 5))
    shape = list(x.shape)
    shape[axis] = 40
    source, keys = random.standard_normal(shape), random.integers(0, x.shape[axis], 40)
    expected = sow.index_add(x, axis, keys, source)
    mapped = np.memmap(tmp_path / "x", "f8", "w+", shape=x.shape)
    mapped[:] = x
    wrapped = Slices(x)
    for destination, directory in ((x.copy(), None), (mapped, None), (wrapped, tmp_path / "log")):
        with sow.stream(destination, axis, memory=16384, directory=directory) as one:
            for part in np.array_split(np.arange(40), 3):
                one.add(keys[part], np.take(source, part, axis))
        assert np.asarray(destination[:]).tobytes() == expected.tobytes()


class Slices:
    """Anything with shape, dtype and slices."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array.copy(), array.shape, array.dtype

    def __getitem__(self, key):
        return self.array[key]

    def __setitem__(self, key, value):
        self.array[key] = value


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_files_of_other_libraries(library, tmp_path):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"no {library}")
    random = np.random.default_rng(5)
    keys, source = updates(random, 500, 40, "float32")
    expected = sow.index_add(np.zeros((40, 3), "f4"), 0, keys, source)
    if library == "h5py":
        import h5py

        with h5py.File(tmp_path / "x.h5", "w") as file:
            dataset = file.create_dataset("x", data=np.zeros((40, 3), "f4"), chunks=(7, 3))
            with sow.stream(dataset, memory=2048) as one:
                one.add(keys, source)
                with pytest.raises(TypeError, match="dst is float32 but source is float64"):
                    one.add(keys, source.astype("f8"))
            assert dataset[:].tobytes() == expected.tobytes()
        with h5py.File(tmp_path / "x.h5", "r") as file, pytest.raises(ValueError, match="read-only"):
            sow.stream(file["x"])
    else:
        import zarr

        array = zarr.create_array(str(tmp_path / "x.zarr"), shape=(40, 3), dtype="f4", chunks=(7, 3))
        with pytest.raises(ValueError, match="give a directory="):
            sow.stream(array)
        with sow.stream(array, memory=2048, directory=tmp_path / "log") as one:
            one.add(keys, source)
        assert array[:].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dies_at", ["begin", "fold", "write"])
def test_killed_in_the_middle_it_is_resumed(dies_at, tmp_path):
    program = f"""
import os, sys, numpy as np, sow
from sow import _stream
x = np.memmap({str(tmp_path / 'x')!r}, "f4", "r+", shape=(64, 8))
one = sow.stream(x, memory=4096, directory={str(tmp_path / 'log')!r})
random = np.random.default_rng(6)
one.add(random.integers(0, 64, 500), random.standard_normal((500, 8)).astype("f4"))
tiles = 0
def die(name):
    real = getattr(_stream.Stream, name)
    def wrapper(self, *args):
        global tiles
        tiles += 1
        if tiles == 3: os._exit(9)
        return real(self, *args)
    setattr(_stream.Stream, name, wrapper)
if {dies_at!r} == "begin": os._exit(9)
if {dies_at!r} == "fold": die("_fold")
class Dying:
    shape, dtype = x.shape, x.dtype
    def __getitem__(self, key): return x[key]
    def __setitem__(self, key, value):
        global tiles
        tiles += 1
        if tiles == 3:
            x[key][:1] = value[:1]; x.flush(); os._exit(9)
        x[key] = value
if {dies_at!r} == "write": one.dst = Dying()
one.finish()
"""
    x = np.memmap(tmp_path / "x", "f4", "w+", shape=(64, 8))
    x[:] = 1
    x.flush()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    random = np.random.default_rng(6)
    expected = sow.index_add(np.ones((64, 8), "f4"), 0, random.integers(0, 64, 500), random.standard_normal((500, 8)).astype("f4"))
    if dies_at == "begin":
        assert (x == 1).all() and not (tmp_path / "log" / "half-written.json").exists()
        with pytest.raises(ValueError, match="nothing half written"):
            sow.resume_stream(x, tmp_path / "log")
        return
    assert (tmp_path / "log" / "half-written.json").exists()
    with pytest.raises(ValueError, match="half written; end that first"):
        sow.stream(x, directory=tmp_path / "log")
    with pytest.raises(ValueError, match="the stream was of float32"):
        sow.resume_stream(np.zeros((64, 8)), tmp_path / "log")
    assert sow.resume_stream(x, tmp_path / "log") is x
    assert x.tobytes() == expected.tobytes()
    assert not (tmp_path / "log").exists()


def test_killed_twice_no_update_is_applied_twice(tmp_path):
    """Killed once when the new rows lie beside the log, and again when they were written."""
    x = np.ones((8, 2), "f4")
    one = sow.stream(x, memory=4096, directory=tmp_path / "log")
    one.add(np.arange(8), np.ones((8, 2), "f4"))
    one._begin_end()
    log = (tmp_path / "log" / "tile-0.log").read_bytes()
    (tmp_path / "log" / "tile-0.new").write_bytes(np.full((8, 2), 2, "f4").tobytes())  # as written, the log still there
    del one

    class Killed(BaseException):
        pass

    class Dying:
        shape, dtype, __getitem__, __setitem__ = x.shape, x.dtype, x.__getitem__, x.__setitem__

        def flush(self):
            (tmp_path / "log" / "tile-0.new").unlink()  # the last thing that the tile needs
            raise Killed

    assert log and (x == 1).all()
    with pytest.raises(Killed):
        sow.resume_stream(Dying(), tmp_path / "log")
    assert (x == 2).all()
    sow.resume_stream(x, tmp_path / "log")
    assert (x == 2).all() and not (tmp_path / "log").exists()


def test_what_else_is_in_the_directory_stays(tmp_path):
    for name in ("notes.txt", "tile-of-mine.log", "tile-7.png"):
        (tmp_path / name).write_text("mine")
    x = np.zeros(1000, "f4")
    for ends in (True, False):
        one = sow.stream(x, memory=4096, directory=tmp_path)
        one.add(np.arange(1000), np.ones(1000, "f4"))
        assert any(tmp_path.glob("tile-*[0-9].log"))
        one.finish() if ends else one.abandon()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "tile-7.png", "tile-of-mine.log"]
    assert (x == 1).all()


def test_two_streams_do_not_share_a_directory(tmp_path):
    x = np.memmap(tmp_path / "x", "f4", "w+", shape=(100,))
    one = sow.stream(x)
    one.add([1], np.ones(1, "f4"))
    with pytest.raises(ValueError, match="another stream uses .*x.sow-stream"):
        sow.stream(x)
    one.finish()
    with sow.stream(x) as two:
        two.add([1], np.ones(1, "f4"))
    assert x[1] == 2 and os.listdir(tmp_path) == ["x"]


def test_an_add_that_failed_ends_the_stream(tmp_path):
    x = np.zeros((64, 8), "f4")
    one = sow.stream(x, memory=4096, directory=tmp_path / "log")
    for tile in range(64):
        one._log(tile).symlink_to("/dev/full")
    with pytest.raises(OSError, match="the disk is full"):
        one.add(np.arange(64).repeat(4), np.ones((256, 8), "f4"))
    for call in (one.finish, lambda: one.add([0], np.ones((1, 8), "f4"))):
        with pytest.raises(ValueError, match="an add.. failed in the middle"):
            call()
    one.abandon()
    assert not x.any()


def test_a_full_disk_leaves_the_destination_as_it_was(tmp_path):
    x = np.zeros((64, 8), "f4")
    one = sow.stream(x, memory=4096, directory=tmp_path / "log")
    try:
        for tile in range(64):
            one._log(tile).symlink_to("/dev/full")
        with pytest.raises(OSError, match="the disk is full"):
            one.add(np.arange(64), np.ones((64, 8), "f4"))
            one.add(np.arange(64), np.ones((64, 8), "f4"))
    finally:
        one.abandon()
    assert not x.any()


FULL_DISK = """
import os, subprocess, sys, numpy as np, sow
disk = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
random = np.random.default_rng(7)
keys, rows = random.integers(0, 4096, 20000), random.standard_normal((20000, 8)).astype("f4")

def refused(words, call):
    try: call()
    except OSError as error: assert words in str(error) and "the disk is full" in str(error), error
    else: raise AssertionError("no error: " + words)

x = np.ones((4096, 8), "f4")                      # updates that find no room
one = sow.stream(x, memory=1 << 16, directory=disk + "/log")
refused("the destination is as it was", lambda: [one.add(keys, rows) for _ in range(9)])
one.abandon()
assert (x == 1).all() and os.listdir(disk) == []

path = disk + "/holes"                            # a sparse file larger than its disk
with open(path, "wb") as file: file.truncate(1 << 22)
holes = np.memmap(path, "f4", "r+", shape=(1 << 20,))
two = sow.stream(holes, memory=1 << 16, directory=disk + "/log")
two.add([0, (1 << 20) - 1], np.ones(2, "f4"))
refused("no room for the holes", two.finish)
assert not holes[::4096].any()
two.abandon()
del two, holes
os.unlink(path)

expected = sow.index_add(x, 0, keys[:800], rows[:800])   # full in the middle of the end
three = sow.stream(x, memory=1 << 16, directory=disk + "/log")
three.add(keys[:800], rows[:800])
for tile in sorted(three.pending): three._spill(tile)
with open(disk + "/much", "wb", buffering=0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError: pass
size = os.path.getsize(disk + "/much")
refused("the destination is as it was", three.finish)
assert (x == 1).all() and not os.path.exists(disk + "/log/half-written.json")
os.truncate(disk + "/much", size - 4096)           # room for the marker alone
refused("half written until sow.resume_stream(dst, ", three.finish)
assert os.path.exists(disk + "/log/half-written.json")
os.unlink(disk + "/much")
three.finish() if len(sys.argv) > 2 else sow.resume_stream(x, disk + "/log")
assert x.tobytes() == expected.tobytes() and os.listdir(disk) == []
print("all said so")
"""


@pytest.mark.parametrize("again", [[], ["the same stream"]])
def test_a_disk_of_one_mebibyte(again, tmp_path):
    """A real full disk: a mount of its own, seen by this process alone."""
    program = tmp_path / "program.py"
    program.write_text(FULL_DISK)
    (tmp_path / "disk").mkdir()
    apart = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if not shutil.which("unshare") or subprocess.run([*apart, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "disk")],
                                                     capture_output=True).returncode != 0:
        pytest.skip("this user may not mount")
    done = subprocess.run([*apart, sys.executable, str(program), str(tmp_path / "disk"), *again], capture_output=True, text=True)
    assert "all said so" in done.stdout, done.stdout + done.stderr


def test_wrong_arguments():
    x = np.zeros((4, 2), "f4")
    one = sow.stream(x)
    with pytest.raises(IndexError, match=r"index 4 at position \[1\] is out of range for axis 0 of size 4 \(valid: -4 to 3\)"):
        one.add([0, 4], np.ones((2, 2), "f4"))
    with pytest.raises(ValueError, match=r"source must be \[2, 2\]"):
        one.add([0, 1], np.ones((2, 3), "f4"))
    with pytest.raises(TypeError, match="an index must be int32 or int64"):
        one.add([0.5], np.ones((1, 2), "f4"))
    with pytest.raises(TypeError, match="it must have shape, dtype and slices"):
        sow.stream([1, 2])
    with pytest.raises(ValueError, match="unknown reduction 'median'"):
        sow.stream(x, 0, "median")
    with pytest.raises(TypeError, match="needs an order"):
        sow.stream(np.zeros(3, "c8"), 0, "amax")
    with pytest.raises(TypeError, match="memory is a str; it must be an int"):
        sow.stream(x, memory="much")
    with pytest.raises(ValueError, match="eight must fit"):
        sow.stream(np.zeros((2, 1000)), memory=1000)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sow.stream(x)
    y = np.zeros(4000, "f4")
    full = sow.stream(y, memory=4096)
    with pytest.raises(MemoryError, match="give a directory="):
        full.add(np.arange(4000), np.ones(4000, "f4"))
    assert not y.any()
    assert one.finish() is x
    with pytest.raises(ValueError, match="finished"):
        one.add([0], np.ones((1, 2), "f4"))
    for bounds, expected in (("drop", [1, 0, 0]), ("clip", [1, 0, 2])):
        z = np.zeros(3, "f4")
        with sow.stream(z, bounds=bounds) as dropped:
            dropped.add([0, 3, 9], np.ones(3, "f4"))
        assert z.tolist() == expected


def test_a_terminal_sees_how_far_it_is(capsys):
    x = np.zeros((64, 8), "f4")
    with sow.stream(x, memory=4096, progress=True) as one:
        one.add([0, 63], np.ones((2, 8), "f4"))
    assert "tile 2 of 2" in capsys.readouterr().err
    assert x.sum() == 16


@pytest.mark.parametrize("axis", [1.0, np.float32("nan"), "x", None, np.array([0])], ids=repr)
def test_an_axis_is_an_int(axis):
    with pytest.raises(TypeError, match="stream: axis is a .*; it must be an int"):
        sow.stream(np.zeros((4, 3), "f4"), axis=axis)

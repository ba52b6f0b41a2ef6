# SPDX-License-Identifier: Apache-2.0
"""Updates that come in many calls, folded as if they had come in one: exact, in bounded memory, into any array with slices.

What was given is kept as updates, sorted into tiles of the destination. Where that becomes too much, those of one
place are merged (sums into expansions, whose real sum is exactly theirs), and what is still too much goes to a log
of its tile. finish() folds every tile once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import operator
import os
import pathlib
import re
import sys
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from . import _core
from ._tiles import tiles

_NAMES = {"sum": "add", "multiply": "mul", "prod": "mul", "max": "amax", "min": "amin"}
_REDUCTIONS = ("assign", "add", "mul", "amax", "amin", "mean")
_MARKER = "half-written.json"
_OURS = re.compile(r"tile-\d+\.(log|new|part)|half-written\.part")
_Record = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Any]  # keys, rows, and counts or None


def stream(dst: Any, axis: int = 0, reduce: str = "add", *, include_self: bool = True, memory: int = 1 << 28,
           directory: str | os.PathLike[str] | None = None, bounds: str = "error", progress: bool | None = None) -> Stream:
    """Collects updates of `dst` along `axis`; finish() writes the exact result, rounded once, whatever the calls were.

    dst has shape, dtype and slices: a NumPy array or memmap, a dataset of h5py, an array of zarr. `memory` bounds what
    is held, in bytes; more goes to `directory`, which must be given where dst outlives the process and has no file of
    its own beside which it can lie.

    >>> x = np.zeros(3, "f4")
    >>> with sow.stream(x) as updates:
    ...     updates.add([0, 2], np.float32([1, 1]))
    ...     updates.add([2], np.float32([2**-24]))
    >>> x
    array([1., 0., 1.], dtype=float32)
    """
    return Stream(dst, axis, reduce, include_self, memory, directory, bounds, progress)


def resume_stream(dst: Any, directory: str | os.PathLike[str]) -> Any:
    """Ends what a process that was killed in finish() had begun: `directory` is that of its stream.

    >>> sow.resume_stream(np.zeros(3, "f4"), "no-such-folder")
    Traceback (most recent call last):
    ValueError: resume_stream: there is nothing half written in no-such-folder
    """
    folder = pathlib.Path(directory)
    try:
        said = json.loads((folder / _MARKER).read_text())
    except FileNotFoundError:
        raise ValueError(f"resume_stream: there is nothing half written in {folder}") from None
    if list(dst.shape) != said["shape"] or np.dtype(dst.dtype).name != said["dtype"]:
        raise ValueError(f"resume_stream: dst is {np.dtype(dst.dtype).name} {list(dst.shape)}; the stream was of "
                         f"{said['dtype']} {said['shape']}")
    one = Stream(dst, said["axis"], said["reduce"], said["include_self"], said["memory"], folder, "error", None, resumes=True)
    with one._locked():
        one._write_tiles()
    return dst


class Stream:
    """Made by sow.stream."""

    def __init__(self, dst: Any, axis: int, reduce: str, include_self: bool, memory: int, directory: Any, bounds: str,
                 progress: bool | None, resumes: bool = False):
        for name in ("shape", "dtype", "__getitem__", "__setitem__"):
            if not hasattr(dst, name):
                raise TypeError(f"stream: dst is a {type(dst).__name__}; it must have shape, dtype and slices to read and write")
        self.reduce = cast(Any, _NAMES.get(reduce, reduce))
        if self.reduce not in _REDUCTIONS:
            raise ValueError(f"stream: unknown reduction '{reduce}'; there are assign, add = sum, mul = multiply = prod, amax = max, amin = min, mean")
        if bounds not in ("error", "drop", "clip", "promise"):
            raise ValueError(f"stream: unknown bounds '{bounds}'; there are error, drop, clip, promise")
        self.dst, self.include_self, self.bounds, self.dtype = dst, bool(include_self), bounds, np.dtype(dst.dtype)
        self.rank = len(dst.shape)
        try:
            axis = operator.index(axis)
        except TypeError:
            raise TypeError(f"stream: axis is a {type(axis).__name__}; it must be an int") from None
        if self.rank == 0 or not -self.rank <= axis < self.rank:
            raise ValueError(f"stream: axis {axis} of a destination of shape {list(dst.shape)}")
        self.axis = axis % self.rank
        self.rows = int(dst.shape[self.axis])
        self.row_shape = tuple(int(n) for d, n in enumerate(dst.shape) if d != self.axis)
        with tiles(()):  # a stream has tiles of its own
            _core.index_reduce(_core.asarray(np.zeros((1, 0), self.dtype)), 0, np.zeros(0, "i8"), np.zeros((0, 0), self.dtype),
                               self.reduce)  # refuses types and reductions that do not go together
        if not _is_writable(dst):
            raise ValueError("stream: the destination is read-only")
        self.row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize
        try:
            self.memory = operator.index(memory)
        except TypeError:
            raise TypeError(f"stream: memory is a {type(memory).__name__}; it must be an int") from None
        if self.memory < 8 * (self.row_bytes + 16):
            raise ValueError(f"stream: memory={memory}; a row of the destination has {self.row_bytes} bytes, and eight must fit")
        self.tile_rows = max(1, min(self.memory // 16 // max(self.row_bytes, 1), max(self.rows, 1)))
        self.progress = sys.stderr.isatty() if progress is None else progress
        self.merges = self.reduce != "mul" and (self.reduce != "mean" or self.dtype.kind not in "iu")
        self.counted = self.reduce == "mean" and self.merges
        self.pending: dict[int, list[_Record]] = {}
        self.held = 0
        self.ending = self.finished = self.broken = False
        self._unlock: Any = weakref.finalize(self, int)  # nothing is locked yet
        self.directory = _directory_for(dst, directory)
        if self.directory is not None:
            self._open_directory(resumes)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Any, exception: Any, trace: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def add(self, index: Any, source: Any) -> None:
        """Takes updates: source has dst's shape with one row along the axis for each key. Both are copied."""
        self._expect_whole()
        if self.finished or self.ending:
            raise ValueError("stream: it is finished")
        keys = np.asarray(index)
        if keys.size == 0 and keys.dtype.kind == "f":
            keys = keys.astype("i8")
        if keys.dtype not in (np.dtype("i4"), np.dtype("i8")):
            raise TypeError(f"stream: the index is {keys.dtype}; an index must be int32 or int64")
        rows = np.asarray(source)
        if rows.dtype != self.dtype:
            raise TypeError(f"stream: dst is {self.dtype} but source is {rows.dtype}; they must have the same type")
        expected = list(self.row_shape)
        expected.insert(self.axis, keys.size)
        if keys.ndim > 1 or list(rows.shape) != expected:
            raise ValueError(f"stream: index has shape {list(keys.shape)} and source {list(rows.shape)}; source must be {expected}")
        keys = self._resolve(keys.reshape(-1).astype("i8"))
        rows = np.moveaxis(rows, self.axis, 0)
        if keys.size and keys.min() < 0:
            kept = np.flatnonzero(keys >= 0)
            keys, rows = keys[kept], rows[kept]
        step = max(1, self.memory // 8 // (self.row_bytes + 16))  # a call may be larger than the memory
        self.broken = True  # unless all of it was taken
        for first in range(0, keys.size, step):
            self._take(keys[first:first + step], rows[first:first + step])
        self.broken = False

    def _expect_whole(self) -> None:
        if self.broken:
            raise ValueError("stream: an add() failed in the middle, so that a part of its updates was taken; the destination is "
                             "as it was, begin again with another stream")

    def finish(self) -> Any:
        """Writes the result into dst, which it returns."""
        self._expect_whole()
        if self.finished:
            return self.dst
        if self.directory is None or not self.ending or (self.directory / _MARKER).exists():  # else resume_stream ended it
            with self._locked():
                if not self.ending:
                    _reserve(self.dst)
                    self._begin_end()
                self._write_tiles()
        self.finished = True
        return self.dst

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """What fails in it leaves the directory to whoever resumes it."""
        if self.directory is not None and not self._unlock.alive:
            self._lock_directory()
        try:
            yield
        except BaseException:
            self._unlock()
            raise

    def _lock_directory(self) -> None:
        assert self.directory is not None
        self._unlock = weakref.finalize(self, os.close, _lock(self.directory))

    def _begin_end(self) -> None:
        """Before the destination is touched; what fails up to here can be tried again."""
        if self.directory is not None:
            for tile in sorted(self.pending):
                self._spill(tile)
            for log in self._own_files():
                with open(log, "rb") as file:
                    os.fsync(file.fileno())
            said = {"shape": [int(n) for n in self.dst.shape], "dtype": self.dtype.name, "axis": self.axis, "reduce": self.reduce,
                    "include_self": self.include_self, "memory": self.memory,
                    "says": "dst is half written until this file is gone: sow.resume_stream(dst, directory)"}
            try:
                _write_durably(self.directory / _MARKER, json.dumps(said).encode())
            except OSError as error:
                raise OSError(error.errno, f"{error.strerror}; the destination is as it was") from error
        self.ending = True
        self.finished = self.directory is None  # without logs a tile that was written must not be folded again

    def abandon(self) -> None:
        """Forgets what was given; dst is as it was."""
        self.finished = True
        self.pending.clear()
        if self.directory is not None:
            if not (self.directory / _MARKER).exists():
                self._clear_directory()
            self._unlock()

    # -- taking updates

    def _resolve(self, keys: Any) -> Any:
        wrapped = np.where(keys < 0, keys + self.rows, keys)
        bad = (wrapped < 0) | (wrapped >= self.rows)
        if not bad.any():
            return wrapped
        if self.bounds == "drop":
            return np.where(bad, -1, wrapped)
        if self.bounds == "clip" and self.rows > 0:
            return np.clip(wrapped, 0, self.rows - 1)
        at = int(np.argmax(bad))
        valid = f"{-self.rows} to {self.rows - 1}" if self.rows else "none"
        raise IndexError(f"stream: index {keys[at]} at position [{at}] is out of range for axis {self.axis} of size "
                         f"{self.rows} (valid: {valid})")

    def _take(self, keys: Any, rows: Any) -> None:
        tiles = keys // self.tile_rows
        first = int(tiles[0]) if keys.size else 0
        if (tiles == first).all():
            groups: list[tuple[int, Any]] = [(first, slice(None))]
        else:
            few = -(-self.rows // self.tile_rows) <= 1 << 16
            order = np.argsort(tiles.astype("u2") if few else tiles, kind="stable")  # 16 bits are sorted by their digits
            begins = np.flatnonzero(np.diff(tiles[order], prepend=-1))
            groups = [(int(tiles[order[a]]), order[a:b]) for a, b in zip(begins, [*begins[1:], keys.size])]
        for tile, chosen in groups:
            record = (keys[chosen].copy(), np.ascontiguousarray(rows[chosen]).copy(),
                      np.ones(keys[chosen].size, "i8") if self.counted else None)
            self.pending.setdefault(tile, []).append(record)
            self.held += _bytes(record)
        if self.held > self.memory // 8:  # merging takes a few times what it merges
            self._make_room()

    def _make_room(self) -> None:
        """Merges where that helps; what is still much goes to the logs, the largest first."""
        largest = max(self.pending, key=self._bytes_of)
        before = self._bytes_of(largest)
        self._set(largest, self._merged(self.pending[largest]))
        if self.directory is None or self._bytes_of(largest) < 0.75 * before:
            for tile in list(self.pending):
                if tile != largest:
                    self._set(tile, self._merged(self.pending[tile]))
            if self.held <= self.memory // 16:
                return
        if self.directory is None:
            if self.held <= self.memory // 2:
                return
            raise MemoryError(f"stream: {self.held} bytes of updates are left of memory={self.memory} after merging; "
                              "give a directory= where more can wait. The destination is as it was")
        for tile in sorted(self.pending, key=self._bytes_of, reverse=True):
            self._spill(tile)
            if self.held <= self.memory // 32:
                return

    def _bytes_of(self, tile: int) -> int:
        return sum(map(_bytes, self.pending[tile]))

    def _set(self, tile: int, records: list[_Record]) -> None:
        self.held -= self._bytes_of(tile)
        self.pending[tile] = records
        self.held += self._bytes_of(tile)

    def _merged(self, records: list[_Record]) -> list[_Record]:
        """The same updates in fewer rows, in one record."""
        keys = np.concatenate([record[0] for record in records])
        rows = np.concatenate([record[1] for record in records])
        if not self.merges or keys.size == 0:
            return [(keys, rows, None if not self.counted else np.concatenate([record[2] for record in records]))]
        with tiles(()):
            merged_keys, merged_rows, _ = _core._merge_updates(_core.asarray(keys), _core.asarray(rows), self.reduce)
        out_keys, out_rows = np.asarray(merged_keys), _as_type(merged_rows, self.dtype)
        if not self.counted:
            return [(out_keys, out_rows, None)]
        order = np.argsort(keys, kind="stable")
        begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
        counts = np.zeros(out_keys.size, "i8")
        given = np.concatenate([record[2] for record in records])
        counts[np.flatnonzero(np.diff(out_keys, prepend=-1))] = np.add.reduceat(given[order], begins)
        return [(out_keys, out_rows, counts)]

    # -- logs

    def _open_directory(self, resumes: bool) -> None:
        assert self.directory is not None
        if not resumes and (self.directory / _MARKER).exists():
            raise ValueError(f"stream: {self.directory} says that a destination is half written; end that first by sow.resume_stream(dst, directory)")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock_directory()
            if not resumes:
                for old in self._own_files():  # of a stream that never came to its end
                    old.unlink()
        except OSError as error:
            raise _told(error, f"stream: {self.directory} cannot be used") from error

    def _own_files(self) -> list[pathlib.Path]:
        """The directory is the user's: whatever else is there stays."""
        assert self.directory is not None
        return [path for path in self.directory.iterdir() if _OURS.fullmatch(path.name)]

    def _clear_directory(self) -> None:
        assert self.directory is not None
        with contextlib.suppress(OSError):
            for path in self._own_files():
                path.unlink(missing_ok=True)
            self.directory.rmdir()  # where nothing else is in it

    def _log(self, tile: int) -> pathlib.Path:
        assert self.directory is not None
        return self.directory / f"tile-{tile}.log"

    def _spill(self, tile: int) -> None:
        records = self.pending[tile]
        path = self._log(tile)
        before = path.stat().st_size if path.exists() else 0
        try:
            with open(path, "ab") as file:
                for keys, rows, counts in records:
                    file.write(np.int64(keys.size).tobytes())
                    file.write(_bytes_in(keys))
                    if counts is not None:
                        file.write(_bytes_in(counts))
                    file.write(_bytes_in(rows))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(path, before)
            raise _told(error, f"stream: updates could not be written to {self.directory}; the destination is as it was") from error
        self._set(tile, [])
        del self.pending[tile]

    def _records(self, tile: int) -> Iterator[_Record]:
        if self.directory is None or not self._log(tile).exists():
            yield from self.pending.get(tile, [])
            return
        with open(self._log(tile), "rb") as file:
            while head := file.read(8):
                count = int(np.frombuffer(head, "i8")[0])
                keys = np.frombuffer(file.read(8 * count), "i8")
                counts = np.frombuffer(file.read(8 * count), "i8") if self.counted else None
                rows = np.frombuffer(bytearray(file.read(count * self.row_bytes)), "u1").view(self.dtype)
                yield keys, rows.reshape(count, *self.row_shape), counts

    # -- writing

    def _write_tiles(self) -> None:
        tiles = sorted(self.pending)
        if self.directory is not None:
            tiles = sorted({int(path.name[5:].split(".")[0]) for path in self._own_files() if path.suffix != ".part"})
        for number, tile in enumerate(tiles):
            self._show(number, len(tiles))
            self._write_tile(tile)
        self._show(len(tiles), len(tiles))
        self.pending.clear()
        if self.directory is not None:
            (self.directory / _MARKER).unlink(missing_ok=True)
            self._clear_directory()
            self._unlock()

    def _write_tile(self, tile: int) -> None:
        first, last = tile * self.tile_rows, min((tile + 1) * self.tile_rows, self.rows)
        place = (slice(None),) * self.axis + (slice(first, last),)
        if self.directory is None:
            block = np.ascontiguousarray(np.moveaxis(np.asarray(self.dst[place]), self.axis, 0))
            self._fold(block, first, first, last, tile)
            self.dst[place] = np.moveaxis(block, 0, self.axis)
            return
        # The new rows lie in a file of their own before the old ones are touched: a log whose tile was
        # written is never folded again.
        ready = self.directory / f"tile-{tile}.new"
        if not ready.exists():
            block = np.ascontiguousarray(np.moveaxis(np.asarray(self.dst[place]), self.axis, 0))
            if block.base is not None or isinstance(block, np.memmap):
                block = np.array(block)
            self._fold(block, first, first, last, tile)
            try:
                _write_durably(ready, _bytes_in(block))
            except OSError as error:
                raise OSError(error.errno, f"{error.strerror}. The destination is half written until sow.resume_stream(dst, "
                              f"{str(self.directory)!r}) has ended it") from error
        self._log(tile).unlink(missing_ok=True)
        block = np.frombuffer(ready.read_bytes(), "u1").view(self.dtype).reshape(last - first, *self.row_shape)
        try:
            self.dst[place] = np.moveaxis(block, 0, self.axis)
            getattr(self.dst, "flush", lambda: None)()
        except OSError as error:
            raise _told(error, f"stream: the destination could not be written, and is half written as {self.directory / _MARKER} says") from error
        ready.unlink()

    def _fold(self, block: Any, start: int, first: int, last: int, tile: int) -> None:
        """Folds the updates of rows first to last, in halves where they are too many at once."""
        chosen: list[_Record] = []
        held = 0
        for keys, rows, counts in self._records(tile):
            inside = np.flatnonzero((keys >= first) & (keys < last))
            record = (keys[inside], rows[inside], None if counts is None else counts[inside])
            chosen.append(record)
            held += _bytes(record)
            if held <= self.memory // 8:
                continue
            chosen = self._merged(chosen)
            held = sum(map(_bytes, chosen))
            if held > self.memory // 8 and last - first > 1:
                middle = (first + last) // 2
                self._fold(block, start, first, middle, tile)
                self._fold(block, start, middle, last, tile)
                return
        if not chosen:
            return
        target = _core.asarray(block)
        at = _core.asarray(np.concatenate([record[0] for record in chosen]) - start)
        values = _core.asarray(np.concatenate([record[1] for record in chosen]))
        with tiles(()):
            if self.counted:
                counts = _core.asarray(np.concatenate([record[2] for record in chosen]))
                _core._index_mean_(target, at, values, counts, self.include_self)
            else:
                _core.index_reduce_(target, 0, at, values, self.reduce, self.include_self)

    def _show(self, done: int, of: int) -> None:
        if self.progress and of:
            width = 32
            bar = "#" * (width * done // of)
            print(f"\rstream [{bar:<{width}}] tile {done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _bytes(record: _Record) -> int:
    return int(record[0].nbytes + record[1].nbytes + (record[2].nbytes if record[2] is not None else 0))


def _bytes_in(array: Any) -> Any:
    """Of a row-major array, without a copy."""
    return np.ascontiguousarray(array).reshape(-1).view("u1").data if array.size else b""


def _as_type(tensor: Any, dtype: Any) -> Any:
    out = np.asarray(tensor)
    return out if out.dtype == dtype else out.view(dtype)


def _told(error: OSError, words: str) -> OSError:
    reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
    return OSError(error.errno, f"{words}: {reason}")


def _is_writable(dst: Any) -> bool:
    if isinstance(dst, np.ndarray):
        return bool(dst.flags.writeable)
    file = getattr(dst, "file", None)
    if getattr(file, "mode", None) == "r":  # h5py
        return False
    return not getattr(dst, "read_only", False)


def _directory_for(dst: Any, given: Any) -> pathlib.Path | None:
    if given is not None:
        return pathlib.Path(given)
    path = getattr(dst, "filename", None) if isinstance(dst, np.memmap) else getattr(getattr(dst, "file", None), "filename", None)
    if path is not None:
        return pathlib.Path(f"{path}.sow-stream")
    if isinstance(dst, np.ndarray):
        return None
    raise ValueError(f"stream: dst is a {type(dst).__name__}, which may outlive this process; give a directory= for what must be "
                     "remembered if it is killed")


def _lock(directory: pathlib.Path) -> int:
    """Held until it is closed or the process ends, so that no two streams take a directory for theirs."""
    import fcntl

    folder = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise ValueError(f"stream: another stream uses {directory}; finish or abandon that first, or give another directory=") from None
    except OSError:
        pass  # a file system without locks
    return folder


def _reserve(dst: Any) -> None:
    """Blocks of the disk for the holes of a sparse file: a write into one on a full disk would end the process."""
    if not isinstance(dst, np.memmap) or dst.filename is None or not hasattr(os, "posix_fallocate"):
        return
    try:
        with open(dst.filename, "r+b") as file:
            if os.fstat(file.fileno()).st_blocks * 512 < os.fstat(file.fileno()).st_size:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _told(error, f"stream: there is no room for the holes of {dst.filename}; the destination is as it was") from error


def _write_durably(path: pathlib.Path, data: Any) -> None:
    """The whole file or none of it, also after the machine stops."""
    part = path.with_suffix(".part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name too, before anything that it stands for is removed
        finally:
            os.close(folder)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _told(error, f"stream: {path} could not be written") from error

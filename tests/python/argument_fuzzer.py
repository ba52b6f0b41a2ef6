# SPDX-License-Identifier: Apache-2.0
"""Calls sow with random objects: each call works or raises a documented exception, and what it may not write is equal.

    python tests/python/argument_fuzzer.py --calls 10000000 --jobs 2

Calls are made in batches. A batch depends on its number alone, so one that failed, or ended the process, is made
again by `--first BATCH --calls 1 --jobs 1 --show`, which writes every call before it is made.
"""

import argparse
import array
import collections
import decimal
import fractions
import inspect
import mmap
import os
import random
import struct
import sys
import time
import traceback
import warnings

import numpy as np

import sow

import peers

# KeyError is what an object among the odd ones raises by itself.
ALLOWED = (ValueError, TypeError, IndexError, RuntimeError, MemoryError, BufferError, OverflowError, KeyError)
BATCH = 2000
OPERATIONS = [name for name in sow.__all__
              if callable(getattr(sow, name)) and not inspect.isclass(getattr(sow, name))
              and name not in ("explain", "limit_memory", "set_num_threads", "set_tile_shape", "seed", "no_grad", "enable_grad")]
WORDS = ("reduce", "include_self", "broadcast", "bounds", "axis", "dim", "name", "dtype", "seed", "offset",
         "accumulate", "wrap", "step", "device", "stream", "size", "correction", "out_size", "exclusive",
         "alpha", "as_tuple", "out")
ALIKE = {"alpha": "number", "as_tuple": "number", "out": "destination"}
KEYWORDS = {name: [word for word in WORDS if f"{word}:" in (getattr(sow, name).__doc__ or "").split("->")[0]]
            for name in OPERATIONS}
# Names of the arguments that a call which works has, after the destination.
LIKELY = {
    "masked_scatter": ("mask", "row"), "masked_fill": ("mask", "number"), "masked_select": ("mask",), "nonzero": (),
    "put_along_axis": ("index", "number", "axis"), "scatter": ("axis", "index", "array"),
    "scatter_add": ("axis", "index", "array"), "scatter_reduce": ("axis", "index", "array", "reduce"),
    "take_along_axis": ("index", "axis"), "gather": ("axis", "index"), "index_add": ("axis", "keys", "array"),
    "index_copy": ("axis", "keys", "array"), "index_fill": ("axis", "keys", "number"),
    "index_reduce": ("axis", "keys", "array", "reduce"), "index_select": ("axis", "keys"),
    "index_put": ("keys", "number"), "gather_nd": ("index",), "scatter_nd": ("keys", "shape"),
    "diagonal_scatter": ("row",), "select_scatter": ("row", "axis", "axis"), "slice_scatter": ("array", "axis"),
    "fill_diagonal": ("number",), "diagonal": (), "select": ("axis", "axis"), "slice": ("axis", "axis", "axis"),
    "broadcast_to": ("shape",), "flatten": (), "reshape": ("shape",), "transpose": ("axis", "axis"),
    "group_reduce": ("keys", "reduce"), "group_softmax": ("keys",), "group_log_softmax": ("keys",),
    "segment_reduce": ("keys", "reduce"), "gather_csr": ("keys",), "segment_cumsum": ("keys",), "bincount": (),
    "bin_index": ("row",), "send_u_recv": ("keys", "keys"), "send_ue_recv": ("array", "keys", "keys"),
    "send_uv": ("array", "keys", "keys"), "exp": (), "log": (), "sqrt": (), "unique": (), "histogram": (), "histogramdd": (),
    **{f"tensor_scatter_nd_{name}": ("index", "row") for name in ("update", "add", "sub", "max", "min", "mul")},
    **{name: ("array",) for name in ("add", "sub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
}


class Liar:
    """Says it is an array, an index, a number and a sequence, and is none."""

    def __init__(self, gift):
        self.gift = gift

    def __dlpack__(self, **keywords):
        return self.gift

    def __index__(self):
        return 0 if self.gift is None else self.gift

    def __len__(self):
        return 2**40

    def __getitem__(self, key):
        raise ValueError("nothing here")


class Raises:
    """Raises from every method that a reader of arguments may call."""

    def __init__(self, error):
        self.error = error

    def fail(self, *arguments, **keywords):
        raise self.error("no")

    __len__ = __index__ = __getitem__ = __iter__ = __float__ = __int__ = __bool__ = __array__ = __eq__ = fail
    __dlpack__ = __dlpack_device__ = __hash__ = fail


class Angry:
    def __getattr__(self, name):
        raise KeyError(name)


class NumberLike(float):
    pass


class Grows(np.float32):
    """A number that makes the list it is in longer while it is read."""

    home: list = []

    def item(self):
        if len(self.home) < 8:
            self.home.append(1.0)
        return 1.0


class Forgetful(sow.Tensor):
    def __init__(self):
        pass


def used_capsule():
    capsule = sow.zeros([2]).__dlpack__(max_version=(1, 0))

    class Once:
        def __dlpack__(self, **keywords):
            return capsule

    once = Once()
    sow.asarray(once)
    return once


class Pool:
    """The objects of one batch, by what they are likely to be; `views` shows the memory of each that has some."""

    def __init__(self, libraries):
        f4 = np.arange(4, dtype="f4").reshape(2, 2)
        self.roles = {
            "destination": [f4, f4.copy()[::-1], np.ones((2, 2)), np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4").T,
                            np.zeros((2, 2), "c8"), np.zeros((2, 2), "i4"), np.zeros((2, 2), bool), np.zeros(3, "f4"),
                            np.full((2, 2), 2**64 - 1, "u8"), np.ones((2, 2), "u2"), sow.ones([2, 2], "u4"),
                            sow.ones([2, 2]), sow.zeros([2, 3]), np.zeros((0, 2), "f4"), np.array(2, "f4")],
            "array": [np.full((2, 2), 2, "f4"), np.full((2, 2), 2**63, "u8"), np.ones((2, 2), "u2"), np.ones((2, 3), "f4"), np.ones((2, 2)), sow.ones([2, 2]), np.ones(3, "f4"),
                      np.broadcast_to(np.float32(1), (2, 2))],
            "row": [np.ones(2, "f4"), np.ones(3, "f4"), np.ones(4, "f4"), np.arange(4.0), [1.0, 2.0], sow.ones([2])],
            "index": [np.array([[0, 1], [1, 0]]), np.zeros((2, 2), "i4"), np.array([[0, 1]]), [[0, 1], [0, 1]],
                      np.array([[0, 5], [1, 0]]), np.array([[-1, -2], [0, 1]])],
            "keys": [np.array([0, 1]), np.array([1, 1], "i4"), [0, 1], sow.Index([0, 1], size=2), np.array([0, 7]),
                     np.array([-1, 0]), np.array([], "i8")],
            "mask": [np.eye(2, dtype=bool), np.array([True, False]), np.ones((2, 3), bool), [[True, False], [False, True]]],
            "number": [0, 1, 2.5, -1, 1j, True, np.float64(3), np.int64(2), float("nan"), 1e300],
            "axis": [0, 1, -1, 2, -3],
            "reduce": ["add", "mul", "amax", "amin", "mean", "assign", "sum", "average", "var", "logsumexp", "argmax",
                       "first", "count", "bitwise_and", "bitwise_or", "bitwise_xor"],
            "shape": [[2, 2], (4,), [1, 2, 2], 4, [-1, 2], [2, 3]],
        }
        grows = [Grows(1), Grows(2)]
        Grows.home = grows
        self.odd = [
            None, "text", "", "\udcff", b"bytes", bytearray(4), object(), type, len, {}, {1: 2}, set(), range(3), iter([1]), [], [[]],
            [[], []], [None], ["a"], [[1], [2, 3]], [1, [2]], (), (1, "a"), [True, 2.5, 3j], 10**30, -(10**30), 2**62,
            2**63 - 1, -(2**63), 1e308, float("inf"), decimal.Decimal(1), fractions.Fraction(1, 3), NumberLike(2),
            np.zeros((2, 0, 3)), np.zeros((1,) * 32), np.zeros(3, object), np.zeros(3, "U1"), np.zeros(3, ">i4"),
            np.ma.zeros(3), np.zeros(3, "M8[s]"), np.float16(2), np.bool_(True), np.datetime64("2020-01-01"),
            np.zeros(9, "u1")[1:].view("f4"), np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8)),
            memoryview(b"abcd"), memoryview(np.zeros((2, 2))), array.array("f", [1, 2]), collections.OrderedDict(),
            slice(1, 2), Ellipsis, sow.float32, Liar(None), Liar(5), Angry(), Raises(ValueError), Raises(RuntimeError),
            used_capsule(), np.zeros(3, [("a", "i4")]), np.array([2**40]), "drop", "clip", "error", "cpu", grows,
            Forgetful(), *(cls.__new__(cls) for cls in (sow.Tensor, sow.Index, sow.Program, sow.CompiledProgram, sow.DType)),
            np.frombuffer(b"12345678", "f4"),
        ]
        if libraries and peers.torch:
            torch = peers.torch
            self.roles["destination"] += [torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.bfloat16)]
            self.roles["index"].append(torch.tensor([[0, 1], [1, 0]]))
            self.odd += [torch.zeros(2, requires_grad=True), torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(),
                         torch.float32, torch.zeros(2, dtype=torch.uint16)]
        if libraries and peers.jax:
            self.odd += [peers.jax.numpy.zeros((2, 2)), peers.jax.numpy.float32]
        self.views = {}
        for thing in [thing for things in self.roles.values() for thing in things]:
            if type(thing) is sow.Tensor:  # those among the odd ones have no memory
                self.views[id(thing)] = np.from_dlpack(thing)
        for thing in [thing for things in (*self.roles.values(), self.odd) for thing in things]:
            if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
                self.views[id(thing)] = thing
            elif libraries and peers.torch and type(thing) is peers.torch.Tensor and thing.dtype == peers.torch.float32 \
                    and thing.layout == peers.torch.strided and thing.device.type == "cpu":
                self.views[id(thing)] = thing.detach().numpy()


class Batch:
    """Makes the calls of one batch."""

    show = False

    def __init__(self, number, libraries=False):
        self.random = random.Random(number)
        self.pool = Pool(libraries)
        self.number, self.made, self.raised = number, 0, 0

    def thing(self, role):
        pick = self.random.random()
        if pick < 0.85 and role in self.pool.roles:
            return self.random.choice(self.pool.roles[role])
        if pick < 0.9:
            return self.random.choice(self.random.choice(list(self.pool.roles.values())))
        return self.random.choice(self.pool.odd)

    def operation(self):
        name = self.random.choice(OPERATIONS)
        stem = name.removesuffix("_")
        roles = ("destination", *LIKELY.get(stem, ("array",) * self.random.randrange(4)))
        if name == "scatter_nd":
            roles = ("index", "row", "shape")
        arguments = [self.thing(role) for role in roles]
        if self.random.random() < 0.05:
            arguments = arguments[:self.random.randrange(len(arguments) + 1)]
        keywords = {}
        if self.random.random() < 0.25 and KEYWORDS[name]:
            word = self.random.choice(KEYWORDS[name])
            keywords[word] = self.thing(ALIKE.get(word, word))
        function = getattr(sow, name)
        if arguments and type(arguments[0]) in (sow.Tensor, Forgetful) and self.random.random() < 0.5:
            function = getattr(sow.Tensor, name, function)
        return name, function, arguments, keywords

    def subscript(self):
        target = self.random.choice([thing for thing in self.pool.roles["destination"] if type(thing) is sow.Tensor])
        key = self.thing(self.random.choice(("axis", "keys", "mask", "index")))
        if self.random.random() < 0.3:
            key = (key, self.thing("keys"))
        if self.random.random() < 0.5:
            return "getitem", sow.Tensor.__getitem__, [target, key], {}
        return "setitem_", sow.Tensor.__setitem__, [target, key, self.thing("number")], {}

    def elsewhere(self):
        thing = self.thing
        name, function, arguments, keywords = self.random.choice([
            ("Index", sow.Index, [thing("keys"), thing("axis")], {"bounds": thing("bounds")}),
            ("Index", sow.Index, [thing("keys")], {"size": 2, "sorted": thing("number")}),
            ("tensor", sow.tensor, [thing("row"), thing("dtype")], {}), ("asarray", sow.asarray, [thing("row")], {}),
            ("from_dlpack", sow.from_dlpack, [thing("array")], {}),
            ("explain", sow.explain, [thing("reduce"), thing("destination")], {}),
            ("explain", sow.explain, ["scatter", thing("destination"), thing("axis"), thing("index"), 1.0], {}),
            ("__dlpack__", sow.zeros([2]).__dlpack__, [], {"max_version": thing("shape"), "copy": thing("number")}),
            ("__array__", sow.zeros([2]).__array__, [thing("dtype")], {}),
            ("DType.__eq__", sow.float32.__eq__, [thing("dtype")], {}), ("seed", sow.seed, [thing("axis")], {})])
        return name, function, arguments, keywords

    def check(self, name, arguments, keywords, before, failed):
        """What may not have been written is equal: after an exception everything, else all but a destination."""
        destination = None
        if not failed and name.endswith("_") and arguments:
            destination = self.pool.views.get(id(arguments[0]))
        elif not failed and "out" in keywords:
            destination = self.pool.views.get(id(keywords["out"]))
        for view, bytes_ in before:
            if destination is not None and np.may_share_memory(view, destination):
                continue
            if view.tobytes() != bytes_:
                raise AssertionError("the call raised and had written" if failed else "an input was written")

    def step(self):
        pick = self.random.random()
        name, function, arguments, keywords = (
            self.operation() if pick < 0.85 else self.subscript() if pick < 0.95 else self.elsewhere())
        views = self.pool.views
        before = [(views[id(thing)], views[id(thing)].tobytes()) for thing in (*arguments, *keywords.values())
                  if id(thing) in views]
        self.made += 1
        if self.show:
            print(self.described(name, arguments, keywords), file=sys.stderr, flush=True)
        try:
            try:
                function(*arguments, **keywords)
            except ALLOWED:
                self.raised += 1
                self.check(name, arguments, keywords, before, True)
            else:
                self.check(name, arguments, keywords, before, False)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise AssertionError(self.described(name, arguments, keywords)) from error

    def described(self, name, arguments, keywords):
        shown = [described(thing) for thing in arguments] + [f"{k}={described(v)}" for k, v in keywords.items()]
        return f"batch {self.number}, call {self.made}: {name}({', '.join(shown)})"

    def run(self):
        for _ in range(BATCH):
            self.step()
        return self.made, self.raised


def described(thing):
    try:
        return f"<{type(thing).__name__} {thing!r:.80}>"
    except Exception:
        return f"<{type(thing).__name__}>"


def run_batches(first, last, libraries, said=None):
    """(calls, exceptions) of the batches first to last - 1; `said` is told each number before it begins."""
    made = raised = 0
    for number in range(first, last):
        if said:
            said(number)
        done = Batch(number, libraries).run()
        made, raised = made + done[0], raised + done[1]
    return made, raised


def in_child(first, last, libraries):
    """Forks a child that runs the batches; (its process, memory that names the batch it is in)."""
    shared = mmap.mmap(-1, 8)
    child = os.fork()
    if child != 0:
        return child, shared
    status = 1
    try:
        run_batches(first, last, libraries, lambda number: shared.__setitem__(slice(0, 8), struct.pack("q", number)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--first", type=int, help="the first batch; by default one that no run before had")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--libraries", action="store_true", help="arrays of PyTorch and JAX as well")
    parser.add_argument("--show", action="store_true", help="write every call before it is made")
    arguments = parser.parse_args()
    Batch.show = arguments.show
    warnings.filterwarnings("ignore", "nanobind: attempted to access an uninitialized")
    first = time.time_ns() if arguments.first is None else arguments.first
    each = -(-arguments.calls // (BATCH * arguments.jobs))
    started, failed = time.monotonic(), []
    print(f"batches of {BATCH} calls from {first}", flush=True)
    children = [in_child(first + job * each, first + (job + 1) * each, arguments.libraries)
                for job in range(arguments.jobs)]
    for child, shared in children:
        status = os.waitpid(child, 0)[1]
        if status != 0:
            failed.append(struct.unpack("q", shared[:8])[0])
            print(f"batch {failed[-1]} ended with status {os.waitstatus_to_exitcode(status)}", flush=True)
    seconds, made = time.monotonic() - started, each * arguments.jobs * BATCH
    busy = max(os.times().children_user + os.times().children_system, 1e-9)
    print(f"{made} calls in {seconds:.0f} s, {made / busy:.0f} a second of a core, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What sow.jit tells calls apart by: structures, types and bits, from many threads."""

import array
import collections
import dataclasses
import enum
import fractions
import functools
import gc
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import sow

X = np.arange(4, dtype="f4")


def bits(array_like):
    return np.asarray(array_like).tobytes()


def test_signed_zeros_and_types_are_told_apart():
    seen = []

    @sow.jit
    def f(x, value):
        seen.append(value)
        value = value[0] if isinstance(value, tuple) else value
        return x * 0 + value

    f(X, 0.0)
    f(X, -0.0)
    f(X, 0)
    f(X, False)
    f(X, 0j.real)
    assert [repr(v) for v in seen] == ["0.0", "-0.0", "0", "False"]
    f(X, (2,))
    f(X, (2.0,))
    f(X, (np.float32(2),))
    f(X, (np.float64(2),))
    f(X, (True,))
    assert len(seen) == 9


def test_the_sign_of_a_zero_reaches_the_result():
    f = sow.jit(lambda x, v: sow.masked_fill(x, np.ones(4, bool), v))
    for value in (0.0, -0.0, np.float32(0.0), np.float32(-0.0), 0.0):
        assert bits(f(X, value)) == bits(sow.masked_fill(X, np.ones(4, bool), value))


def test_a_nan_is_itself():
    f = sow.jit(lambda x, v: x * v)
    for _ in range(5):
        f(X, float("nan"))
        f(X, (np.float32("nan") + 0).item())
    assert f.traces == 1


def test_containers_are_compared_by_content():
    f = sow.jit(lambda x, s: sow.reshape(x, s) + float(s[0]))
    s = [4]
    assert f(X, s).tolist() == [4, 5, 6, 7]
    s[:] = [2, 2]
    assert f(X, s).tolist() == [[2, 3], [4, 5]]
    g = sow.jit(lambda x, options: x * options["scale"]["by"][0])
    options = {"scale": {"by": [2.0]}}
    assert g(X, options).tolist() == [0, 2, 4, 6]
    options["scale"]["by"][0] = 3.0
    assert g(X, options).tolist() == [0, 3, 6, 9]
    options["scale"] = {"by": [2.0]}
    assert g(X, options).tolist() == [0, 2, 4, 6] and g.traces == 2


Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class State:
    weight: object
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Config:
    shape: tuple
    scale: float


def test_arrays_at_any_depth_are_inputs():
    f = sow.jit(lambda parts: parts["a"][0] + parts["b"][1].weight * parts["b"][1].scale + parts["b"][0].second)
    for n in range(3):
        parts = {"a": (X + n, 1), "b": [Pair(None, X * n), State(X + 1, 2.0)]}
        assert bits(f(parts)) == bits(X + n + (X + 1) * 2 + X * n)
    assert f.traces == 1
    parts["b"][1].scale = 4.0
    assert bits(f(parts)) == bits(X + 2 + (X + 1) * 4 + X * 2)
    assert f.traces == 2
    assert parts["b"][1].weight is not None and isinstance(parts["b"][1].weight, np.ndarray)


def test_a_tuple_of_arrays():
    f = sow.jit(lambda xs: xs[0] + xs[1])
    assert f((X, X)).tolist() == [0, 2, 4, 6]
    assert f((X, X + 1)).tolist() == [1, 3, 5, 7] and f.traces == 1
    assert f([X, X]).tolist() == [0, 2, 4, 6] and f.traces == 2


def test_buffers_are_inputs():
    f = sow.jit(lambda b: b + 1)
    data = array.array("f", [1, 2])
    assert f(data).tolist() == [2, 3]
    data[0] = 5
    assert f(data).tolist() == [6, 3]


def test_nested_results_come_back_as_they_were():
    def f(x):
        return {"pair": Pair(x, [x + 1, (x * 2,)]), "state": State(x - 1, 3.0), "none": None, "n": 7, "s": "text"}

    got, expected = sow.jit(f)(X), f(sow.asarray(X))
    assert isinstance(got["pair"], Pair) and isinstance(got["state"], State)
    assert got["none"] is None and got["n"] == 7 and got["s"] == "text" and got["state"].scale == 3.0
    assert bits(got["pair"].second[1][0]) == bits(expected["pair"].second[1][0])
    assert bits(got["state"].weight) == bits(expected["state"].weight)
    assert isinstance(got["pair"].first, np.ndarray)
    traced = sow.jit(lambda x: (x, [x]))
    first, second = traced(X), traced(X)
    assert first is not second and first[1] is not second[1]
    first[1].clear()
    assert len(traced(X)[1]) == 1


def test_results_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="jit: a result is a set"):
        sow.jit(lambda x: {1, 2})(X)
    with pytest.raises(ValueError, match="returned no array"):
        sow.jit(lambda x: None)(X)
    with pytest.raises(TypeError, match="with dynamic=True"):
        sow.jit(lambda x: (x, x.shape[0]), dynamic=True)(X)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Key:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return self.value == other.value


class Unhashable:
    __hash__ = None


def test_objects_are_compared_by_type_and_equality():
    f = sow.jit(lambda x, o: x + (o.value if not isinstance(o, fractions.Fraction) else float(o)))
    assert f(X, Color.RED)[0] == 1 and f(X, Color.BLUE)[0] == 2
    assert f(X, Key(3))[0] == 3 and f(X, Key(4))[0] == 4 and f(X, Key(3))[0] == 3
    assert f(X, fractions.Fraction(1, 2))[0] == 0.5
    assert f.traces == 5
    with pytest.raises(TypeError, match="jit: an argument is an Unhashable, which has no hash"):
        f(X, Unhashable())
    with pytest.raises(TypeError, match="which has no hash"):
        f(X, collections.defaultdict(list))


def test_other_plain_arguments():
    seen = []
    f = sow.jit(lambda x, v: seen.append(v) or x + 1)
    values = [None, ..., "a", "b", "\udc80", b"a", 2**70, -2**70, 1 + 2j, complex(0.0, -0.0), complex(0.0, 0.0),
              slice(0, 2), slice(0, 2.0), slice(0, 2, 1), range(3), {1, 2}, {1.0, 2}, frozenset([1, 2]), np.float32,
              np.dtype("f4"), sow.float32, len, collections.OrderedDict(a=1), {"a": 1}, [], (), {}, set(), [[]], [()],
              [1, [2]], [[1], 2], [[1, 2]], {Color.RED}, {Color.BLUE}]
    for _ in range(2):
        for value in values:
            f(X, value)
    assert len(seen) == len(values) == f.traces
    assert [type(s) for s in seen] == [type(v) for v in values]


def test_a_list_that_holds_itself():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        sow.jit(lambda x, s: x)(X, loop)


def test_traces_are_bounded():
    f = sow.jit(lambda x, v: x + v)
    for i in range(1000):
        assert f(X, float(i))[0] == i
    assert f.traces == 256
    f(X, 999.0)
    recorded = []
    g = sow.jit(lambda x, v: recorded.append(v) or x + v)
    for i in range(256):
        g(X, i)
    g(X, 0)
    g(X, 256)  # drops 1, which was used least recently
    g(X, 0)
    assert len(recorded) == 257
    g(X, 1)
    assert len(recorded) == 258


def test_dropped_traces_let_go_of_their_objects():
    class Held:
        alive = 0

        def __init__(self):
            Held.alive += 1

        def __del__(self):
            Held.alive -= 1
            f(X, 1.0)  # calls back while a trace is dropped

    f = sow.jit(lambda x, o: x + 1)
    for _ in range(600):
        f(X, Held())
    gc.collect()
    assert Held.alive <= 256 and f.traces <= 256


def test_an_equality_that_calls_back():
    class Nosy:
        depth = 0

        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 1

        def __eq__(self, other):
            if Nosy.depth < 2:
                Nosy.depth += 1
                for i in range(3):
                    f(X, Nosy(100 + i))
                Nosy.depth -= 1
            return self.value == other.value

    f = sow.jit(lambda x, o: x + o.value)
    for i in range(4):
        assert f(X, Nosy(i))[0] == i


def test_an_equality_that_raises():
    class Angry:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise KeyError("no")

    f = sow.jit(lambda x, o: x)
    f(X, Angry())
    with pytest.raises(KeyError):
        f(X, Angry())


def run_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # reported below, whatever it is
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("make", [lambda v: State(None, float(v)), lambda v: Config((v,), float(v)), Key, float,
                                  lambda v: [v, {"a": v}]], ids=["dataclass", "frozen", "object", "float", "list"])
def test_threads(make):
    def plain(x, o):
        if isinstance(o, list):
            return x + o[1]["a"]
        return x + (o if isinstance(o, float) else o.value if isinstance(o, Key) else o.scale)

    f = sow.jit(plain)

    def work(number):
        for i in range(150):
            value = (i * 7 + number) % 40
            assert f(X, make(value))[0] == value

    run_threads(8, work)
    assert f.traces == 40


def test_threads_with_large_arrays():
    f = sow.jit(lambda x, s: sow.index_add(x, 0, np.zeros(1, "i8"), x[:1]) * s)
    big = np.ones(300_000, "f4")

    def work(number):
        for i in range(10):
            assert f(big, float(i % 3))[0] == 2.0 * (i % 3)

    run_threads(4, work)


def test_twenty_thousand_floats_keep_little():
    code = """
        import resource, numpy as np, sow
        x = np.zeros(4, "f4")
        f = sow.jit(lambda x, v: x + v)
        for i in range(1000): f(x, float(i))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(20000): f(x, float(i))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 20_000  # KB; it was 160,000


def test_keyword_names():
    f = sow.jit(lambda *args, **kwargs: sum(args) + sum(kwargs.values()))
    assert f(X, **{"argument 0": X, "": X, "\udc80": X}).tolist() == [0, 4, 8, 12]


EMPTY = [(0,), (3,), (0, 3), (3, 0), (2, 0, 2)]
FORMS = {
    "index_add": lambda x, i, s, b: sow.index_add(x, 0, i, s, bounds=b),
    "index_copy": lambda x, i, s, b: sow.index_copy(x, 0, i, s, bounds=b),
    "index_fill": lambda x, i, s, b: sow.index_fill(x, 0, i, 2.0, bounds=b),
    "index_reduce": lambda x, i, s, b: sow.index_reduce(x, 0, i, s, "amax", bounds=b),
    "index_select": lambda x, i, s, b: sow.index_select(x, 0, i, bounds=b),
    "index_put": lambda x, i, s, b: sow.index_put(x, (i,), s, bounds=b),
    "scatter_nd": lambda x, i, s, b: sow.scatter_nd(sow.reshape(i, [i.shape[0], 1]), s, x.shape, bounds=b),
    "tensor_scatter_nd_add": lambda x, i, s, b: sow.tensor_scatter_nd_add(
        x, sow.reshape(i, [i.shape[0], 1]), s, bounds=b),
    "tensor_scatter_nd_update": lambda x, i, s, b: sow.tensor_scatter_nd_update(
        x, sow.reshape(i, [i.shape[0], 1]), s, bounds=b),
    "scatter": lambda x, i, s, b: sow.scatter(x, 0, along(x, i), s, bounds=b),
    "scatter_add": lambda x, i, s, b: sow.scatter_add(x, 0, along(x, i), s, bounds=b),
    "scatter_reduce": lambda x, i, s, b: sow.scatter_reduce(x, 0, along(x, i), s, "mean", bounds=b),
    "put_along_axis": lambda x, i, s, b: sow.put_along_axis(x, along(x, i), s, 0, bounds=b),
    "take_along_axis": lambda x, i, s, b: sow.take_along_axis(x, along(x, i), 0, bounds=b),
}


def along(x, i):
    shape = [i.shape[0]] + list(x.shape[1:])
    return sow.broadcast_to(sow.reshape(i, [i.shape[0]] + [1] * (len(shape) - 1)), shape)


def outcome(call):
    try:
        result = np.asarray(call())
        return result.shape, result.tobytes()
    except (ValueError, IndexError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", FORMS)
def test_empty_shapes_against_eager(name):
    form = FORMS[name]
    for shape in EMPTY:
        for n in (0, 1, 3):
            x = np.ones(shape, "f4")
            index = np.array([0, 3, -1][:n], "i8")
            source = np.full((n, *shape[1:]), 2, "f4")
            for bounds in ("error", "drop", "clip"):
                expected = outcome(functools.partial(form, x, index, source, bounds))
                got = outcome(functools.partial(sow.jit(form), x, index, source, bounds))
                assert got == expected, (shape, n, bounds)

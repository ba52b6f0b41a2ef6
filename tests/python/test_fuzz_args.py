"""Random Python objects as arguments: the call works or raises a documented exception, and never crashes."""

import array
import collections
import decimal
import fractions
import inspect

import hypothesis
import numpy as np
import peers
from hypothesis import given
from hypothesis import strategies as st

import sow

ALLOWED = (ValueError, TypeError, IndexError, RuntimeError, MemoryError)
OPERATIONS = [name for name in sow.__all__
              if callable(getattr(sow, name)) and not inspect.isclass(getattr(sow, name))
              and name not in ("explain", "set_num_threads", "seed")]


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
        raise OSError("nothing here")

    def __repr__(self):
        return "Liar"


class Angry:
    def __getattr__(self, name):
        raise KeyError(name)


class NumberLike(float):
    pass


def used_capsule():
    t = sow.zeros([2])
    capsule = t.__dlpack__(max_version=(1, 0))

    class Once:
        def __dlpack__(self, **keywords):
            return capsule

    once = Once()
    sow.asarray(once)
    return once


def odd_objects():
    objects = [
        None, "text", "", b"bytes", bytearray(4), object(), type, len, {}, {1: 2}, set(), range(3), iter([1]),
        [], [[]], [[], []], [None], ["a"], [[1], [2, 3]], [1, [2]], (), (1, "a"), [True, 2.5, 3j], 10**30, -(10**30),
        1e308, float("nan"), float("inf"), 1j, decimal.Decimal(1), fractions.Fraction(1, 3), NumberLike(2),
        np.zeros((0,)), np.zeros((2, 0, 3)), np.array(3), np.zeros((1,) * 32), np.zeros(3, object), np.zeros(3, "U1"),
        np.zeros(3, ">i4"), np.ma.zeros(3), np.zeros(3, "M8[s]"), np.array([], "i8"), np.float16(2), np.bool_(True),
        np.datetime64("2020-01-01"), np.zeros((2, 2))[::-1, ::-1], np.broadcast_to(np.float32(0), (3, 3)),
        np.zeros(4, "u1")[1:], np.lib.stride_tricks.as_strided(np.zeros(4), (3, 3), (8, 8)), memoryview(b"abcd"),
        memoryview(np.zeros((2, 2))), array.array("f", [1, 2]), collections.OrderedDict(), slice(1, 2), Ellipsis,
        sow.zeros([2, 2]), sow.float32, sow.Index([0, 1], size=2), Liar(None), Liar(5), Angry(), used_capsule(),
        np.zeros(3, [("a", "i4")]), np.arange(6).reshape(2, 3), np.arange(4, dtype="f4").reshape(2, 2),
        np.eye(2, dtype=bool), np.array([[0, 1], [1, 0]]), np.array([2**40]), "assign", "add", "drop", 0, 1, -1, 2,
        True, 0.5]
    if peers.torch:
        torch = peers.torch
        objects += [torch.zeros(2, 2), torch.zeros(2, requires_grad=True), torch.zeros(2, device="meta"),
                    torch.zeros(2).to_sparse(), torch.float32, torch.zeros(2, dtype=torch.uint16)]
    if peers.jax:
        objects += [peers.jax.numpy.zeros((2, 2)), peers.jax.numpy.float32]
    return objects


OBJECTS = odd_objects()
any_object = st.one_of(
    st.sampled_from(range(len(OBJECTS))).map(lambda at: OBJECTS[at]),
    st.integers(-3, 3), st.floats(), st.booleans(), st.text(max_size=3),
    st.lists(st.integers(-3, 3), max_size=3), st.lists(st.lists(st.integers(-2, 2), max_size=2), max_size=2))
likely = st.one_of(
    st.sampled_from([np.zeros((2, 2), "f4"), np.ones((2, 2)), sow.ones([2, 2]), np.zeros(3, "i8")]), any_object)


def keywords_of(name):
    text = getattr(sow, name).__doc__.split("->")[0]
    return [word for word in ("reduce", "include_self", "broadcast", "bounds", "axis", "dim", "name", "dtype", "seed",
                              "offset", "accumulate", "wrap", "step", "device") if f"{word}:" in text]


def small(value):
    """Nothing that would ask for more memory than there is."""
    if isinstance(value, (list, tuple)):
        return all(small(item) for item in value)
    return not (isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > 10**4
                and value not in (10**30, -(10**30)))


@hypothesis.settings(max_examples=15 * hypothesis.settings.get_profile("sow").max_examples)
@given(st.data())
def test_random_objects_as_arguments(data):
    name = data.draw(st.sampled_from(OPERATIONS))
    arguments = data.draw(st.lists(likely, max_size=5))
    keywords = data.draw(st.dictionaries(st.sampled_from(keywords_of(name) or ["axis"]), any_object, max_size=2))
    if name in ("zeros", "ones", "full", "arange", "rand", "randn"):
        hypothesis.assume(all(small(value) for value in arguments))
    try:
        getattr(sow, name)(*arguments, **keywords)
    except ALLOWED:
        pass


@given(any_object, any_object, st.sampled_from([[2, 3], [0], [], [3]]))
def test_random_objects_as_keys(key, value, shape):
    t = sow.zeros(shape)
    try:
        t[key]
    except ALLOWED:
        pass
    try:
        t[key] = value
    except ALLOWED:
        pass


@given(any_object, any_object, any_object)
def test_random_objects_elsewhere(first, second, third):
    calls = [lambda: sow.Index(first, second, bounds=third), lambda: sow.Index(first, size=3, sorted=second),
             lambda: sow.tensor(first, second), lambda: sow.asarray(first), lambda: sow.from_dlpack(first),
             lambda: sow.explain(first, second, third), lambda: sow.explain("scatter", first, second, third, 1.0),
             lambda: sow.zeros([2]).__dlpack__(max_version=first, dl_device=second, copy=third),
             lambda: sow.zeros([2]).__array__(first), lambda: sow.float32 == first, lambda: sow.seed(first)]
    for call in calls:
        try:
            call()
        except (*ALLOWED, BufferError):
            pass


def test_objects_the_foreign_exception_of_which_is_kept_as_the_cause():
    class Broken:
        def __dlpack__(self, **keywords):
            raise OSError("the disk is on fire")

    try:
        sow.asarray(Broken())
    except TypeError as error:
        assert isinstance(error.__cause__, OSError) and "the disk is on fire" in str(error)
    else:
        raise AssertionError("no error")

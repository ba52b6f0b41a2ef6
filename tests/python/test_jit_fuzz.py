# SPDX-License-Identifier: Apache-2.0
"""Random arguments and structures through sow.jit: what eager gives, bit for bit, or the same exception."""

import collections
import copy
import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import sow

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Box:
    inside: object
    factor: object = 1.0


FLOATS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.5, float("nan"), float("inf"), 1, 0, 2, True, False,
                          np.float32(2), np.float32(-0.0), np.float64(0.0), np.float64(-0.0), np.int64(2)])
PLAIN = st.one_of(FLOATS, st.sampled_from([None, "add", "amax", b"x", 1j]), st.integers(-2**70, 2**70),
                  st.text(max_size=3))
ARRAYS = st.builds(lambda n, seed, dtype: np.random.default_rng(seed).integers(-3, 4, n).astype(dtype),
                   st.integers(0, 4), st.integers(0, 5), st.sampled_from(["f4", "f8", "i8"]))
TREES = st.recursive(st.one_of(ARRAYS, PLAIN), lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", 1, True, 2.0]), inner, max_size=3),
    st.builds(Pair, inner, inner), st.builds(Box, inner, FLOATS)), max_leaves=8)


def leaves_of(tree):
    if isinstance(tree, (list, tuple)):
        for part in tree:
            yield from leaves_of(part)
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield key
            yield from leaves_of(part)
    elif isinstance(tree, Box):
        yield from leaves_of(tree.inside)
        yield tree.factor
    else:
        yield tree


def is_array(leaf):
    return isinstance(leaf, (np.ndarray, sow.Tensor))


def shape_of(tree):
    """The structure with arrays replaced by marks, in words that tell bits apart."""
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, [shape_of(part) for part in tree]
    if isinstance(tree, dict):
        return "dict", [(repr(key), shape_of(part)) for key, part in tree.items()]
    if isinstance(tree, Box):
        return "Box", shape_of(tree.inside), shape_of(tree.factor)
    return "array" if is_array(tree) else (type(tree).__name__, repr(tree))


def folded(x, tree):
    """A function of everything in the tree: signs of zeros, types, order and all."""
    out = x
    for number, leaf in enumerate(leaves_of(tree)):
        if is_array(leaf):
            if leaf.dtype == x.dtype and tuple(leaf.shape) == tuple(x.shape):
                out = out * 2 + leaf
        elif isinstance(leaf, (bool, np.bool_)):
            out = out + (3 if leaf else 5)
        elif isinstance(leaf, (float, np.floating)):
            out = sow.masked_fill(out, np.arange(4) == number % 4, float(leaf))
        elif isinstance(leaf, (int, np.integer)):
            out = out + int(leaf) % 7 * (2 if isinstance(leaf, np.integer) else 1)
        elif isinstance(leaf, (str, bytes)):
            out = out - len(leaf) - (0.5 if isinstance(leaf, bytes) else 0)
    return out


def plain(x, tree):
    return {"folded": folded(x, tree), "tree": with_arrays_doubled(tree)}


def with_arrays_doubled(tree):
    if isinstance(tree, Pair):
        return Pair(*[with_arrays_doubled(part) for part in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)(with_arrays_doubled(part) for part in tree)
    if isinstance(tree, dict):
        return {key: with_arrays_doubled(part) for key, part in tree.items()}
    if isinstance(tree, Box):
        return Box(with_arrays_doubled(tree.inside), tree.factor)
    return sow.mul(tree, 2) if is_array(tree) else tree


def arrays_of(tree):
    return [np.asarray(leaf) for leaf in leaves_of(tree) if is_array(leaf)]


def assert_same(got, expected):
    assert shape_of(got) == shape_of(expected)
    for a, b in zip(arrays_of(got), arrays_of(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


TRACED = sow.jit(plain)  # one for all examples, so that each meets the traces of the others
X = np.arange(4, dtype="f4")


@given(st.lists(TREES, min_size=1, max_size=4))
def test_any_structure_gives_eagers_bits(trees):
    for _ in range(2):
        for tree in trees:
            before = copy.deepcopy(tree)
            assert_same(TRACED(X, tree), plain(X, tree))
            assert_same(tree, before)
    assert TRACED.traces <= 256


@given(TREES, st.data())
def test_changed_in_place_is_another_call(tree, data):
    box = Box([tree])
    for _ in range(3):
        assert_same(TRACED(X, box), plain(X, box))
        change = data.draw(st.integers(0, 3))
        if change == 0:
            box.inside.append(data.draw(PLAIN))
        elif change == 1:
            box.inside[0] = data.draw(TREES)
        elif change == 2:
            box.factor = data.draw(FLOATS)
        else:
            for leaf in arrays_of(box):
                leaf += 1


BOUNDS = st.sampled_from(["error", "drop", "clip"])
REDUCTIONS = st.sampled_from(["assign", "add", "mul", "amax", "amin", "mean"])


def scatter(x, index, source, reduce, bounds, scalar):
    x = sow.scatter_reduce(x, 0, index, source, reduce, bounds=bounds)
    return sow.index_fill(x, 0, index, scalar, bounds=bounds)


def outcome(function, *args):
    try:
        result = np.asarray(function(*args))
        return result.dtype, result.shape, result.tobytes()
    except (ValueError, IndexError, TypeError) as error:
        return type(error), str(error)


SCATTERS = {dynamic: sow.jit(scatter, dynamic=dynamic) for dynamic in (False, True)}


@given(st.integers(0, 4), st.lists(st.integers(-5, 5), max_size=5), st.sampled_from(["f4", "f8", "i8"]), REDUCTIONS,
       BOUNDS, FLOATS, st.booleans())
def test_scatters_give_eagers_bits_or_errors(size, keys, dtype, reduce, bounds, scalar, dynamic):
    x, index, source = (np.arange(size).astype(dtype), np.array(keys, "i8"), np.arange(len(keys)).astype(dtype))
    args = (x, index, source, reduce, bounds, scalar)
    assert outcome(SCATTERS[dynamic], *args) == outcome(scatter, *args)

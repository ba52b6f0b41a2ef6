# SPDX-License-Identifier: Apache-2.0
"""x[key] and x[key] = value against NumPy: eagerly, in programs and in traced functions."""

import random

import numpy as np
import pytest

import sow

RAISED = (IndexError, ValueError, TypeError)
CASES = 2500
PROGRAM_CASES = 250


def random_shape(draw):
    return tuple(draw.choice([0, 1, 2, 3, 3, 4, 4]) for _ in range(draw.randint(0, 4)))


def random_slice(draw):
    def end():
        return draw.choice([None, None, draw.randint(-6, 6)])
    return slice(end(), end(), draw.choice([None, 1, 2, 3, -1, -1, -2]))


def random_places(draw, extent, shape):
    """Positions in an axis, a bad one now and then."""
    if extent == 0:
        shape = (*shape[:-1], 0) if shape else (0,)
        extent = 1
    values = np.array([draw.randint(-extent, extent - 1) for _ in range(int(np.prod(shape)))])
    values = values.astype(draw.choice(["int64", "int32"])).reshape(shape)
    if values.size and draw.random() < 0.02:
        values.reshape(-1)[draw.randrange(values.size)] = extent + draw.randint(0, 2)
    return values


def random_mask(draw, shape):
    mask = np.array([draw.random() < 0.5 for _ in range(int(np.prod(shape)))], bool)
    return mask.reshape(shape)


def random_key(draw, shape):
    """A tuple of parts; arrays are NumPy's."""
    common = draw.choice([(1,), (2,), (3,), (2, 2), (1, 3), ()])
    parts, axis, dots = [], 0, False
    while axis < len(shape):
        kind = draw.choice("iisssaaamn.t")
        if kind == "i":
            extent = shape[axis]
            bad = extent == 0 or draw.random() < 0.02
            at = extent if bad else draw.randint(-extent, extent - 1)
            parts.append(draw.choice([int, np.int64])(at))
            axis += 1
        elif kind == "s":
            parts.append(random_slice(draw))
            axis += 1
        elif kind == "a":
            parts.append(random_places(draw, shape[axis], draw.choice([common, common, (1,)])))
            axis += 1
        elif kind == "m":
            rank = draw.randint(0, min(2, len(shape) - axis))
            parts.append(random_mask(draw, shape[axis:axis + rank]))
            axis += rank
        elif kind == "n":
            parts.append(None)
        elif kind == "t":
            parts.append(draw.choice([True, True, False, np.True_]))
        elif not dots:
            dots = True
            parts.append(Ellipsis)
            axis += draw.randint(0, len(shape) - axis)
        if draw.random() < 0.1:
            break
    if draw.random() < 0.1:
        parts.append(draw.choice([None, True, Ellipsis if not dots else None]))
    if len(parts) > 6:
        parts = parts[:6]
    return tuple(parts)


def as_sow(draw, part):
    """The same part in another form that sow takes."""
    if not isinstance(part, np.ndarray):
        return part
    form = draw.choice(["numpy", "numpy", "tensor", "list"])
    if form == "tensor":
        return sow.tensor(part)
    if form == "list" and part.size:
        return part.tolist() if part.ndim else part
    return part


def packed(draw, parts):
    return parts[0] if len(parts) == 1 and draw.random() < 0.5 else tuple(parts)


def expected_get(a, key):
    try:
        return a[key]
    except IndexError:
        return None


def checked_for_nothing(a, key, want):
    """NumPy does not look at positions where there is nothing to read or write; sow does."""
    return want.size == 0 and any(isinstance(part, np.ndarray) and part.dtype != bool and part.size
                                  for part in key)


def random_value(draw, a, key):
    """What a[key] = takes: a number, or an array that broadcasts."""
    places = np.arange(a.size).reshape(a.shape)[key]
    meets = np.unique(places).size != places.size
    if meets or draw.random() < 0.3:
        return draw.choice([7.5, -1, np.float32(2.0)])
    shape = [1 if draw.random() < 0.2 else n for n in places.shape]
    if draw.random() < 0.2:
        shape = shape[draw.randint(0, len(shape)):]
    if shape and draw.random() < 0.1:
        shape = [1, *shape]
    return (100 + np.arange(np.prod(shape, dtype=int), dtype="f4")).reshape(shape)


def cases(seed, count):
    draw = random.Random(seed)
    done = 0
    while done < count:
        shape = random_shape(draw)
        yield draw, np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape), \
            random_key(draw, shape)
        done += 1


def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


def test_get():
    good = 0
    for draw, a, parts in cases(1, CASES):
        want = expected_get(a, parts)
        key = packed(draw, [as_sow(draw, part) for part in parts])
        x = sow.asarray(a)
        if want is None:
            with pytest.raises(RAISED):
                x[key]
            continue
        good += 1
        try:
            same(x[key], np.asarray(want))
        except IndexError:
            assert checked_for_nothing(a, parts, want)
    assert good > CASES // 2


def set_cases(seed, count):
    for draw, a, parts in cases(seed, count):
        if expected_get(a, parts) is None:
            yield draw, a, parts, 1.0, None
            continue
        if checked_for_nothing(a, parts, a[parts]):
            continue
        value = random_value(draw, a, parts)
        want = a.copy()
        try:
            want[parts] = value
        except TypeError:  # NumPy has a rule of its own for one mask and a value of many dimensions
            value = 3.0
            want[parts] = value
        yield draw, a, parts, value, want


def test_set():
    good = 0
    for draw, a, parts, value, want in set_cases(2, CASES):
        key = packed(draw, [as_sow(draw, part) for part in parts])
        x = sow.tensor(a)
        if want is None:
            with pytest.raises(RAISED):
                x[key] = value
            same(x, a)
            continue
        good += 1
        x[key] = value
        same(x, want)
    assert good > CASES // 2


@pytest.mark.parametrize("recorded", ["destination", "value"])
def test_set_is_recorded(recorded):
    """The gradient of what was overwritten is zero, and the value gets what lies there."""
    good = masks = flat = 0
    for draw, a, parts, value, want in set_cases(3, CASES):
        if want is None or not np.ndim(value):
            continue
        good += 1
        masks += any(np.ndim(part) == 0 and np.asarray(part).dtype == bool for part in parts)
        flat += a.ndim == 0
        key = packed(draw, list(parts))
        leaf = sow.tensor(a)
        v = sow.tensor(value)
        (leaf if recorded == "destination" else v).requires_grad = True
        y = leaf * 1.0 if recorded == "destination" else sow.tensor(a)
        y[key] = v
        same(y.detach(), want)
        sow.sum(y).backward()
        if recorded == "destination":
            kept = np.ones_like(a)
            kept[key] = 0
            same(leaf.grad, kept)
        else:
            shape = a[key].shape
            same(v.grad, np.full(value.shape, np.prod(shape, dtype=int) / max(value.size, 1), "f4"))
    assert good > 100 and masks > 20 and flat > 5, (good, masks, flat)


def test_set_by_a_false_mask_that_does_not_fit():
    leaf = sow.zeros([3])
    leaf.requires_grad = True
    y = leaf * 1.0
    with pytest.raises(IndexError, match="a mask of no dimensions that is false stands for shape"):
        y[[0, 1], False] = 1.0
    y[[0], False] = 1.0
    same(y.detach(), np.zeros(3, "f4"))


class Building:
    """A program of x and of the arrays of a key, each an input or a constant."""

    def __init__(self, draw, unknown):
        self.draw, self.unknown = draw, unknown
        self.program, self.feeds = sow.Program(), {}

    def input(self, array):
        name = f"i{len(self.feeds)}"
        self.feeds[name] = array
        shape = [None] * array.ndim if self.unknown else list(array.shape)
        return self.program.input(name, shape, str(array.dtype))

    def part(self, part):
        if isinstance(part, np.ndarray) and self.draw.random() < 0.6:
            return self.input(part)
        return part

    def run(self, result):
        self.program.output("y", result)
        return self.program.compile().run(self.feeds)["y"]


@pytest.mark.parametrize("unknown", [False, True])
def test_get_in_programs(unknown):
    good = 0
    for draw, a, parts in cases(4 + unknown, PROGRAM_CASES):
        want = expected_get(a, parts)
        if want is not None and checked_for_nothing(a, parts, want):
            continue
        building = Building(draw, unknown)
        if want is None:
            with pytest.raises(RAISED):
                building.run(building.input(a)[tuple(building.part(part) for part in parts)])
            continue
        good += 1
        x = building.input(a)
        same(building.run(x[packed(draw, [building.part(part) for part in parts])]),
             np.asarray(want))
    assert good > PROGRAM_CASES // 2


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("through", ["clone", "input", "view"])
def test_set_in_programs(unknown, through):
    good = 0
    for draw, a, parts, value, want in set_cases(6 + unknown, PROGRAM_CASES):
        building = Building(draw, unknown)
        x = building.input(a)
        y = x if through == "input" else x.clone()
        whole = y
        if through == "view" and a.ndim:
            whole = y.flip(0)
            y = whole.flip(0)
        key = tuple(building.part(part) for part in parts)
        v = value if np.ndim(value) > a[parts if want is not None else ...].ndim \
            else building.part(value)
        if want is None:
            with pytest.raises(RAISED):
                y[key] = v
                building.run(y)
            continue
        good += 1
        y[key] = v
        got = building.run(whole)
        same(got, want[::-1] if whole is not y else want)
    assert good > PROGRAM_CASES // 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_jit(dynamic):
    good = 0
    for _, a, parts, value, want in set_cases(8 + dynamic, PROGRAM_CASES):
        arrays = [part for part in parts if isinstance(part, np.ndarray)]

        @sow.jit(dynamic=dynamic)
        def both(x, *given, parts=parts, value=value):
            given = iter(given)
            key = tuple(next(given) if isinstance(part, np.ndarray) else part for part in parts)
            read = x[key]
            y = x.clone()
            y[key] = value
            return read.clone(), y, x.clone()

        if want is None:
            with pytest.raises(RAISED):
                both(a, *arrays)
            continue
        good += 1
        read, y, x = both(a, *arrays)
        same(read, np.asarray(a[parts]))
        same(y, want)
        same(x, a)
    assert good > PROGRAM_CASES // 2


X = np.arange(24, dtype="f4").reshape(2, 3, 4)


@pytest.mark.parametrize("key", [1.0, 1.5, np.float32(1), 1j, "a", [1.0, 0.0], object(), (0, 1.0),
                                 np.array([1.0]), np.array([1], "M8[s]")])
def test_what_is_no_index(key):
    for x in (sow.asarray(X), sow.Program().input("x", [2, 3, 4])):
        with pytest.raises(TypeError, match="index"):
            x[key]
        with pytest.raises(TypeError, match="index"):
            x[key] = 0.0


@pytest.mark.parametrize("key", [True, False, np.True_, np.array(True), np.array(False)])
def test_masks_without_dimensions(key):
    same(sow.asarray(X)[key], X[key])
    same(sow.asarray(X)[key, 1], X[key, 1])
    y, want = sow.tensor(X), X.copy()
    y[key] = 5.0
    want[key] = 5.0
    same(y, want)


def test_an_ellipsis_of_no_axes_stands_between_arrays():
    x = sow.zeros([3, 4, 5])
    assert x[:, [0, 1], ..., [0, 1]].shape == (2, 3)
    assert x[:, [0, 1], [0, 1]].shape == (3, 2)


def test_a_symbolic_index_gathers():
    """Once it read memory that nobody had written."""
    a, i = np.arange(1000, dtype="f4"), np.arange(100)
    same(sow.jit(lambda x, i: x[i])(a, i), a[i])
    with pytest.raises(IndexError, match="index 1000 at position"):
        sow.jit(lambda x, i: x[i])(a, i + 901)

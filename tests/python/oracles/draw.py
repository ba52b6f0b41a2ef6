# SPDX-License-Identifier: Apache-2.0
"""Problems to try: shapes, indices, values and memory layouts, and the two ways of calling an operation on them."""

import math

import hypothesis.strategies as st
import numpy as np

import sow

import peers

BFLOAT16 = [np.dtype(peers.ml_dtypes.bfloat16)] if peers.ml_dtypes else []
BOOL = [np.dtype("bool")]
INTEGERS = [np.dtype(name) for name in ("uint8", "int8", "int16", "int32", "int64")]
FLOATS = [np.dtype("float16"), *BFLOAT16, np.dtype("float32"), np.dtype("float64")]
COMPLEX = [np.dtype("complex64"), np.dtype("complex128")]
REAL = [*INTEGERS, *FLOATS]
ALL = [*BOOL, *REAL, *COMPLEX]

EXTENTS = (1, 2, 3, 4, 5, 2, 3, 4, 7, 0)


def types_of(reduce):
    """The types that a reduction takes."""
    return {"assign": ALL, "add": ALL, "mul": ALL, "mean": [*REAL, *COMPLEX], "amax": [*BOOL, *REAL],
            "amin": [*BOOL, *REAL], "sub": [*REAL, *COMPLEX]}[reduce]


class Draw:
    """Structure comes from hypothesis, which shrinks it; bulk values and layouts from a seed that it draws."""

    def __init__(self, data):
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))

    def __repr__(self):
        return "draw"

    def pick(self, *options):
        return self.data.draw(st.sampled_from(options))

    def integer(self, low, high):
        return self.data.draw(st.integers(low, high))

    def flag(self):
        return self.data.draw(st.booleans())

    # -- shapes ----------------------------------------------------------------------------------

    def shape(self, low=0, high=4, extents=EXTENTS):
        return tuple(self.pick(*extents) for _ in range(self.integer(low, high)))

    def axis(self, shape):
        """An axis of an array, counted from either end."""
        rank = max(len(shape), 1)
        return self.integer(-rank, rank - 1)

    def narrower(self, shape, axis=None):
        """A shape that fits into `shape`; along `axis` it may be anything."""
        fits = [self.integer(0 if n == 0 or self.integer(0, 9) == 0 else 1, n) for n in shape]
        if axis is not None and shape:
            fits[axis] = self.pick(*EXTENTS, 12) if shape[axis] else 0
        return tuple(fits)

    def wider(self, shape):
        return tuple(n + self.pick(0, 0, 1, 2) for n in shape)

    def spread(self, shape):
        """A shape that broadcasts to `shape`."""
        kept = shape[self.integer(0, len(shape)):]
        return tuple(1 if self.integer(0, 3) == 0 else n for n in kept)

    # -- values ----------------------------------------------------------------------------------

    def bytes(self, shape, dtype):
        """Any bits at all: what moves must carry."""
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(dtype)
        raw = self.rng.integers(0, 256, (math.prod(shape), dtype.itemsize), np.uint8)
        return raw.view(dtype).reshape(shape)

    def small(self, shape, dtype):
        """Small integers in any type: sums of a few hundred are exact everywhere."""
        low = {"b": 0, "u": 0}.get(dtype.kind, -3)
        values = self.rng.integers(low, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
        if dtype.kind == "c":
            values += self.rng.integers(-3, 4, shape).astype(dtype) * dtype.type(1j)
        return values

    def factors(self, shape, dtype):
        """Values whose products, a dozen at a time, are exact everywhere."""
        if dtype.kind in "biu":
            return self.bytes(shape, dtype)
        return self.rng.choice([1.0, -1.0, 2.0, -2.0, 0.5], shape).astype(dtype)

    def compared(self, shape, dtype, nan=True):
        """Values to compare: no two zeros of different sign, and of NaNs only the positive quiet one."""
        if dtype.kind in "biu":
            return self.bytes(shape, dtype)
        values = self.rng.standard_normal(shape).astype(dtype)
        return np.where(self.rng.random(shape) < 0.1, dtype.type(np.nan if nan else np.inf), values).astype(dtype)

    def exact(self, shape, dtype, reduce, nan=True):
        """Values whose reduction every peer gets right to the bit; integers wrap, except in a mean."""
        if reduce == "assign":
            return self.bytes(shape, dtype)
        if reduce in ("amax", "amin"):
            return self.compared(shape, dtype, nan)
        if reduce == "mul":
            return self.factors(shape, dtype)
        return self.bytes(shape, dtype) if dtype.kind in "biu" and reduce != "mean" else self.small(shape, dtype)

    def wide(self, shape, dtype):
        """Floats for sums that are hard: ties, cancellation, all exponents, subnormals, zeros, now and then no number.

        Integers of any size.
        """
        if dtype.kind in "biu":
            return self.bytes(shape, dtype)
        if dtype.kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            return self.wide((*shape, 2), part).view(dtype).reshape(shape)
        with np.errstate(all="ignore"):
            return np.asarray(self.floats(shape, dtype), dtype)

    def floats(self, shape, dtype):
        kind = self.rng.integers(6)
        if kind == 0:
            return self.bytes(shape, dtype)
        if kind == 1:  # subnormals and zeros of both signs
            tiny = self.bytes(shape, dtype).view(f"u{dtype.itemsize}")
            return (tiny & np.array(self.rng.choice([0x87, 0x80]) * 256 ** (dtype.itemsize - 1) | 1,
                                    tiny.dtype)).view(dtype)
        spread = {0: 1, 1: 4, 2: 12, 3: 40}[int(self.rng.integers(4))]
        values = self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-spread, spread + 1, shape)
        if kind == 2:  # mostly cancelling
            values = self.rng.choice(values.ravel()[:5], shape) if values.size else values
            values = values * self.rng.choice([-1, 1], shape)
        if kind == 3 and dtype.itemsize == 8:
            values = values * 2.0 ** self.rng.choice([-1050, -500, 0, 500, 980])
        if kind == 4:  # near the largest: sums that overflow on the way and at the end
            values = self.rng.choice([1, -1, 0.5, 2**-9], shape) * self.largest(dtype)
        return np.asarray(values).astype(dtype).reshape(shape)

    def largest(self, dtype):
        return {2: 65504.0 if dtype.kind == "f" else 3.3e38, 4: 3.4e38, 8: 1.79e308}[dtype.itemsize]

    def index(self, shape, size, negative=True):
        """An index into an axis of `size`, with duplicates; places are counted from either end."""
        index = self.rng.integers(0, max(size, 1), shape)
        if negative:
            index = np.where(self.rng.integers(0, 2, shape), index, index - size)
        return index.astype(self.pick(np.int32, np.int64))

    # -- layouts ---------------------------------------------------------------------------------

    def layout(self, shape, negative=True):
        """How an array of `shape` may lie in memory: (shape of the base, how to take the array out of it)."""
        order = self.rng.permutation(len(shape)) if self.rng.integers(2) else np.arange(len(shape))
        base, cuts = [], []
        for axis in order:
            ways = [(1, 0, 0), (1, 1, 2), (2, 0, 0), (3, 1, 1), (-1, 0, 0), (-2, 1, 1)]
            step, before, after = ways[self.rng.integers(6 if negative else 4)] if self.rng.integers(2) else ways[0]
            reach = (shape[axis] - 1) * abs(step) + 1 if shape[axis] else 0
            base.append(before + reach + after)
            cuts.append((slice(before, before + reach, abs(step)), slice(None, None, -1 if step < 0 else 1)))

        def take(array):
            view = array[(*[cut for cut, _ in cuts], ...)][(*[turn for _, turn in cuts], ...)]
            return view.transpose(np.argsort(order))

        return tuple(base), take

    def placed(self, array, negative=True):
        """The same elements somewhere in a larger array: (the view, its base, how to take it out of the base)."""
        shape, take = self.layout(array.shape, negative)
        base = self.bytes(shape, array.dtype)
        view = take(base)
        view[...] = array
        return view, base, take


problems = st.builds(Draw, st.data())


def same_bits(got, expected, what=""):
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype, f"{what}: type {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    if np.ascontiguousarray(got).tobytes() != np.ascontiguousarray(expected).tobytes():
        raise AssertionError(f"{what} ({got.dtype}):\n{got}\nexpected\n{expected}")


def same_numbers(got, expected, what=""):
    """As same_bits, except that +0 is -0 and any NaN is any other."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got.dtype} {got.shape}"
    with np.errstate(all="ignore"):
        equal = (got == expected) | (got != got) & (expected != expected)
    if not equal.all():
        raise AssertionError(f"{what} ({got.dtype}):\n{got}\nexpected\n{expected}")


def nearly(got, expected, what=""):
    """Equal but for the last bits."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got.dtype} {got.shape}"
    np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=what)


class NumPy:
    """NumPy's arrays as a caller holds them; the other peers are held in the same way, in their own files."""

    in_place = True
    negative_strides = True

    def make(self, array):
        return array

    def read(self, array):
        return np.asarray(array)


def convert(d, kind, argument):
    if isinstance(argument, np.ndarray):
        return kind.make(d.placed(argument, kind.negative_strides)[0])
    if isinstance(argument, list):
        return [convert(d, kind, one) for one in argument]
    return argument


def check(d, kind, op, expected, x, *arguments, same=same_bits, **options):
    """Calls sow's `op`, and `op_` where there is one, on arrays of a kind that lie in memory in some way; both must give
    what is expected, leave the input alone or be written through it, and touch nothing beside it."""
    arguments = [convert(d, kind, argument) for argument in arguments]
    view, base, take = d.placed(x, kind.negative_strides)
    before = base.tobytes()
    result = getattr(sow, op)(kind.make(view), *arguments, **options)
    assert type(result) is type(kind.make(view))
    same(kind.read(result), expected, op)
    assert base.tobytes() == before, f"{op} changed its input"
    if kind.in_place and hasattr(sow, op + "_") and expected.shape == x.shape:
        destination = kind.make(view)
        assert getattr(sow, op + "_")(destination, *arguments, **options) is destination
        same(kind.read(destination), expected, op + "_")
        written = np.frombuffer(before, base.dtype).reshape(base.shape).copy()
        take(written)[...] = kind.read(destination)
        same_bits(base, written, f"{op}_, and what lies around its destination")

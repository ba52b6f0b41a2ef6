# SPDX-License-Identifier: Apache-2.0
"""What the contract says a fold gives, bit for bit, with fractions for the sums: slow, short, and written apart from
the library."""

import dataclasses
import fractions
import math

import numpy as np

import peers

Fraction = fractions.Fraction


@dataclasses.dataclass(frozen=True)
class Format:
    """A binary floating-point format; numbers of it are handled as the integers that their bits spell."""

    width: int
    precision: int  # with the leading bit
    smallest: int  # exponent of the smallest normal number

    @property
    def step(self):
        return 1 << (self.precision - 1)

    @property
    def sign(self):
        return 1 << (self.width - 1)

    @property
    def infinity(self):
        return self.sign - self.step

    @property
    def nan(self):
        return self.infinity + self.step // 2

    def value(self, bits):
        """The number as a Fraction, or an infinity or NaN as a Python float."""
        size = bits & (self.sign - 1)
        sign = -1 if bits & self.sign else 1
        if size >= self.infinity:
            return math.nan if size > self.infinity else sign * math.inf
        exponent = max(size >> (self.precision - 1), 1)
        digits = size - ((exponent - 1) << (self.precision - 1))
        return sign * digits * Fraction(2) ** (self.smallest + exponent - self.precision)

    def rounded(self, value):
        """The bits of the nearest number, ties to even; a zero is positive."""
        if not isinstance(value, Fraction):
            return self.nan if math.isnan(value) else self.infinity | (self.sign if value < 0 else 0)
        size = abs(value)
        if size == 0:
            return 0
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if size < Fraction(2) ** exponent:
            exponent -= 1
        exponent = max(exponent, self.smallest)
        digits = round(size / Fraction(2) ** (exponent - self.precision + 1))  # Python rounds ties to even
        bits = digits + ((exponent - self.smallest) << (self.precision - 1))
        return min(bits, self.infinity) | (self.sign if value < 0 else 0)


FLOAT64 = Format(64, 53, -1022)
FORMATS = {np.dtype("float16"): Format(16, 11, -14), np.dtype("float32"): Format(32, 24, -126),
           np.dtype("float64"): FLOAT64}
if peers.ml_dtypes:
    FORMATS[np.dtype(peers.ml_dtypes.bfloat16)] = Format(16, 8, -126)


def bits_of(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel().tolist()


def from_bits(bits, dtype):
    return np.array(bits, f"u{np.dtype(dtype).itemsize}").view(dtype)


def exact_sum(bits, form):
    """The bits of the exact sum of the numbers that `bits` spell, rounded once to `form.width` bits."""
    return form.rounded(real_sum(bits, form)) if not all_negative_zero(bits, form) else form.sign


def all_negative_zero(bits, form):
    return len(bits) > 0 and all(one == form.sign for one in bits)


def real_sum(bits, form):
    values = [form.value(one) for one in bits]
    special = {value for value in values if not isinstance(value, Fraction)}
    if not special:
        return sum(values, Fraction(0))
    return special.pop() if len(special) == 1 else math.nan


def exact_mean(bits, form):
    total = FLOAT64.sign if all_negative_zero(bits, form) else FLOAT64.rounded(real_sum(bits, form))
    with np.errstate(all="ignore"):
        quotient = from_bits([total], "f8")[0] / np.float64(len(bits))
    return form.rounded(FLOAT64.value(bits_of(quotient.reshape(1))[0])) | (form.sign if np.signbit(quotient) else 0)


def ordered(bits, form):
    """A key that sorts as amax and amin compare: -0 before +0."""
    return -(bits - form.sign) - 1 if bits & form.sign else bits


def extreme(bits, form, pick):
    if any(math.isnan(form.value(one)) for one in bits):
        return form.nan
    return pick(bits, key=lambda one: ordered(one, form))


def product(old, updates):
    """Chunks of 256, each a left fold from 1, in float64 or complex128."""
    wide = np.complex128 if updates.dtype.kind == "c" else np.float64
    chunks = []
    for start in range(0, len(updates), 256):
        chunk = wide(1)
        for update in updates[start:start + 256].astype(wide):
            chunk = times(chunk, update)
        chunks.append(chunk)
    factors = ([wide(old)] if old is not None else []) + chunks
    result = factors[0]
    for factor in factors[1:]:
        result = times(result, factor)
    return canonical(np.array([result]).astype(updates.dtype))


def times(a, b):
    if not isinstance(a, np.complex128):
        return a * b
    return np.complex128(complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real))


def canonical(array):
    """The same with every NaN as the positive quiet one; each part of a complex number by itself."""
    parts = array.view(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array
    form = FORMATS[parts.dtype]
    size = [form.nan if math.isnan(form.value(one)) else one for one in bits_of(parts)]
    return from_bits(size, parts.dtype).view(array.dtype)


def fold_floats(old, updates, reduce):
    """One destination, as an array of one element; `old` is None where it takes no part."""
    terms = updates if old is None else np.concatenate([np.array([old], updates.dtype), updates])
    if reduce == "mul":
        return product(old, updates)
    if updates.dtype.kind == "c":
        parts = [fold_floats(None, np.ascontiguousarray(part), reduce) for part in (terms.real, terms.imag)]
        return np.concatenate(parts).view(updates.dtype)
    form = FORMATS[terms.dtype]
    rule = {"add": exact_sum, "mean": exact_mean, "amax": lambda b, f: extreme(b, f, max),
            "amin": lambda b, f: extreme(b, f, min)}[reduce]
    return from_bits([rule(bits_of(terms), form)], terms.dtype)


def fold_integers(old, updates, reduce):
    terms = ([int(old)] if old is not None else []) + [int(update) for update in updates]
    if updates.dtype.kind == "b":
        return np.array([any(terms) if reduce in ("add", "amax") else all(terms)])
    total = {"add": sum, "mul": math.prod, "amax": max, "amin": min,
             "mean": lambda t: wrapped(sum(t), 64) // len(t)}[reduce](terms)
    width = 8 * updates.dtype.itemsize
    total = total % (1 << width) if updates.dtype.kind == "u" else wrapped(total, width)
    return np.array([total], updates.dtype)


def wrapped(value, width):
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def fold(x, places, updates, reduce, include_self=True):
    """`x` after all updates: update k goes to the flat place places[k]; order is the order of k."""
    result = np.array(x, order="C").reshape(-1)
    places, updates = np.asarray(places).ravel(), np.asarray(updates).ravel()
    if reduce == "assign":
        for place, update in zip(places, range(len(updates))):
            result[place:place + 1] = updates[update:update + 1]
        return result.reshape(x.shape)
    order = np.argsort(places, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(places[order])) + 1) if len(order) else []
    rule = fold_integers if result.dtype.kind in "biu" else fold_floats
    with np.errstate(all="ignore"):
        for group in groups:
            place = places[group[0]]
            result[place:place + 1] = rule(result[place] if include_self else None, updates[group], reduce)
    return result.reshape(x.shape)


def along_axis(shape, axis, index):
    """The flat place in `shape` of every element of an index along an axis."""
    grid = list(np.indices(index.shape, sparse=True))
    grid[axis] = np.where(index < 0, index + shape[axis], index)
    return np.ravel_multi_index(np.broadcast_arrays(*grid), shape)


def whole_rows(shape, axis, index):
    """The flat places of the slices that a 1-D index names along an axis."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return np.take(numbers, np.where(index < 0, index + shape[axis], index), axis)


def coordinates(shape, indices):
    """The flat places that the last dimension of `indices` names, whole slices where it is short."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    if indices.shape[-1] == 0:
        return np.broadcast_to(numbers, indices.shape[:-1] + numbers.shape)
    return numbers[tuple(np.moveaxis(indices, -1, 0))]

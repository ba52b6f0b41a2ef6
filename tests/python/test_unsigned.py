# SPDX-License-Identifier: Apache-2.0
"""uint16, uint32 and uint64 as element types, and reductions by bits: both beside NumPy."""

import numpy as np
import pytest

import sow

import peers

UNSIGNED = ["u2", "u4", "u8"]
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
UFUNCS = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum, "bitwise_and": np.bitwise_and,
          "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}


def draw(random, shape, dtype):
    """Every bit pattern alike, so that half of the unsigned ones lie beyond the signed type."""
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def mean_of(values, dtype):
    total = sum(int(v) for v in values)
    if np.dtype(dtype).kind == "u":
        return total % 2**64 // len(values)
    wrapped = (total + 2**63) % 2**64 - 2**63
    return wrapped // len(values)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("reduce", UFUNCS)
@pytest.mark.parametrize(("items", "places", "width"), [(40, 7, 1), (3000, 11, 3), (50_000, 40_000, 1), (20_000, 300, 1), (3000, 200, 64)])
def test_reductions_beside_numpy(dtype, reduce, items, places, width):
    random = np.random.default_rng([items, width])
    shape = (places,) if width == 1 else (places, width)
    x, src = draw(random, shape, dtype), draw(random, (items, *shape[1:]), dtype)
    index = random.integers(0, places, items)
    expected = x.copy()
    UFUNCS[reduce].at(expected, index, src)
    found = sow.index_reduce(x, 0, index, src, reduce)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, expected)
    alone = x.copy()
    for place in np.unique(index):
        alone[place] = UFUNCS[reduce].reduce(src[index == place], axis=0, dtype=dtype)
    if items <= 3000:
        np.testing.assert_array_equal(sow.index_reduce(x, 0, index, src, reduce, include_self=False), alone)
    assert sow.index_reduce_(x, 0, index, src, reduce) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_divide_with_floor(dtype):
    random = np.random.default_rng(3)
    for items, places in ((30, 4), (2000, 30), (2000, 1500)):
        src, index = draw(random, items, dtype), random.integers(0, places, items)
        found = sow.index_reduce(np.zeros(places, dtype), 0, index, src, "mean", include_self=False)
        for place in np.unique(index):
            assert int(found[place]) == mean_of(src[index == place], dtype)


def test_bits_of_bool():
    random = np.random.default_rng(4)
    x, src, index = random.random(9) < 0.5, random.random(300) < 0.9, random.integers(0, 9, 300)
    for reduce in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        expected = x.copy()
        UFUNCS[reduce].at(expected, index, src)
        np.testing.assert_array_equal(sow.scatter_reduce(x, 0, index, src, reduce), expected)


@pytest.mark.parametrize("name", ["scatter_reduce", "put_along_axis", "index_put", "scatter", "group_reduce", "segment_reduce"])
def test_bits_under_every_name(name):
    x, index, src = np.array([6, 5, 4], "u2"), np.array([0, 0, 2]), np.array([3, 10, 12], "u2")
    expected = x.copy()
    np.bitwise_xor.at(expected, index, src)
    found = {
        "scatter_reduce": lambda: sow.scatter_reduce(x, 0, index, src, "bitwise_xor"),
        "put_along_axis": lambda: sow.put_along_axis(x, index, src, 0, "bitwise_xor"),
        "index_put": lambda: sow.index_put(x, (index,), src, reduce="bitwise_xor"),
        "scatter": lambda: sow.scatter(x, 0, index, src, reduce="bitwise_xor"),
        "group_reduce": lambda: sow.group_reduce(src, index, "bitwise_xor", size=3) ^ x,
        "segment_reduce": lambda: sow.segment_reduce(src, np.array([0, 2, 2, 3]), "bitwise_xor") ^ x,
    }[name]()
    np.testing.assert_array_equal(found, expected)


def test_groups_without_elements():
    for dtype in INTEGERS:
        src, index = np.array([3], dtype), np.array([1])
        empty = {how: sow.group_reduce(src, index, how, size=2)[0] for how in ("bitwise_and", "bitwise_or", "bitwise_xor")}
        assert empty["bitwise_and"] == ~np.zeros((), dtype) and empty["bitwise_or"] == empty["bitwise_xor"] == 0
        assert sow.group_reduce(src, index, "amax", size=2)[0] == np.iinfo(dtype).min
        assert sow.group_reduce(src, index, "amin", size=2)[0] == np.iinfo(dtype).max


def test_bits_need_integers():
    with pytest.raises(TypeError, match="bitwise_or needs an integer type or bool"):
        sow.index_reduce(np.zeros(3), 0, [0], np.ones(1), "bitwise_or")
    with pytest.raises(TypeError, match="bitwise_and needs an integer type"):
        sow.group_reduce(np.zeros(3, "f4"), [0, 0, 1], "bitwise_and")
    with pytest.raises(ValueError, match="the names are sum, mean, max, min"):
        sow.send_u_recv(np.zeros((2, 2), "i4"), [0], [1], "bitwise_or")


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_elementwise_beside_numpy(dtype):
    random = np.random.default_rng(5)
    a, b = draw(random, 500, dtype), draw(random, 500, dtype)
    b[:5] = 0
    b[5:50] = a[5:50]
    x, y = sow.asarray(a), sow.asarray(b)
    for ours, theirs in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (-x, -a), (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b),
                         (~x, ~a), (x == y, a == b), (x < y, a < b), (x <= y, a <= b), (x > y, a > b), (x >= y, a >= b),
                         (sow.abs(x), a)):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal((x % y).numpy(), a % b)
    np.testing.assert_array_equal((x > 2**15).numpy(), a > 2**15)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_casts_round_once(dtype):
    a = np.array([0, 1, 3, 1000, 2049, 65503, 65504, np.iinfo(dtype).max // 2, np.iinfo(dtype).max // 2 + 1, np.iinfo(dtype).max],
                 dtype)
    x = sow.asarray(a)
    for to in ("f4", "f8", "i8", "u8", "i4", "u2", "?"):
        np.testing.assert_array_equal(x.cast(to).numpy(), a.astype(to))
    from fractions import Fraction

    for value, found in zip(a, x.cast("f2").numpy()):
        if np.isfinite(found):
            with np.errstate(over="ignore"):
                near = [found, np.nextafter(found, np.float16(np.inf)), np.nextafter(found, np.float16(-np.inf))]
            errors = [abs(Fraction(float(n)) - int(value)) for n in near if np.isfinite(n)]
            assert errors[0] == min(errors)
        else:
            assert int(value) >= 65520


def test_factories_numbers_and_text():
    top = 2**64 - 1
    x = sow.full([2], top, "uint64")
    assert x.tolist() == [top, top] and x[0].item() == top and str(x) == f"[{top} {top}]"
    assert sow.zeros([2], sow.uint16).dtype == np.uint16 and repr(sow.uint32) == "sow.uint32"
    assert sow.asarray([1, top]).dtype == sow.uint64 and sow.asarray([1, 2]).dtype == sow.int64
    assert sow.arange(3, dtype="u4").tolist() == [0, 1, 2] and sow.asarray(np.arange(3, dtype="u2")).dtype == "uint16"
    assert memoryview(sow.ones([3], "u8")).format == "Q"
    for value in (-1, 2**64, 1.5):
        with pytest.raises((TypeError, ValueError)):
            sow.full([1], value, "uint64")
    with pytest.raises(TypeError, match="out of range"):
        sow.full([1], top, "int64")
    assert np.from_dlpack(sow.full([1], top, "uint64"))[0] == top


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_indices_and_narrow_sources(dtype):
    keys = np.array([2, 0, 2], dtype)
    assert sow.index_add(np.zeros(3), 0, keys, np.ones(3)).tolist() == [1, 0, 2]
    assert sow.asarray(np.arange(3.0))[keys].tolist() == [2, 0, 2]
    assert sow.index_add(np.zeros(3), 0, sow.Index(keys, size=3), np.ones(3)).tolist() == [1, 0, 2]
    assert sow.bincount(keys).tolist() == [1, 0, 2] and sow.unique(keys).tolist() == [0, 2]
    far = np.array([np.iinfo(dtype).max], dtype)
    with pytest.raises(IndexError):
        sow.index_add(np.zeros(3), 0, far, np.ones(1))
    assert sow.index_add(np.zeros(3), 0, far, np.ones(1), bounds="drop").tolist() == [0, 0, 0]
    assert sow.index_add(np.zeros(3), 0, far, np.ones(1), bounds="clip").tolist() == [0, 0, 1]
    wide = np.full(1, np.iinfo(dtype).max, "u8")
    assert int(sow.index_add(np.zeros(1, "u8"), 0, [0, 0], np.full(2, np.iinfo(dtype).max, dtype))[0]) == int(wide[0]) * 2 % 2**64


def test_programs_run_and_are_saved(tmp_path):
    for dtype in UNSIGNED:
        program = sow.Program()
        x, src = program.input("x", [4], dtype), program.input("src", [3], dtype)
        y = sow.index_reduce(x, 0, [1, 1, 3], src, "amax")
        z = sow.index_reduce(y + int(np.iinfo(dtype).max), 0, [0, 1, 2], src, "bitwise_xor")
        feeds = {"x": draw(np.random.default_rng(1), 4, dtype), "src": draw(np.random.default_rng(2), 3, dtype)}
        expected = feeds["x"].copy()
        np.maximum.at(expected, [1, 1, 3], feeds["src"])
        expected += np.iinfo(dtype).max
        np.bitwise_xor.at(expected, [0, 1, 2], feeds["src"])
        program.output("z", z)
        program.save(str(tmp_path / "p"))
        for one in (program, sow.Program.load(str(tmp_path / "p"))):
            np.testing.assert_array_equal(np.asarray(one.compile().run(feeds)["z"]), expected)


def test_unique_beside_numpy():
    random = np.random.default_rng(6)
    for dtype in INTEGERS:
        for keys in (draw(random, 3000, dtype), draw(random, 3000, dtype) % 7, draw(random, (400, 3), dtype) % 3, np.zeros(0, dtype)):
            axis = 0 if keys.ndim == 2 else None
            for ours, theirs in zip(sow.unique(keys, return_inverse=True, return_counts=True),
                                    np.unique(keys, return_inverse=True, return_counts=True, axis=axis)):
                np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))


@pytest.mark.skipif(not peers.torch, reason="torch is not here")
def test_tensors_of_torch():
    torch = peers.torch
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        x, src = torch.tensor([1, 2**15, 3], dtype=dtype), torch.tensor([2**15 + 1, 9], dtype=dtype)
        found = sow.scatter_reduce(x, 0, torch.tensor([0, 2]), src, "amax")
        assert found.dtype == dtype and found.tolist() == [2**15 + 1, 2**15, 9]
        assert sow.index_add(x, 0, torch.tensor([0, 0]), src).tolist()[0] == (1 + 2**15 + 1 + 9)


@pytest.mark.skipif(not peers.jax, reason="jax is not here")
def test_inside_of_jax():
    jax = peers.jax
    x, src = jax.numpy.array([1, 2**15, 3], "uint16"), jax.numpy.array([2**15 + 1, 9], "uint16")
    for reduce in ("amax", "add", "bitwise_xor"):
        found = jax.jit(lambda x, src, reduce=reduce: sow.index_reduce(x, 0, np.array([0, 2]), src, reduce))(x, src)
        expected = np.array(x)
        UFUNCS[reduce].at(expected, [0, 2], np.array(src))
        assert found.dtype == "uint16" and np.asarray(found).tolist() == expected.tolist()

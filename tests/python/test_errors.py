# SPDX-License-Identifier: Apache-2.0
"""Wrong calls end in the documented exception, with a message that names the operation, and write nothing."""

import numpy as np
import pytest

import sow

F4 = np.arange(6, dtype="f4").reshape(2, 3)


def x():
    return F4.copy()


SHAPE = ValueError
CASES = [
    # (exception, words of the message, operation, arguments after the destination, keywords)
    (IndexError, "index 7 at position [1, 0] is out of range for axis 1 of size 3 (valid: -3 to 2)",
     "put_along_axis", ([[0], [7]], 1.0, 1), {}),
    (IndexError, "-4", "scatter", (1, [[-4]], 1.0), {}),
    (IndexError, "5", "index_add", (0, [0, 5], np.ones((2, 3), "f4")), {}),
    (IndexError, "9", "index_put", (([0], [9]), 1.0), {}),
    (IndexError, "3", "tensor_scatter_nd_add", ([[0, 3]], np.ones(1, "f4")), {}),
    (SHAPE, "mask", "masked_scatter", (np.ones(4, bool), np.ones(9, "f4")), {}),
    (SHAPE, "", "masked_scatter", (np.ones((2, 3), bool), np.ones(5, "f4")), {}),
    (SHAPE, "", "scatter_add", (0, [[0, 1]], np.ones((1, 1), "f4")), {}),
    (SHAPE, "", "scatter_add", (0, [0], np.ones(1, "f4")), {}),
    (SHAPE, "", "diagonal_scatter", (np.ones(3, "f4"),), {}),
    (SHAPE, "", "diagonal_scatter", (np.ones(2, "f4"), 0, 1, 1), {}),
    (SHAPE, "", "index_copy", (0, [[0, 1]], np.ones((1, 3), "f4")), {}),
    (SHAPE, "", "select_scatter", (np.ones(2, "f4"), 0, 0), {}),
    (SHAPE, "", "slice_scatter", (np.ones((2, 2), "f4"), 1, 0, 1), {}),
    (ValueError, "axis", "put_along_axis", ([[0]], 1.0, 2), {}),
    (ValueError, "axis", "index_add", (-3, [0], np.ones((1, 3), "f4")), {}),
    (ValueError, "assign", "put_along_axis", ([[0]], 1.0, 0, "average"), {}),
    (ValueError, "drop", "scatter", (0, [[0]], 1.0), {"bounds": "wrap"}),
    (TypeError, "float64", "scatter_add", (0, [[0]], np.ones((1, 1))), {}),
    (TypeError, "", "scatter_add", (0, [[0.0]], np.ones((1, 1), "f4")), {}),
    (TypeError, "", "scatter_add", (0, np.zeros((1, 1), "c8"), np.ones((1, 1), "f4")), {}),
    (TypeError, "mask", "masked_fill", ([[1, 0, 1]], 1.0), {}),
    (TypeError, "", "masked_fill", ([[True, False, True]], 1e300), {}),
    (TypeError, "", "masked_fill", ([[True, False, True]], 1j), {}),
    (TypeError, "index", "scatter", (0, "zero", 1.0), {}),
    (TypeError, "index", "scatter", (0, None, 1.0), {}),
    (TypeError, "src", "scatter", (0, [[0]], object()), {}),
    (TypeError, "reduce", "scatter", (0, [[0]], 1.0), {"reduce": 3}),
    (TypeError, "bounds", "scatter", (0, [[0]], 1.0), {"bounds": None}),
    (TypeError, "name", "put_along_axis", ([[0]], 1.0, 1), {"name": 3}),
    (TypeError, "name", "masked_scatter", (np.ones((2, 3), bool), np.ones(6, "f4")), {"name": 3}),
    (TypeError, "name", "diagonal_scatter", (np.ones(2, "f4"),), {"name": b"x"}),
    (TypeError, "", "scatter", ("0", [[0]], 1.0), {}),
    (TypeError, "", "scatter", (0, [[0]]), {}),
    (TypeError, "", "scatter", (0, [[0]], 1.0), {"colour": "red"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]}-{case[0].__name__}")
@pytest.mark.parametrize("suffix", ["", "_"])
def test_documented_error_and_nothing_written(case, suffix):
    error, words, name, arguments, keywords = case
    destination = x()
    with pytest.raises(error) as caught:
        getattr(sow, name + suffix)(destination, *arguments, **keywords)
    assert type(caught.value) is error and words in str(caught.value)
    assert str(caught.value).startswith(name) or "incompatible function arguments" in str(caught.value)
    np.testing.assert_array_equal(destination, F4)


def test_types_without_an_order_or_a_mean():
    z = np.zeros(2, "c8")
    with pytest.raises(TypeError):
        sow.scatter_reduce(z, 0, [0], z[:1], "amax")
    with pytest.raises(TypeError):
        sow.scatter_reduce(np.zeros(2, bool), 0, [0], np.ones(1, bool), "mean")
    with pytest.raises(TypeError):
        sow.tensor_scatter_nd_sub(np.zeros(2, bool), [[0]], np.ones(1, bool))


@pytest.mark.parametrize("axis", [-10**30, 10**30, -2**63 - 1, 2**63])
def test_an_axis_beyond_64_bits(axis):
    """It is converted once: nothing is left behind that a later step would trip over."""
    x = np.zeros((2, 2), "i4")
    for keywords, error, sentence in (({}, ValueError, "axis does not fit 64 bits"), ({"stream": x}, TypeError, "stream is")):
        with pytest.raises(error, match=f"take_along_axis: {sentence}"):
            sow.take_along_axis(x, 4, axis, **keywords)


def test_empty_axis():
    nothing = np.zeros((0, 3), "f4")
    with pytest.raises(IndexError, match="valid: none"):
        sow.index_add(nothing, 0, [0], np.ones((1, 3), "f4"))
    assert sow.index_add(nothing, 0, [0], np.ones((1, 3), "f4"), bounds="drop").shape == (0, 3)
    with pytest.raises(IndexError):
        sow.index_add(nothing, 0, [0], np.ones((1, 3), "f4"), bounds="clip")


def test_bounds():
    source = np.ones(3, "f4")
    assert sow.scatter_add(np.zeros(2, "f4"), 0, [5, 0, -3], source, bounds="drop").tolist() == [1, 0]
    assert sow.scatter_add(np.zeros(2, "f4"), 0, [5, 0, -3], source, bounds="clip").tolist() == [2, 1]
    assert sow.gather(np.array([3, 4]), 0, [5, 1], bounds="drop").tolist() == [0, 4]
    assert sow.scatter_add(np.zeros(2, "f4"), 0, [-1, 0, 1], source, bounds="promise").tolist() == [1, 2]


def test_explain_checks_as_the_call_would():
    with pytest.raises(ValueError, match="no operation"):
        sow.explain("print", 1)
    with pytest.raises(TypeError):
        sow.explain(3)
    with pytest.raises(TypeError):
        sow.explain(sow.scatter_add, np.zeros(3), 0, [0], np.ones(1, "i8"))
    with pytest.raises(TypeError):
        sow.explain("scatter_add", np.zeros(3), 0, [0], np.ones(1, "i8"))
    destination = np.zeros(3)
    assert "scatter_add_" in sow.explain("scatter_add_", destination, 0, [0], np.ones(1))
    assert destination.tolist() == [0, 0, 0]
    by_name = sow.explain("scatter_add_", destination, 0, [0], np.ones(1))
    assert sow.explain(sow.scatter_add_, destination, 0, [0], np.ones(1)) == by_name
    both = sow.explain(lambda x: sow.sum(sow.scatter_add(x, 0, [0], np.ones(1))), destination)
    assert "scatter_add" in both and "sum" in both and destination.tolist() == [0, 0, 0]
    assert sow.explain(len, [1]) == "no operation of sow was run"


def test_threads_setting():
    before = sow.get_num_threads()
    for bad in (0, -1, 10**9):
        with pytest.raises(ValueError):
            sow.set_num_threads(bad)
        with pytest.raises(ValueError):
            sow.thread_limit(bad)
    with pytest.raises(TypeError):
        sow.set_num_threads("two")
    with pytest.raises(TypeError):
        sow.thread_limit(1.5)
    assert sow.get_num_threads() == before


def test_too_large():
    with pytest.raises((ValueError, MemoryError)):
        sow.zeros([2**40, 2**40])
    with pytest.raises(MemoryError):
        sow.zeros([2**50])


def test_streams_are_for_cuda_arrays():
    given = x()
    calls = [("index_add_", (0, [0], np.ones((1, 3), "f4"))), ("masked_fill", (np.ones((2, 3), bool), 0.0)), ("gather", (0, [[0]])),
             ("add", (1.0,))]
    for op, arguments in calls:
        with pytest.raises(ValueError, match=f"{op}: stream is for arrays on a CUDA device"):
            getattr(sow, op)(given, *arguments, stream=0)
        with pytest.raises(TypeError, match=f"{op}: stream is 'fast'; it must be a CUDA stream"):
            getattr(sow, op)(given, *arguments, stream="fast")
        with pytest.raises(ValueError, match=op):
            getattr(sow.tensor(given), op)(*arguments, stream=5)
        getattr(sow, op)(x(), *arguments, stream=None)
    with pytest.raises(ValueError, match="scatter_nd"):
        sow.scatter_nd([[0]], np.ones(1, "f4"), [2], stream=0)
    with pytest.raises(TypeError):
        sow.transpose(given, 0, 1, stream=0)  # a view runs nowhere
    assert (given == F4).all()


def test_vjp_of_what_is_no_operation():
    with pytest.raises(TypeError, match="vjp: the function returned int"):
        sow.vjp(len, x())


def test_words_with_lone_surrogates_are_refused():
    x = np.zeros((2, 2), "f4")
    for call in (lambda: sow.put_along_axis_(x, [[0]], 1.0, 0, name="a\ud800"),
                 lambda: sow.put_along_axis_(x, [[0]], 1.0, 0, reduce="add\ud800"),
                 lambda: sow.scatter_(x, 0, [[0]], 1.0, bounds="drop\ud800")):
        with pytest.raises(ValueError, match="holds surrogates, which are no text"):
            call()
    assert not x.any()


def test_a_wrong_axis_is_called_an_axis():
    for axis in (1.0, "x", (0, 1.0)):
        with pytest.raises(TypeError, match="sum: axis is a"):
            sow.sum(F4, axis)

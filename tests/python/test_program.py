# SPDX-License-Identifier: Apache-2.0
"""Programs and traced functions give eager's bits, for arrays of every kind."""

import pickle
import threading

import numpy as np
import pytest

import sow

from kinds import KINDS


def training_program():
    """The seeds' static example: unknown extents, a linear layer, masked_scatter, mean, one SGD step."""
    program = sow.Program()
    x = program.input("x", ["batch", 4])
    mask = program.input("mask", ["batch", 3], "bool")
    value = program.input("value", [None])
    weight = program.input("weight", [4, 3])
    hidden = (x.reshape([-1, 4, 1]) * weight).sum(1)
    loss = ((sow.masked_scatter(hidden, mask, value, name="merged") - 1) ** 2).mean()
    (slope,) = program.gradients(loss, weight)
    program.output("loss", loss)
    program.output("weight", weight - slope * 0.2)
    return program


def batch(rows, seed=0):
    generator = np.random.default_rng(seed)
    return {"x": generator.standard_normal((rows, 4)).astype("f4"),
            "mask": generator.random((rows, 3)) < 0.3,
            "value": generator.standard_normal(rows * 3).astype("f4"),
            "weight": generator.standard_normal((4, 3)).astype("f4")}


def test_loss_falls_over_steps():
    compiled = training_program().compile()
    for rows in (6, 1, 50):
        feeds, losses = batch(rows), []
        for _ in range(5):
            out = compiled.run(feeds)
            losses.append(float(out["loss"]))
            feeds["weight"] = out["weight"]
        assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_same_line_same_bits():
    def line(x, mask, v):
        return sow.masked_scatter(x, mask, v)

    program = sow.Program()
    symbols = (program.input("x", ["n"]), program.input("mask", ["n"], "bool"), program.input("v", ["m"]))
    program.output("y", line(*symbols))
    arrays = (np.arange(6, dtype="f4"), np.array([1, 0, 1, 0, 0, 1], bool), np.array([7, 8, 9], "f4"))
    (y,) = program.compile()(*arrays)
    assert y.tobytes() == line(*arrays).tobytes()


def test_symbolic_tensors():
    program = sow.Program()
    x = program.input("x", ["n", None, 3], "float64")
    assert x.shape == (-1, -1, 3) and x.dtype == sow.float64 and "symbolic" in repr(x)
    with pytest.raises(ValueError, match="symbolic"):
        x.numpy()
    with pytest.raises(ValueError, match="out of range for 3 dimensions"):
        x.sum(3)
    mixed = sow.scatter_add(np.zeros(4, "f4"), 0, program.input("i", [2], "int64"), np.ones(2, "f4"))
    assert isinstance(mixed, sow.Tensor) and mixed.shape == (4,)


def test_errors_at_run_time_are_eagers():
    program = sow.Program()
    x, index = program.input("x", ["n"]), program.input("index", ["m"], "int64")
    program.output("y", sow.index_fill(x, 0, index, 1.0))
    compiled = program.compile()
    arrays = np.zeros(3, "f4"), np.array([0, 3])
    with pytest.raises(IndexError) as eager:
        sow.index_fill(arrays[0], 0, arrays[1], 1.0)
    with pytest.raises(IndexError) as static:
        compiled(*arrays)
    assert str(static.value) == str(eager.value)
    with pytest.raises(TypeError, match='input "x" is float64, but was declared float32'):
        compiled(np.zeros(3), np.array([0]))
    with pytest.raises(ValueError, match='no input "z"'):
        compiled.run({"z": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_kind(kind):
    program, device = sow.Program(), "cpu" if kind.on_host else "cuda"
    x, index = program.input("x", [4], device=device), program.input("index", [3], "int32", device)
    program.output("y", sow.scatter_add(x, 0, index, program.constant(kind.make(np.ones(3, "f4")))))
    result = program.compile()(kind.make(np.zeros(4, "f4")), kind.make(np.array([0, 3, 0], "i4")))[0]
    assert isinstance(result, kind.type)
    assert kind.read(result).tolist() == [2, 0, 0, 1]


def test_outputs_and_donated_inputs():
    program = training_program()
    expected = program.compile().run(batch(6))
    feeds = batch(6)
    weight = feeds["weight"]
    donating = program.compile(donate=["weight"])
    out = donating.run(feeds, {"weight": weight})
    assert out["weight"] is weight
    assert weight.tobytes() == expected["weight"].tobytes()
    weight.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        donating.run(batch(6) | {"weight": weight})


def test_text_and_files(tmp_path):
    program = training_program()
    assert "merged = masked_scatter" in str(program)
    assert program.to_dot().startswith("digraph")
    assert program.inputs == ["x", "mask", "value", "weight"] and program.outputs == ["loss", "weight"]
    text = program.compile().explain((6, 4), (6, 3), (18,), (4, 3))
    assert "masked_scatter" in text and "bytes moved" in text
    path = tmp_path / "step.sow"
    program.save(str(path))
    for copy in (sow.Program.load(str(path)), pickle.loads(pickle.dumps(program))):
        assert copy.serialize() == program.serialize()
        assert float(copy.compile().run(batch(5))["loss"]) == float(program.compile().run(batch(5))["loss"])
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        sow.Program.deserialize(bytes(damaged))


def test_three_scatters_make_one_copy():
    program = sow.Program()
    x, index, src = program.input("x", [100]), program.input("i", [9], "int64"), program.input("s", [9])
    y = sow.scatter(sow.scatter_add(x, 0, index, src), 0, index, 2.0)
    program.output("y", sow.scatter_reduce(y, 0, index, src, "amax"))
    assert program.compile().stats()["copies"] == 1
    assert program.compile(optimize=False).stats()["copies"] == 3


def test_many_threads():
    compiled, wrong = training_program().compile(), []

    def work(seed):
        for rows in (5, 400, 2000):
            feeds = batch(rows, seed)
            if compiled.run(feeds)["loss"].tobytes() != training_program().compile().run(feeds)["loss"].tobytes():
                wrong.append((seed, rows))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def chain(x, index, src, scale):
    y = sow.scatter_add(x, 0, index, src)
    y = sow.masked_fill(y, sow.gt(y, scale), scale)
    return sow.index_fill(y, 0, index, -1.0)


def test_jit_gives_eagers_bits():
    traced = sow.jit(chain)
    generator = np.random.default_rng(1)
    for n in (10, 1000, 10):
        arrays = (generator.standard_normal(n).astype("f4"), generator.integers(0, n, 20),
                  generator.standard_normal(20).astype("f4"))
        assert traced(*arrays, 0.5).tobytes() == chain(*arrays, 0.5).tobytes()
        assert traced(*arrays, scale=0.5).tobytes() == chain(*arrays, 0.5).tobytes()
    assert traced.traces == 4  # two lengths, two ways to pass the scale
    assert traced.__name__ == "chain"
    assert "steps" in traced.explain(*arrays, 0.5) and "scatter_add" in str(traced.program(*arrays, 0.5))


def test_jit_signatures():
    calls = []

    @sow.jit(dynamic=True)
    def double(x, times=2):
        calls.append(x.shape)
        return {"twice": x * times, "same": x}

    assert double(np.ones(3, "f4"))["twice"].tolist() == [2, 2, 2]
    assert double(np.ones(5, "f4"))["same"].tolist() == [1] * 5
    assert calls == [(-1,)]
    double(np.ones(3, "f4"), 3)  # another value
    double(np.ones(3, "f4"), 3.0)  # another type of it
    double(np.ones(3, "f8"))  # another type
    double(np.ones((3, 1), "f4"))  # another rank
    assert len(calls) == 5


def test_jit_inside_jit_and_structures():
    @sow.jit
    def inner(x):
        return x + 1, [x][0] * 2

    @sow.jit
    def outer(x):
        a, b = inner(x)
        return [a, b, x]

    assert [r.tolist() for r in outer(np.array([1.0, 2.0]))] == [[2, 3], [2, 4], [1, 2]]
    assert isinstance(inner(np.zeros(2)), tuple)
    assert inner.traces == 1


@pytest.mark.parametrize("kind", KINDS)
def test_jit_takes_every_kind(kind):
    mask = kind.make(np.array([True, False]))
    result = sow.jit(lambda x: sow.masked_fill(x, mask, 5.0))(kind.make(np.zeros(2, "f4")))
    assert isinstance(result, kind.type) and kind.read(result).tolist() == [5, 0]


def test_operators():
    a = sow.tensor([1.0, 2.0, 4.0])
    assert (a + 1).tolist() == [2, 3, 5] and (1 - a).tolist() == [0, -1, -3]
    assert (a * a).tolist() == [1, 4, 16] and (8 / a).tolist() == [8, 4, 2] and (-a).tolist() == [-1, -2, -4]
    assert (a ** 2).tolist() == [1, 4, 16] and (a > 1).tolist() == [False, True, True]
    with pytest.raises(TypeError):
        a + "text"
    with pytest.raises(TypeError, match="they must have the same type"):
        a + np.ones(3)


def small_program():
    program = sow.Program()
    program.output("y", program.input("x", [3]) + 1)
    return program


def test_paths_of_files(tmp_path):
    program = small_program()
    program.save(tmp_path / "a.sow")
    program.save(str(tmp_path / "b.sow"))
    program.save(bytes(tmp_path / "c\udc80.sow"))
    assert sow.Program.load(tmp_path / "a.sow").serialize() == program.serialize()
    assert sow.Program.load(str(tmp_path / "c\udc80.sow")).serialize() == program.serialize()
    for path in (str(tmp_path / "a\0b"), b"a\0b"):
        with pytest.raises(ValueError, match="null byte"):
            program.save(path)
        with pytest.raises(ValueError, match="null byte"):
            sow.Program.load(path)
    with pytest.raises(TypeError):
        program.save(3)
    with pytest.raises(ValueError, match="not a program of sow"):
        sow.Program.load("/dev/zero")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sow", "b.sow", "c\udc80.sow"]


def test_names_in_run_are_str():
    compiled = small_program().compile()
    x = np.ones(3, "f4")
    with pytest.raises(TypeError, match="run: a key of feeds is an int"):
        compiled.run({1: x})
    with pytest.raises(TypeError, match="run: a key of outputs is a bytes"):
        compiled.run({"x": x}, {b"y": x})
    with pytest.raises(TypeError, match="run: outputs is a list"):
        compiled.run({"x": x}, [x])
    with pytest.raises(ValueError, match="surrogates"):
        compiled.run({"\udc80": x})

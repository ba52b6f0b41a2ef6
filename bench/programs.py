# SPDX-License-Identifier: Apache-2.0
"""Programs against eager calls: a short chain on few elements, and passes over many.

python bench/programs.py
"""

import time

import numpy as np

import sow


def best(function, *arrays, repeat=7, count=1):
    """Microseconds of one call, the best of several rounds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(count):
            function(*arrays)
        times.append((time.perf_counter() - start) / count)
    return min(times) * 1e6


def five_calls(x, index, source, mask, value):
    x = sow.masked_scatter(x, mask, value)
    x = sow.slice_scatter(x, source[::2], 0, 0, None, 2)
    x = sow.index_fill(x, 0, index[:100], 1.0)
    x = sow.masked_fill(x, mask, 0.5)
    return sow.sub(x, 1.0)


def five_scatters(x, index, source, mask, value):
    x = sow.scatter_add(x, 0, index, source)
    x = sow.put_along_axis(x, index, source, 0, "amax")
    x = sow.scatter(x, 0, index, source)
    x = sow.index_add(x, 0, index, source)
    return sow.index_copy(x, 0, index, source)


def five_that_count(x, index, source, mask, value):
    """No scatter hides another: the kernels are most of the time."""
    x = sow.scatter(x, 0, index, source)
    x = sow.scatter_add(x, 0, index, source)
    x = sow.put_along_axis(x, index, source, 0, "amax")
    x = sow.index_add(x, 0, index, source)
    return sow.mul(x, 0.5)


def three_scatters(x, index, source, mask, value):
    x = sow.scatter(x, 0, index, 2.5)
    x = sow.scatter_add(x, 0, index, source)
    return sow.scatter_reduce(x, 0, index, source, "amax")


def three_masks(x, index, source, mask, value):
    x = sow.masked_fill(x, mask, 0.0)
    x = sow.masked_scatter(x, mask, value)
    return sow.masked_fill(x, mask, 1.0)


def arrays(size, generator):
    return (generator.standard_normal(size).astype("f4"), generator.integers(0, size, size),
            generator.standard_normal(size).astype("f4"), generator.random(size) < 0.5,
            generator.standard_normal(size).astype("f4"))


def main():
    generator = np.random.default_rng(0)
    print(f"{'':32} {'eager':>12} {'program':>12}   microseconds")
    for function, size in ((five_calls, 1000), (five_scatters, 1000), (five_that_count, 1000), (three_masks, 1 << 22), (three_scatters, 1 << 22)):
        data, count = arrays(size, generator), 1000 if size <= 1000 else 1
        show(f"{function.__name__} of {size}", *against(function, *data, count=count))
    rows, edges = generator.standard_normal((50_000, 64)).astype("f4"), generator.integers(0, 50_000, (2, 400_000))
    show("messages of 400000 edges x 64", *against(messages, rows, *edges))
    step(rows, edges[0], generator.standard_normal((400_000, 64)).astype("f4"))


def messages(h, start, end):
    """Rows gathered along edges and summed where they end."""
    return sow.index_add(h, 0, end, sow.index_select(h, 0, start))


def against(function, *data, count=1):
    traced = sow.jit(function)
    assert traced(*data).tobytes() == function(*data).tobytes()
    return best(function, *data, count=count), best(traced, *data, count=count)


def step(x, index, source):
    """Forward and backward of a reduction of rows."""
    for reduce in ("mean", "amax", "mul"):
        program = sow.Program()
        a, i = program.input("x", x.shape), program.input("index", index.shape, "int64")
        b, g = program.input("source", source.shape), program.input("g", x.shape)
        y = sow.index_reduce(a, 0, i, b, reduce)
        program.output("y", y)
        program.output("slope", program.gradients([y], [b], [g])[0])
        compiled, leaf = program.compile(), sow.asarray(source).requires_grad_()

        def eager(x, index, leaf, reduce=reduce):
            leaf.grad = None
            sow.index_reduce(x, 0, index, leaf, reduce).backward(x)

        tensor = sow.asarray(x)
        show(f"{reduce} of 400000 rows and gradient", best(eager, tensor, index, leaf),
             best(compiled.run, {"x": x, "index": index, "source": source, "g": x}))


def show(what, eager, program):
    print(f"{what:32} {eager:12.1f} {program:12.1f}")


if __name__ == "__main__":
    main()

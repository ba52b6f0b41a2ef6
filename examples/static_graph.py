# SPDX-License-Identifier: Apache-2.0
"""A static graph: a training step is built once, compiled once and run for batches of any size."""

import numpy as np

import sow


def merged(x, weight, mask, value):
    """The same lines run eagerly and in the program."""
    y = (sow.reshape(x, [-1, 4, 1]) * weight).sum(1)  # a linear layer: x @ weight
    return sow.masked_scatter(y, mask, value)


program = sow.Program()
x = program.input("x", ["batch", 4])
mask = program.input("mask", ["batch", 3], "bool")
value = program.input("value", [None])
weight = program.input("weight", [4, 3])
loss = ((merged(x, weight, mask, value) - 1) ** 2).mean()
(slope,) = program.gradients(loss, weight)
program.output("loss", loss)
program.output("weight", weight - slope * 0.2)
print(program)

step = program.compile(donate=["weight"])
generator = np.random.default_rng(0)
weights = generator.standard_normal((4, 3)).astype("f4")
for rows in (6, 10):
    feeds = {"x": generator.standard_normal((rows, 4)).astype("f4"), "mask": generator.random((rows, 3)) < 0.3,
             "value": np.linspace(-1, 1, 3 * rows, dtype="f4"), "weight": weights}
    losses = []
    for _ in range(5):
        losses.append(float(step.run(feeds, {"weight": weights})["loss"]))
    print(f"batch of {rows}:", ", ".join(f"{value:.4f}" for value in losses))
    assert losses == sorted(losses, reverse=True)


# Without names: the function is recorded at its first call, and run as a program from then on.
@sow.jit
def clamp_hits(counts, index):
    counts = sow.scatter(counts, 0, index, 1, reduce="add")
    return sow.masked_fill(counts, counts > 3, 3)


print(clamp_hits(np.zeros(4, "i8"), np.array([0, 2, 2, 2, 2, 2])))

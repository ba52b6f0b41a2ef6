# SPDX-License-Identifier: Apache-2.0
"""A graph network trained in JAX with sow inside: messages along edges are gathered, weighted and summed exactly,
under jit and grad, so that two trainings end with the same bits."""

import jax
import jax.numpy as jnp
import numpy as np

import sow

NODES, FEATURES, CLASSES = 60, 8, 3


def graph(seed=0):
    """Nodes of three kinds whose edges mostly stay within their kind, and noisy features."""
    draw = np.random.default_rng(seed)
    kind = np.arange(NODES) % CLASSES
    source = draw.integers(0, NODES, 600)
    target = np.where(draw.random(600) < 0.8, (source + CLASSES * draw.integers(0, 20, 600)) % NODES,
                      draw.integers(0, NODES, 600))
    x = np.eye(FEATURES, dtype="f4")[kind] + draw.standard_normal((NODES, FEATURES)).astype("f4")
    return jnp.asarray(x), jnp.asarray(source.astype("i4")), jnp.asarray(target.astype("i4")), jnp.asarray(kind)


def network(weights, x, source, target):
    for i, weight in enumerate(weights):
        messages = sow.index_select(x @ weight, 0, source)
        empty = jnp.zeros((NODES, weight.shape[1]), weight.dtype)
        x = sow.index_reduce(empty, 0, target, messages, "mean", include_self=False)
        x = jnp.tanh(x) if i + 1 < len(weights) else x
    return x


def loss(weights, x, source, target, kind):
    logits = jax.nn.log_softmax(network(weights, x, source, target))
    return -jnp.take_along_axis(logits, kind[:, None], 1).mean()


@jax.jit
def step(weights, *data):
    value, gradients = jax.value_and_grad(loss)(weights, *data)
    return [w - 0.5 * g for w, g in zip(weights, gradients)], value


def train(steps=60):
    draw = np.random.default_rng(1)
    weights = [jnp.asarray(draw.standard_normal(shape).astype("f4") / 3) for shape in
               ((FEATURES, 16), (16, CLASSES))]
    data, losses = graph(), []
    for _ in range(steps):
        weights, value = step(weights, *data)
        losses.append(float(value))
    right = (network(weights, *data[:3]).argmax(1) == data[3]).mean()
    return weights, losses, float(right)


def main():
    weights, losses, right = train()
    print(f"a graph network in JAX: the loss falls from {losses[0]:.3f} to {losses[-1]:.3f}, {right:.0%} right")
    assert losses[-1] < 0.7 * losses[0]
    again, _, _ = train()
    assert all(np.array_equal(a, b) for a, b in zip(weights, again))
    print("a second training: the same bits")


if __name__ == "__main__":
    main()

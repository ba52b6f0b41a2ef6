# SPDX-License-Identifier: Apache-2.0
"""A training step: a linear layer, masked_scatter into its output, a loss, gradients, an update."""

import numpy as np

import sow


def linear(x, weight, bias):
    """A broadcast product and an exact sum."""
    return (x.reshape([*x.shape, 1]) * weight).sum(1) + bias


def main():
    random = np.random.default_rng(0)
    x = sow.tensor(random.normal(size=(3, 4)).astype("f4"))
    mask = np.array([True, False, True, False])
    weight = sow.tensor(random.normal(size=(4, 4)).astype("f4")).requires_grad_()
    bias = sow.zeros([4]).requires_grad_()
    value = sow.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).requires_grad_()
    leaves = [weight, bias, value]

    def loss_of(scatter):
        return sow.pow(scatter(linear(x, weight, bias), mask, value) - 1, 2).mean()

    # Out of place and in place give the same gradients: in place, the handle moves on in the graph.
    loss = loss_of(sow.masked_scatter)
    loss.backward()
    again = sow.grad(loss_of(sow.masked_scatter_), leaves)
    for leaf, gradient in zip(leaves, again):
        assert leaf.grad.tolist() == gradient.tolist()
    print(f"loss {loss.item():.4f}")
    print("gradient of the weight\n", weight.grad, sep="")
    print("gradient of the value: the seventh was not used\n", value.grad, sep="")
    np.testing.assert_allclose(value.grad, [2 * i / 12 for i in range(6)] + [0], rtol=1e-6)
    assert bias.grad.tolist()[0] == bias.grad.tolist()[2] == 0, "columns under the mask"

    # Leaves change in place only where nothing is recorded.
    with sow.no_grad():
        for leaf in leaves:
            leaf.copy_(leaf - leaf.grad * 0.1)
    after = loss_of(sow.masked_scatter).item()
    print(f"loss after one step {after:.4f}")
    assert after < loss.item()


if __name__ == "__main__":
    main()

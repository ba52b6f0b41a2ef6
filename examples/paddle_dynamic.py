# SPDX-License-Identifier: Apache-2.0
"""Paddle's dynamic graphs with sow inside: a layer whose output takes masked values, trained in place and out
of place, reductions along an axis with gradients, scalars into indexed places, and a diagonal."""

import numpy as np
import paddle

import sow

MASK = paddle.to_tensor([1.0, 0.5, 1.0, 0.5]) > 0.6  # broadcasts to the rows
VALUE = paddle.to_tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])


class Net(paddle.nn.Layer):
    def __init__(self, in_place):
        super().__init__()
        self.linear = paddle.nn.Linear(4, 4)
        self.scatter = sow.masked_scatter_ if in_place else sow.masked_scatter

    def forward(self, x):
        return self.scatter(self.linear(x), MASK, VALUE)


def train(in_place):
    """The loss before and after some steps, and the gradient of the weights of the first."""
    paddle.seed(0)
    net, x = Net(in_place), paddle.to_tensor(np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4))
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    losses, first = [], None
    for _ in range(20):
        result = net(x)
        loss = paddle.mean(paddle.pow(result - paddle.ones_like(result), 2))
        loss.backward()
        first = net.linear.weight.grad.numpy() if first is None else first
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, first


def reductions():
    """put_along_axis with every reduction: results, and the gradients of the destination and the values."""
    index = paddle.to_tensor([[0, 0, 2], [1, 1, -1]])
    out = {}
    for reduce in ("assign", "add", "mul", "amax", "amin", "mean"):
        arr = paddle.to_tensor([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]], stop_gradient=False)
        values = paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], stop_gradient=False)
        result = sow.put_along_axis(arr, index, values, 1, reduce)
        result.sum().backward()
        out[reduce] = result.numpy(), arr.grad.numpy(), values.grad.numpy()
    return out


def main():
    (losses, gradient), (again, same) = train(in_place=False), train(in_place=True)
    print(f"masked_scatter in a layer: the loss falls from {losses[0]:.4f} to {losses[-1]:.4f}")
    assert losses[-1] < losses[0]
    assert losses == again and np.array_equal(gradient, same)  # in place and out of place alike
    assert np.all(gradient[:, [0, 2]] == 0)  # what was overwritten takes no gradient

    for reduce, (result, of_arr, of_values) in reductions().items():
        print(f"put_along_axis, {reduce}: {result.tolist()}, gradients {of_arr.tolist()} and {of_values.tolist()}")

    x = paddle.zeros([3, 5])
    sow.scatter_(x, 0, paddle.to_tensor([[1, 2], [0, 1]]), 2.0)
    print("scatter_ of a scalar:", x.tolist())
    square = sow.diagonal_scatter(paddle.zeros([3, 3]), paddle.ones([2]), 1)
    print("diagonal_scatter:", square.tolist())


if __name__ == "__main__":
    main()

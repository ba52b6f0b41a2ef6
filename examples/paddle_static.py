# SPDX-License-Identifier: Apache-2.0
"""Paddle's static programs with sow inside: a layer trained through masked_scatter with unknown extents, and
reductions along an axis. sow.paddle.build() compiles an operator for this Paddle the first time."""

import numpy as np
import paddle

import sow
import sow.paddle


def train(steps=20):
    """The losses of a training whose batch size and number of values nobody knew."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        mask = paddle.static.data("mask", [None, 5], "bool")
        value = paddle.static.data("value", [None, 5], "float32")
        x = paddle.static.data("X", [None, 4], "float32")
        hidden = paddle.static.nn.fc(x, 5)
        out = sow.masked_scatter_(hidden, mask, value)  # in a program a new value, like masked_scatter
        loss = paddle.mean((out - 1) ** 2)
        paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    feed = {"X": np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4), "mask": np.array([[False, False, True, True, True]]),
            "value": np.ones((3, 5), "f4")}
    results = [executor.run(main, feed=feed, fetch_list=[loss, out]) for _ in range(steps)]
    return [float(loss) for loss, _ in results], results[-1][1]


def reductions():
    """put_along_axis with every reduction: the result, and the gradient of the values."""
    out = {}
    for reduce in ("assign", "add", "mul", "amax", "amin", "mean"):
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            arr = paddle.static.data("arr", [None, 3], "float32")
            index = paddle.static.data("index", [None, 3], "int64")
            values = paddle.static.data("values", [None, 3], "float32")
            values.stop_gradient = False
            result = sow.put_along_axis(arr, index, values, 1, reduce)
            gradient, = paddle.static.gradients([result], [values])
        feed = {"arr": np.array([[10, 20, 30], [40, 50, 60]], "f4"), "index": np.array([[0, 0, 2], [1, 1, -1]]),
                "values": np.array([[1, 2, 3], [4, 5, 6]], "f4")}
        out[reduce] = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[result, gradient])
    return out


def main():
    sow.paddle.build()
    paddle.enable_static()
    try:
        losses, out = train()
        print(f"masked_scatter in a program: the loss falls from {losses[0]:.4f} to {losses[-1]:.4f}")
        assert losses[-1] < losses[0] and np.all(out[:, 2:] == 1)
        for reduce, (result, gradient) in reductions().items():
            print(f"put_along_axis, {reduce}: {result.tolist()}, gradient {gradient.tolist()}")
    finally:
        paddle.disable_static()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Every method and property of a tensor, on symbolic ones: eager's answer, or a sentence."""

import copy
import operator
import pickle

import numpy as np
import pytest

import sow

I = np.array([2, 0])  # noqa: E741
IX = np.array([[2, 0, 1, 0]])
ND = np.array([[2], [0]])
M = np.arange(12).reshape(3, 4) % 3 == 0
V = np.arange(12, dtype="f4").reshape(3, 4) - 5
ROWS = V[:2]
G = np.array([1, 0, 1])  # of groups
CSR = np.array([0, 1, 3])  # of segments
NAMES = ["add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "remainder"]

# How each name is used on a tensor of 3 x 4 float32; several ways where they differ.
USES = {
    "masked_scatter": lambda x: x.masked_scatter(M, V),
    "masked_fill": lambda x: x.masked_fill(M, 2.0),
    "masked_select": lambda x: x.masked_select(M),
    "nonzero": lambda x: x.nonzero(),
    "put_along_axis": lambda x: x.put_along_axis(IX, 1.0, 0),
    "scatter": lambda x: x.scatter(0, IX, 1.0),
    "scatter_add": lambda x: x.scatter_add(0, IX, V[:1]),
    "scatter_reduce": lambda x: x.scatter_reduce(0, IX, V[:1], "amax"),
    "take_along_axis": [lambda x: x.take_along_axis(IX, 0), lambda x: x.take_along_axis(I, None)],
    "gather": lambda x: x.gather(0, IX),
    "index_add": lambda x: x.index_add(0, I, ROWS),
    "index_copy": lambda x: x.index_copy(0, I, ROWS),
    "index_fill": lambda x: x.index_fill(0, I, 3.0),
    "index_reduce": lambda x: x.index_reduce(0, I, ROWS, "mul"),
    "index_select": lambda x: x.index_select(0, I),
    "index_put": lambda x: x.index_put((I, I), 3.0),
    "index_get": lambda x: x.index_get((I, I)),
    **{f"tensor_scatter_nd_{how}": lambda x, how=how: getattr(x, f"tensor_scatter_nd_{how}")(ND, ROWS)
       for how in ("update", "add", "sub", "max", "min", "mul")},
    "gather_nd": [lambda x: x.gather_nd(ND), lambda x: x.gather_nd(np.array([[1], [0], [3]]), 1)],
    "diagonal_scatter": lambda x: x.diagonal_scatter([1.0, 2.0, 3.0]),
    "select_scatter": lambda x: x.select_scatter(V[0], 0, 1),
    "slice_scatter": lambda x: x.slice_scatter(ROWS, 0, 0, 2),
    "fill_diagonal": lambda x: x.fill_diagonal(9.0),
    "diagonal": lambda x: x.diagonal(),
    "select": lambda x: x.select(0, -1),
    "slice": lambda x: x.slice(0, 1, None, 2),
    "broadcast_to": lambda x: x.broadcast_to([2, 3, 4]),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "flatten": lambda x: x.flatten(),
    "reshape": [lambda x: x.reshape([4, 3]), lambda x: x.reshape(2, -1), lambda x: x.reshape(12)],
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute([1, 0]),
    "flip": lambda x: x.flip(1),
    "T": lambda x: x.T,
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "detach": lambda x: x.detach(),
    "to": lambda x: x.to("cpu"),
    "cast": lambda x: x.cast("float64"),
    "astype": [lambda x: x.astype("float32"), lambda x: x.astype("float64")],
    "copy_": lambda x: x.clone().copy_(V),
    "fill_": lambda x: x.clone().fill_(4.0),
    **{name: [lambda x, name=name: getattr(x, name)(V), lambda x, name=name: getattr(x, name)(2.0)]
       for name in NAMES},
    **{name: lambda x, name=name: getattr(x.cast("float32") > 0, name)(M)
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_not": lambda x: (x > 0).bitwise_not(),
    "abs": lambda x: x.abs(),
    "neg": lambda x: x.neg(),
    "conj": lambda x: x.conj(),
    "pow": lambda x: x.pow(2),
    "exp": lambda x: x.exp(),
    "log": lambda x: (x + 100).log(),
    "sqrt": lambda x: (x + 100).sqrt(),
    "group_reduce": [lambda x, how=how: x.group_reduce(G, how, 0, 2)
                     for how in ("add", "mean", "amax", "argmin", "count", "var", "logsumexp", "last")],
    "group_softmax": lambda x: x.group_softmax(G, 0, 2),
    "group_log_softmax": lambda x: x.group_log_softmax(G, 0, 2),
    "segment_reduce": lambda x: x.segment_reduce(CSR, "add"),
    "segment_cumsum": lambda x: x.segment_cumsum(CSR),
    "gather_csr": lambda x: x.gather_csr(np.array([0, 2, 2, 5]), 0, 5),
    "bin_index": lambda x: x.bin_index(np.array([-4.0, 0.0, 4.0])),
    "bincount": lambda x: x.bin_index(np.array([-4.0, 0.0, 4.0])).flatten().bincount(None, 5),
    "send_u_recv": lambda x: x.send_u_recv(I, I[::-1], "sum", 3),
    "send_ue_recv": lambda x: x.send_ue_recv(ROWS, I, I[::-1], "mul", "max", 3),
    "send_uv": lambda x: x.send_uv(V, I, I[::-1], "sub"),
    "sum": [lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(())],
    "mean": [lambda x: x.mean(), lambda x: x.mean(1, True), lambda x: x.mean(())],
    "shape": lambda x: x.shape,
    "strides": lambda x: x.strides,
    "dtype": lambda x: x.dtype,
    "device": lambda x: x.device,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
    "nbytes": lambda x: x.nbytes,
    "read_only": lambda x: x.read_only,
    "is_contiguous": lambda x: x.is_contiguous(),
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[0, 0].item(),
    "requires_grad": lambda x: x.requires_grad,
    "is_leaf": lambda x: x.is_leaf,
    "requires_grad_": lambda x: x.clone().requires_grad_().requires_grad,
    "grad": lambda x: x.grad,
    "zero_grad": lambda x: x.zero_grad(),
    "backward": lambda x: x.backward(),
    "__len__": len,
    "__iter__": lambda x: list(x)[1],
    "__bool__": lambda x: bool(x[0, 0]),
    "__int__": lambda x: int(x[0, 0]),
    "__float__": lambda x: float(x[0, 0]),
    "__complex__": lambda x: complex(x[0, 0]),
    "__array__": lambda x: np.asarray(x),
    "__dlpack__": lambda x: np.from_dlpack(x),
    "__dlpack_device__": lambda x: tuple(x.__dlpack_device__()),
    "__copy__": copy.copy,
    "__deepcopy__": copy.deepcopy,
    "__reduce__": pickle.dumps,
    "__getitem__": [lambda x: x[1], lambda x: x[:, 0], lambda x: x[1:3], lambda x: x[::2],
                    lambda x: x[::-1], lambda x: x[:, None], lambda x: x[I], lambda x: x[M],
                    lambda x: x[..., I, 1:], lambda x: x[x > 0]],
    "__add__": lambda x: x + V, "__radd__": lambda x: 2.0 + x,
    "__sub__": lambda x: x - V, "__rsub__": lambda x: 2.0 - x,
    "__mul__": lambda x: x * V, "__rmul__": lambda x: 2.0 * x,
    "__truediv__": lambda x: x / 2.0, "__rtruediv__": lambda x: 2.0 / (x + 100),
    "__mod__": lambda x: x % 3.0, "__rmod__": lambda x: 3.0 % (x + 100),
    "__and__": lambda x: (x > 0) & M, "__rand__": lambda x: True & (x > 0),
    "__or__": lambda x: (x > 0) | M, "__ror__": lambda x: False | (x > 0),
    "__xor__": lambda x: (x > 0) ^ M, "__rxor__": lambda x: True ^ (x > 0),
    "__invert__": lambda x: ~(x > 0), "__abs__": abs, "__neg__": operator.neg,
    "__pow__": lambda x: x ** 2,
    "__eq__": lambda x: x == V, "__ne__": lambda x: x != V, "__lt__": lambda x: x < V,
    "__le__": lambda x: x <= V, "__gt__": lambda x: x > V, "__ge__": lambda x: x >= V,
}


def set_item(key, value):
    def use(x):
        y = x.clone()
        y[key] = value
        return y
    return use


USES["__setitem__"] = [set_item(key, value) for key, value in [
    (slice(0, 2), 5.0), (1, V[0]), ((slice(None), 0), 1.0), (I, 2.0), (M, 3.0),
    ((slice(None, None, -1), slice(0, 2)), V[:, :2]), (None, V), ((Ellipsis, I), V[:, :2])]]
# Of what every object has, or what takes no part: representation, identity, making.
LEFT_OUT = {"__class__", "__new__", "__init__", "__repr__", "__str__", "__hash__", "__doc__",
            "__module__", "__dlpack_c_exchange_api__"} | set(dir(object))
IN_PLACE = [name for name in dir(sow.Tensor)
            if name.endswith("_") and not name.startswith("_") and name[:-1] in USES]


def in_place(name):
    """Bare: the handle has the new value."""
    def use(x, uses):
        y = x.clone()
        class Twin:
            def __getattr__(self, stem):
                return getattr(y, stem + "_")
        returned = uses(Twin())
        assert returned is y
        return y
    uses = USES[name[:-1]]
    return [lambda x, one=one: use(x, one) for one in (uses if isinstance(uses, list) else [uses])]


for name in IN_PLACE:
    if name not in USES:
        USES[name] = in_place(name)
CALLS = [(name, use) for name, uses in sorted(USES.items())
         for use in (uses if isinstance(uses, list) else [uses])]


def test_no_method_is_forgotten():
    missing = set(dir(sow.Tensor)) - LEFT_OUT - set(USES)
    assert not missing
    assert not {name for name in USES if not hasattr(sow.Tensor, name)}


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name, use", CALLS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CALLS)])
def test_equals_eager_or_says_why_not(name, use, unknown):
    a = (np.arange(12, dtype="f4").reshape(3, 4) - 4) / 2
    program = sow.Program()
    x = program.input("x", [None, None] if unknown else [3, 4])
    try:
        got = use(x)
    except (ValueError, TypeError, RuntimeError) as error:
        text = str(error)
        assert len(text.split()) > 5 and any(
            word in text for word in ("symbolic", "known", "program", "extent", "graph")), text
        return
    want = use(sow.tensor(a))
    if not isinstance(got, sow.Tensor):
        assert name == "shape" and unknown and got == (-1, -1) or got == want
        return
    program.output("y", got)
    result = program.compile().run({"x": a})["y"]
    assert result.shape == want.shape
    assert str(result.dtype) == str(want.dtype)
    assert result.tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize("ask", [lambda x: x.size, lambda x: x.nbytes, len, list])
def test_unknown_extents_are_not_guessed(ask):
    x = sow.Program().input("x", ["n", 2])
    with pytest.raises(ValueError, match=r"symbolic, and of its shape \[\?, 2\]"):
        ask(x)


@pytest.mark.parametrize("ask", [bool, int, float, lambda x: x.item(), lambda x: x.tolist(),
                                 lambda x: x.numpy(), np.asarray, np.from_dlpack, pickle.dumps])
@pytest.mark.parametrize("shape", [[], [1], ["n"]])
def test_data_is_refused(ask, shape):
    with pytest.raises(ValueError, match="symbolic"):
        ask(sow.Program().input("x", shape))


def test_in_place_is_seen_through_every_handle():
    """What eager does, views and all; the argument itself keeps its values."""
    def work(x):
        y = x.clone()
        row, column = y[1], y[:, 1]
        alias = y.detach()
        row.fill_(5.0)
        column.copy_(column + 10.0)
        alias[0, 0] = -1.0
        y.T[3] = 8.0
        y.diagonal().fill_(3.0)
        row.index_add_(0, [3, 3], [1.0, 1.0])
        return y, row, column, alias

    a = np.arange(12, dtype="f4").reshape(3, 4)
    for dynamic in (False, True):
        got = sow.jit(work, dynamic=dynamic)(a)
        for one, other in zip(got, work(sow.tensor(a)), strict=True):
            assert one.tolist() == other.tolist()
    assert a[1, 1] == 5


def test_in_place_through_a_reshaped_tensor():
    a = np.arange(6, dtype="f4")

    def dense(x):
        y = x * 1.0
        y.reshape(2, 3)[1] = 0.0
        return y

    assert sow.jit(dense)(a).tolist() == dense(sow.tensor(a)).tolist()
    with pytest.raises(ValueError, match="whether that is a view or a copy .*reshape a clone"):
        sow.jit(lambda x: x.reshape(2, 3).fill_(0.0))(a)
    with pytest.raises(ValueError, match="broadcast view"):
        sow.jit(lambda x: x.broadcast_to([2, 6]).fill_(0.0))(a)


def test_a_real_tensor_is_not_written_by_a_program():
    acc = sow.zeros([3])
    with pytest.raises(ValueError, match="index_add_: the destination is a real tensor.*index_add"):
        sow.jit(lambda i: acc.index_add_(0, i, [1.0]))(np.array([0]))
    assert acc.tolist() == [0.0, 0.0, 0.0]


def test_gradients_go_through_what_was_rebound():
    def loss(x):
        y = x * 2.0
        y[1:] = 3.0
        y[0] *= 4.0
        return sow.sum(y * y)

    a = np.array([1.0, 2.0, 3.0], "f4")
    leaf = sow.tensor(a)
    leaf.requires_grad = True
    loss(leaf).backward()
    program = sow.Program()
    x = program.input("x", [3])
    program.output("g", program.gradients([loss(x)], [x])[0])
    got = program.compile().run({"x": a})["g"]
    assert np.asarray(got).tolist() == [128.0, 0.0, 0.0]
    assert leaf.grad.tolist() == [128.0, 0.0, 0.0]

# SPDX-License-Identifier: Apache-2.0
"""One small call of every operation, for the tests of sow inside of other libraries' graphs."""

import dataclasses
from typing import Any

import numpy as np

import sow
from sow import _derived


@dataclasses.dataclass(frozen=True)
class Case:
    """`args` are the positional arguments, arrays as NumPy's; `floats` says which are differentiable."""

    name: str
    args: tuple
    kwargs: dict = dataclasses.field(default_factory=dict)

    def __repr__(self):
        told = [str(v) for v in self.kwargs.values()]
        scalar = [] if len(self.floats) > 1 else ["alone"]
        return "-".join([self.name, *told, *scalar])

    @property
    def floats(self):
        return [i for i, a in enumerate(self.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

    def function(self, module=sow):
        """The call as a function of its differentiable arguments."""
        return self.function_at(self.floats, module)

    def function_at(self, places, module=sow):
        def function(*values):
            args = list(self.args)
            for i, value in zip(places, values, strict=True):
                args[i] = value
            return getattr(module, self.name)(*args, **self.kwargs)

        return function

    def values(self):
        return [self.args[i] for i in self.floats]


def array(*shape, seed=0):
    """Numbers with exact small sums, ties, zeros and both signs among them."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype("f4") / 2


X, ROWS, KEYS = array(4, 3), array(5, 3, seed=1), np.array([0, 2, 2, -1, 0], "i4")
TWO = np.array([0, 1, 1, 0, 0], "i4")
ALONG = np.array([[0, 1, 1], [3, -1, 0], [0, 0, 1]], "i4")
SOURCE = array(3, 3, seed=2)
MASK = np.array([[True, False, True]] * 2 + [[False, True, True]] * 2)
PAIRS = np.array([[0, 1], [3, 2], [0, 1]], "i4")


def all_cases():
    cases = [
        Case("masked_scatter", (X, MASK, array(9, seed=3))),
        Case("masked_scatter", (X[0], MASK, array(9, seed=3))),
        Case("masked_fill", (X, MASK, 2.0)),
        Case("masked_fill", (X, MASK, np.float32(2.0).reshape(()))),
        Case("put_along_axis", (X, ALONG[:, :1], 2.0, 0)),
        Case("scatter", (X, 0, ALONG, SOURCE)),
        Case("scatter", (X, 0, ALONG, 2.0), {"reduce": "multiply"}),
        Case("scatter_add", (X, 0, ALONG, SOURCE)),
        Case("take_along_axis", (X, ALONG, 0)),
        Case("gather", (X, 0, ALONG)),
        Case("index_add", (X, 0, KEYS, ROWS)),
        Case("index_add", (X, 0, np.array([0, 9, 1, 1, 1], "i4"), ROWS), {"bounds": "drop"}),
        Case("index_copy", (X, 0, KEYS, ROWS)),
        Case("index_fill", (X, 0, KEYS, 1.5)),
        Case("index_select", (X, 0, KEYS)),
        Case("index_put", (X, (KEYS, np.array([0, 1, 2, 2, 0], "i4")), array(5, seed=4)), {"accumulate": True}),
        Case("index_put", (X, (KEYS,), ROWS)),
        Case("index_put", (X, (KEYS,), ROWS), {"reduce": "amax"}),
        Case("index_put", (X, (KEYS,), ROWS), {"reduce": "mean", "include_self": False}),
        Case("index_put", (X, (None, TWO), array(4, 5, seed=4)), {"accumulate": True}),
        Case("index_get", (X, (None, TWO))),
        Case("index_add", (X, 0, KEYS, ROWS), {"alpha": -1.5}),
        Case("index_add", (X, 0, KEYS, 1.5)),
        Case("index_add", (X, 0, KEYS, ROWS.astype("f2"))),
        Case("index_add", (X, 0, KEYS[:, None], ROWS)),
        Case("index_add", (X, 0, KEYS, ROWS.astype("i1"))),
        Case("scatter_add", (X, 0, ALONG, 0.5)),
        Case("scatter_add", (X, 0, ALONG, SOURCE.astype("f2"))),
        Case("scatter_reduce", (X, 0, ALONG, SOURCE.astype("f2"), "mean")),
        Case("tensor_scatter_nd_add", (X, PAIRS, array(3, seed=4).astype("f2"))),
        Case("masked_fill", (X, MASK, np.float32(2.0).reshape(1))),
        Case("slice_scatter", (X, array(1, 2, seed=4), [0, 1], [1, 0], [4, 3], [1, 2])),
        Case("fill_diagonal", (X, 2.0), {"offset": 1}),
        Case("where", (MASK, X, X.astype("f2"))),
        Case("gather_nd", (X, PAIRS)),
        Case("gather_nd", (X, np.array([[0], [2], [1], [0]], "i4")), {"batch_dims": 1}),
        Case("index_get", (X, (KEYS, np.array([0, 1, 2, 2, 0], "i4")))),
        Case("take_along_axis", (X, KEYS, None)),
        Case("scatter_nd", (PAIRS, array(3, seed=5), (4, 3))),
        Case("diagonal_scatter", (X, array(3, seed=6)), {"offset": -1}),
        Case("select_scatter", (X, array(4, seed=7), 1, -1)),
        Case("slice_scatter", (X, array(2, 3, seed=8)), {"start": 1, "end": 3}),
        Case("fill_diagonal", (X, 5.0)),
        Case("diagonal", (X,), {"offset": 1}),
        Case("select", (X, 0, -2)),
        Case("slice", (X, 0, 1, 3)),
        Case("broadcast_to", (X, (2, 4, 3))),
        Case("unsqueeze", (X, 1)),
        Case("flatten", (X,)),
        Case("reshape", (X, (2, -1))),
        Case("transpose", (X, 0, 1)),
        Case("add", (X, X[0])),
        Case("sub", (X, 1.0)),
        Case("mul", (X, X[1] + 1)),
        Case("div", (X, X[2] + 7)),
        Case("remainder", (X, X[2] + 7)),
        Case("abs", (X,)),
        Case("bitwise_not", (MASK,)),
        Case("neg", (X,)),
        Case("conj", (X,)),
        Case("pow", (X, 3.0)),
        Case("where", (MASK, X, X + 1)),
        Case("sum", (X,), {"axis": 1}),
        Case("mean", (X,)),
        Case("exp", (X,)),
        Case("log", (X * X + 1,)),
        Case("sqrt", (X * X + 1,)),
        Case("group_reduce", (ROWS, TWO, "var"), {"size": 2, "correction": 0}),
        Case("group_reduce", (ROWS, TWO, "logsumexp"), {"size": 2}),
        Case("group_reduce", (ROWS.T, TWO, "first"), {"axis": 1, "size": 2}),
        Case("group_softmax", (ROWS, KEYS), {"size": 4}),
        Case("group_log_softmax", (ROWS, TWO), {"size": 2}),
        Case("segment_reduce", (ROWS, np.array([0, 2, 2, 4], "i4"), "sum")),
        Case("gather_csr", (X, np.array([0, 2, 2, 3, 5], "i4")), {"size": 5}),
        Case("segment_cumsum", (ROWS, np.array([0, 2, 4], "i4"))),
        Case("bincount", (TWO, array(5, seed=10)), {"size": 2}),
        Case("bin_index", (X, np.array([-1.0, 0.0, 1.0]))),
        Case("send_u_recv", (X, KEYS, TWO)),
        Case("send_u_recv", (X, KEYS, TWO), {"reduce_op": "max", "out_size": 2}),
        Case("send_ue_recv", (X, ROWS, KEYS, TWO), {"message_op": "mul"}),
        Case("send_uv", (X, X + 1, KEYS, TWO), {"message_op": "sub"}),
    ]
    for reduce in ("assign", "add", "mul", "amax", "amin", "mean"):
        cases += [
            Case("put_along_axis", (X, ALONG, SOURCE, 0), {"reduce": reduce}),
            Case("scatter_reduce", (X, 0, ALONG, SOURCE), {"reduce": reduce, "include_self": False}),
            Case("index_reduce", (X, 0, KEYS, ROWS), {"reduce": reduce}),
        ]
    for what in ("update", "add", "sub", "max", "min", "mul"):
        cases.append(Case(f"tensor_scatter_nd_{what}", (X, PAIRS, array(3, seed=9))))
    for what in ("eq", "ne", "lt", "le", "gt", "ge"):
        cases.append(Case(what, (X, X[0])))
    for what in ("and", "or", "xor"):
        cases.append(Case(f"bitwise_{what}", (MASK, MASK[0])))
    return cases


CASES = all_cases()
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
SMOOTH = [case for case in CASES
          if case.name not in COMPARISONS and case.name != "bin_index" and not case.name.startswith("bitwise")]
# Their results' shapes depend on data, which a graph does not have.
OF_DATA = {"masked_select", "nonzero"}


def operations():
    """Every function of sow that a graph can hold, but for in-place forms."""
    return {name for name in sow.__all__ if _derived.is_operation(name) and not name.endswith("_")} - OF_DATA


def bits(a: Any) -> tuple:
    a = np.asarray(a)
    return a.dtype, a.shape, a.tobytes()


def eager(case):
    return np.asarray(case.function()(*case.values()))


def weight(case, seed=50):
    return array(*eager(case).shape, seed=seed)


def on_tape(case, leaves):
    """The call on sow's tensors: its result is of the first one's kind."""
    plain = [sow.tensor(a) if isinstance(a, np.ndarray) else a for a in case.args]
    return dataclasses.replace(case, args=tuple(plain)).function_at(case.floats)(*leaves)


def eager_gradients(case, grad):
    """Of the differentiable arguments, by sow's own tape."""
    leaves = [sow.tensor(value).requires_grad_() for value in case.values()]
    result = on_tape(case, leaves)
    return [found.numpy() for found in sow.grad(result, leaves, sow.tensor(grad))]


def eager_second(case, grad, weights):
    """The gradients of the gradients, weighted: of the arguments, and of the first gradient."""
    leaves = [sow.tensor(value).requires_grad_() for value in case.values()]
    outer = sow.tensor(grad).requires_grad_()
    first = sow.grad(on_tape(case, leaves), leaves, outer, create_graph=True)
    taken = [(g, w) for g, w in zip(first, weights) if g.requires_grad]
    found = sow.grad([g for g, _ in taken], [*leaves, outer], [sow.tensor(w) for _, w in taken])
    return [one.numpy() for one in found]

# SPDX-License-Identifier: Apache-2.0
"""Operations by group, by segment, on keys and along edges: what each library offers for them.

`case.reduce` names the operation. Floors count what any way has to read and write once.
"""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .cases import BYTES, INDEX_BYTES, Case, best

BINS = 256
Forms = dict[str, Callable[[], Any]]


def case_of(name: str, op: str, items: int, width: int, places: int, goal: float = 1, **more: Any) -> Case:
    """`items` slices of `width` elements in `places` groups."""
    size = BYTES[more.get("dtype", "float32")]
    read = items * width * size
    written = {"softmax": read, "unique": items * INDEX_BYTES, "histogram": 0, "bincount": 0}.get(op, places * width * size)
    index = 0 if op in ("unique", "histogram") else items * INDEX_BYTES * (2 if op.startswith("send") else 1)
    if op == "bincount":
        read = 0
    if op.startswith("send"):
        read = places * width * size + (items * size if op == "send_ue_recv" else 0)
    floor = read + index + written
    if more.get("backward"):
        floor += 3 * items * width * size
    shape = (places, width) if width > 1 else (places,)
    return Case(name, kind="family", reduce=op, shape=shape, items=(items,), in_place=False, floor_bytes=floor,
                goals=best(goal), **more)


def family() -> Iterator[Case]:
    own: dict[str, Any] = {"group": "family"}
    for op in ("softmax", "logsumexp", "var", "argmax", "bitwise_or", "segment_sum"):
        dtype = "int64" if op == "bitwise_or" else "float32"
        yield case_of(f"by group: {op} 500k x 8 to 50k", op, 500_000, 8, 50_000, dtype=dtype,
                      index="sorted" if op == "segment_sum" else "uniform", quick=op == "softmax", **own)
    yield case_of("by group: softmax 500k x 8 forward + backward", "softmax", 500_000, 8, 50_000, goal=3, backward=True,
                  quick=True, **own)
    yield case_of("bincount 2^23 to 2^20", "bincount", 1 << 23, 1, 1 << 20, **own)
    yield case_of(f"histogram 2^22, {BINS} bins", "histogram", 1 << 22, 1, BINS, **own)
    for places in (1 << 10, 1 << 20, 1 << 40):
        yield case_of(f"unique 2^22 of 2^{places.bit_length() - 1} keys", "unique", 1 << 22, 1, places, dtype="int64", **own)
    yield case_of("messages 500k x 64 among 50k", "send_u_recv", 500_000, 64, 50_000, goal=2, **own)
    yield case_of("messages and edge values 500k x 64", "send_ue_recv", 500_000, 64, 50_000, goal=2, quick=True, **own)


def arrays_of(case: Case, random: np.random.Generator, draw: Callable[..., Any], keys: Callable[..., Any]) -> dict[str, Any]:
    """The arrays of such a case; x is what messages are read from."""
    if case.reduce == "unique":
        drawn = random.integers(0, case.shape[0], case.items)
        return {"x": drawn[:1], "src": drawn, "index": drawn[:1]}
    arrays = {"x": draw(random, case.shape, case), "index": keys(random, case.items, case.shape[0], case.index)}
    if case.reduce.startswith("send"):
        arrays["from"] = keys(random, case.items, case.shape[0], "uniform")
        arrays["src"] = draw(random, (*case.items, 1), case)
    else:
        arrays["src"] = draw(random, case.items + case.shape[1:], case)
    arrays["grad"] = draw(random, arrays["src"].shape, case)
    return arrays


def pointers_of(case: Case, index: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(index, minlength=case.shape[0]))])


def sow_forms(case: Case, arrays: dict[str, Any]) -> Forms:
    import sow

    op, x, index, src, size = case.reduce, arrays["x"], arrays["index"], arrays["src"], case.shape[0]
    if op == "softmax":
        return {"group_softmax": lambda: sow.group_softmax(src, index, size=size)}
    if op == "segment_sum":
        pointers = pointers_of(case, index)
        return {"segment_reduce": lambda: sow.segment_reduce(src, pointers, "sum")}
    if op == "bincount":
        return {"bincount": lambda: sow.bincount(index, size=size)}
    if op == "histogram":
        return {"histogram": lambda: sow.histogram(src, BINS)[0]}
    if op == "unique":
        return {"unique": lambda: sow.unique(src, return_inverse=True)[1]}
    if op == "send_u_recv":
        return {"send_u_recv": lambda: sow.send_u_recv(x, arrays["from"], index, "sum")}
    if op == "send_ue_recv":
        return {"send_ue_recv": lambda: sow.send_ue_recv(x, src, arrays["from"], index, "mul", "sum")}
    return {"group_reduce": lambda: sow.group_reduce(src, index, op, size=size)}


def numpy_forms(case: Case, arrays: dict[str, Any]) -> Forms:
    op, index, src, size = case.reduce, arrays["index"], arrays["src"], case.shape[0]
    if op == "bincount":
        return {"bincount": lambda: np.bincount(index, minlength=size)}
    if op == "histogram":
        return {"histogram": lambda: np.histogram(src, BINS)[0]}
    if op == "unique":
        return {"unique": lambda: np.unique(src, return_inverse=True)[1]}
    if op == "segment_sum":
        pointers = pointers_of(case, index)
        if (np.diff(pointers) == 0).any():
            return {}  # reduceat has no empty segments
        return {"reduceat": lambda: np.add.reduceat(src, pointers[:-1], axis=0)}
    if op == "bitwise_or":
        def at() -> np.ndarray:
            out = np.zeros(case.shape, src.dtype)
            np.bitwise_or.at(out, index, src)
            return out

        return {"ufunc.at": at}
    return {}


def torch_forms(case: Case, arrays: dict[str, Any]) -> Forms:
    import torch

    op, x, index, src, size = case.reduce, arrays["x"], arrays["index"], arrays["src"], case.shape[0]
    spread = index.view(-1, *[1] * (src.dim() - 1)).expand(src.shape)

    def summed(values: Any) -> Any:
        return values.new_zeros(size, *values.shape[1:]).index_add_(0, index, values)

    def highest() -> Any:
        return src.detach().new_full(case.shape, -torch.inf).scatter_reduce_(0, spread, src.detach(), "amax")

    def softmax() -> Any:
        e = (src - highest()[index]).exp()
        return e / summed(e)[index]

    def var() -> Any:
        count = torch.bincount(index, minlength=size).view(-1, *[1] * (src.dim() - 1))
        mean = summed(src) / count.clamp(min=1)
        return summed((src - mean[index]) ** 2) / (count - 1).clamp(min=0)

    def logsumexp() -> Any:
        most = highest()
        most = most.masked_fill(most.isinf(), 0)
        return summed((src - most[index]).exp()).log() + most

    if op == "softmax":
        forms = {"scatter_reduce, exp, index_add": softmax}
        try:
            from torch_geometric.utils import softmax as by_pyg

            forms["PyG softmax"] = lambda: by_pyg(src, index, num_nodes=size)
        except ImportError:
            pass
        return forms
    if op == "segment_sum":
        lengths = torch.bincount(index, minlength=size)
        return {"segment_reduce": lambda: torch.segment_reduce(src, "sum", lengths=lengths)}
    if op == "unique":
        return {"unique": lambda: torch.unique(src, return_inverse=True)[1]}
    if op == "histogram":
        return {"histogram": lambda: torch.histogram(src, BINS)[0], "histc": lambda: torch.histc(src, BINS)}
    simple = {"var": var, "logsumexp": logsumexp, "bincount": lambda: torch.bincount(index, minlength=size)}
    if op in simple:
        return {op: simple[op]}
    if op.startswith("send"):
        sent = lambda: x.index_select(0, arrays["from"])  # noqa: E731
        return {"index_select, index_add": lambda: summed(sent() * src if op == "send_ue_recv" else sent())}
    return {}


def paddle_forms(case: Case, arrays: dict[str, Any]) -> Forms:
    import paddle

    x, index, src = arrays["x"], arrays["index"], arrays["src"]
    if case.reduce == "send_u_recv":
        return {"send_u_recv": lambda: paddle.geometric.send_u_recv(x, arrays["from"], index, "sum")}
    if case.reduce == "send_ue_recv":
        return {"send_ue_recv": lambda: paddle.geometric.send_ue_recv(x, src, arrays["from"], index, "mul", "sum")}
    if case.reduce == "segment_sum":
        return {"segment_sum": lambda: paddle.geometric.segment_sum(src, index)}
    return {}



def backward_of(form: Callable[[], Any], leaf: Any, grad: Any) -> Callable[[], Any]:
    """Forward and backward, in libraries that keep a tensor's gradient in `grad`."""

    def run() -> Any:
        leaf.grad = None
        out = form()
        out.backward(grad)
        return out, leaf.grad

    return run

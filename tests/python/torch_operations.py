# SPDX-License-Identifier: Apache-2.0
"""One call of every operation of docs/semantics.md, as tests of sow inside of torch draw them."""

import torch

from sow._frameworks import OPERATIONS

INDEX = torch.tensor([2, 0, 2])
GRID = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1], [1, 0, 0, -1]])
MASK = torch.tensor([[True, False, True, True], [False] * 4, [True, True, False, False]])
POINTS = torch.tensor([[0, 1], [2, 3], [0, 1]])
GROUPS = torch.tensor([1, 0, 1, 0, 0, 1])
POINTERS = torch.tensor([0, 2, 2, 3])
REDUCTIONS = ("assign", "add", "mul", "amax", "amin", "mean")


def values(*shape, dtype=torch.float64, seed=0):
    """Numbers that are far apart, so that no maximum is a tie and no divisor is small."""
    generator = torch.Generator().manual_seed(seed)
    count = int(torch.tensor(shape).prod()) if shape else 1
    spread = (torch.randperm(4 * count, generator=generator)[:count] + 2).to(torch.float64) / 4
    signs = torch.randint(0, 2, (count,), generator=generator) * 2 - 1
    spread = (spread * signs).reshape(shape)
    if dtype.is_complex:
        return torch.complex(spread, spread.flip(0) if spread.dim() else spread).to(dtype)
    return spread.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else spread.to(dtype)


def calls(dtype=torch.float64):
    """(id, name, arguments, keywords); arguments that are floating tensors are differentiable."""

    def v(*shape, seed):
        return values(*shape, dtype=dtype, seed=seed)

    x, s = v(3, 4, seed=1), v(3, 4, seed=2)
    out = [
        ("masked_scatter", (x, MASK, v(7, seed=3)), {}),
        ("masked_fill", (x, MASK, 2.0), {}),
        ("masked_fill", (x, MASK, v(seed=4)), {}),
        ("masked_select", (x, MASK), {}),
        ("nonzero", (x,), {}),
        ("scatter_add", (x, 1, GRID, s), {}),
        ("take_along_axis", (x, GRID[:, :1], 1), {}),
        ("gather", (x, 1, GRID), {}),
        ("index_add", (x, 0, INDEX, s), {}),
        ("index_add", (x, -1, INDEX, v(3, 3, seed=5)), {"bounds": "clip"}),
        ("index_copy", (x, 0, INDEX, s), {}),
        ("index_fill", (x, 0, INDEX, 2.0), {}),
        ("index_fill", (x, 0, INDEX, v(seed=6)), {}),
        ("index_select", (x, 0, INDEX), {}),
        ("index_put", (x, (INDEX,), s), {}),
        ("index_put", (x, [INDEX, INDEX], v(3, seed=7)), {"accumulate": True}),
        ("index_put", (x, (MASK,), 1.5), {}),
        ("index_put", (x, (INDEX,), s), {"reduce": "add", "include_self": False}),
        ("index_put", (x, [None, INDEX], v(3, 3, seed=7)), {}),
        ("index_add", (x, 0, INDEX, s), {"alpha": 1}),
        ("index_add", (x, 0, INDEX, 1), {}),
        ("slice_scatter", (x, v(1, 2, seed=11), [1, 0], [0, 1], [4, 3], [2, 1]), {}),
        ("fill_diagonal", (x, 3.0), {"offset": -1}),
        ("scatter_nd", (POINTS, v(3, seed=8), [3, 4]), {}),
        ("gather_nd", (x, POINTS), {}),
        ("diagonal_scatter", (x, v(3, seed=9)), {"offset": 1}),
        ("select_scatter", (x, v(4, seed=10), 0, 1), {}),
        ("slice_scatter", (x, v(3, 2, seed=11), [1], [0], [4], [2]), {}),
        ("fill_diagonal", (x, 3.0), {}),
        ("fill_diagonal", (x, v(seed=12)), {}),
    ]
    if dtype.is_floating_point:
        six = v(6, 4, seed=14) / 4
        out += [("group_reduce", (six, GROUPS, r), {"size": 2}) for r in ("sum", "prod", "max", "mean", "var",
                                                                           "logsumexp", "first", "last")]
        out += [
            ("group_reduce", (v(3, 6, seed=15), GROUPS.expand(3, 6), "std"), {"axis": 1, "size": 2, "correction": 0}),
            ("group_softmax", (six, GROUPS), {"size": 2}),
            ("group_log_softmax", (v(3, 6, seed=15), GROUPS.expand(3, 6)), {"axis": 1, "size": 2}),
            ("segment_reduce", (x, torch.tensor([0, 2, 3]), "max"), {}),
            ("segment_reduce", (six, torch.tensor([0, 2, 6]), "logsumexp"), {}),
            ("gather_csr", (x, POINTERS), {"size": 4}),
            ("segment_cumsum", (x, POINTERS), {"axis": 1, "exclusive": True}),
        ]
    out += [
        ("send_u_recv", (x, INDEX, GROUPS[:3]), {}),
        ("send_ue_recv", (x, s, INDEX, GROUPS[:3]), {"message_op": "mul"}),
        ("send_uv", (x, s, INDEX, GROUPS[:3]), {"message_op": "mul"}),
    ]
    reductions = [r for r in REDUCTIONS if not (dtype.is_complex and r in ("amax", "amin"))
                  and not (dtype == torch.bool and r == "mean")]
    for r in reductions:
        out += [
            ("put_along_axis", (x, GRID, s, 1, r), {}),
            ("put_along_axis", (x, GRID[:, :1], 1.5 if dtype.is_floating_point else 1, 1, r), {}),
            ("scatter", (x, 0, GRID % 3, s), {"reduce": r}),
        ]
        if r != "assign":
            out += [
                ("scatter_reduce", (x, 1, GRID, s, r), {"include_self": r != "mul"}),
                ("index_reduce", (x, 0, INDEX, s, r), {"include_self": r != "amax"}),
            ]
    for r in ("update", "add", "sub", "max", "min", "mul"):
        if (dtype.is_complex and r in ("max", "min")) or (dtype == torch.bool and r == "sub"):
            continue
        out.append((f"tensor_scatter_nd_{r}", (x, POINTS, v(3, seed=13)), {}))
    if not dtype.is_floating_point and not dtype.is_complex:
        whole = {1.5: 1, 2.0: 1, 3.0: 1}
        out = [(n, tuple(whole.get(a, a) if isinstance(a, float) else a for a in args), k)
               for n, args, k in out]
    return [(f"{name}-{i}", name, args, keywords) for i, (name, args, keywords) in enumerate(out)]


VIEWS = [
    ("diagonal", (1,)), ("select", (0, 1)), ("slice", (1, 0, 4, 2)), ("broadcast_to", ([2, 3, 4],)),
    ("flatten", ()), ("unsqueeze", (1,)), ("reshape", ([4, 3],)), ("transpose", (0, 1)),
]


def with_in_place_form():
    """The operations that have one."""
    return [o.stem for o in OPERATIONS.values() if o.form == "in_place"]


def sources(args):
    """The places of differentiable tensors."""
    return [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and
            (a.is_floating_point() or a.is_complex())]

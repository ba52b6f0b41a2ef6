# SPDX-License-Identifier: Apache-2.0
"""The arrays of a case on a GPU: drawn there by PyTorch in every process, the same in each."""

from __future__ import annotations

import zlib
from typing import Any

import torch

from .cases import Case, product

SHOWN = 1 << 18  # of a larger result every n-th element is compared


def draw(shape: tuple[int, ...], case: Case) -> torch.Tensor:
    values = torch.randn(shape, device="cuda")
    if case.dtype in ("int32", "int64", "uint8"):
        return (values * 20).abs().to(getattr(torch, case.dtype))
    if case.values == "wide":
        values = torch.ldexp(values, torch.randint(-60, 60, shape, device="cuda", dtype=torch.int32))
    return values.to(getattr(torch, case.dtype))


def keys(shape: tuple[int, ...], extent: int, how: str) -> torch.Tensor:
    if how == "distinct":
        return torch.randperm(extent, device="cuda")[: product(shape)].reshape(shape)
    if how == "one":
        return torch.full(shape, extent // 3, device="cuda")
    if how == "zipf":  # a few places that many meet in, and many that few do
        return (extent * torch.rand(shape, device="cuda") ** 4).long()
    drawn = torch.randint(0, extent, shape, device="cuda")
    if how == "sorted":
        return drawn.reshape(-1).sort()[0].reshape(shape)
    if how == "hot":
        drawn[torch.rand(shape, device="cuda") < 0.5] = 0
    return drawn


def make(case: Case) -> dict[str, torch.Tensor]:
    torch.manual_seed(zlib.crc32(case.data_key.encode()))
    arrays = {"x": draw(case.shape, case)}
    if case.kind == "masked":
        arrays["mask"] = torch.rand(case.items, device="cuda") < case.density
        arrays["src"] = draw((int(arrays["mask"].sum()) * (product(case.shape) // product(case.items)),), case)
    elif case.kind == "diagonal":
        arrays["src"] = draw(case.shape[:-2] + (min(case.shape[-2:]),), case)
    elif case.kind == "along":
        arrays["index"] = keys(case.items, case.shape[case.axis], case.index)
        arrays["src"] = draw(case.items, case)
    elif case.kind == "gather":
        arrays["index"] = keys(case.items, case.shape[max(case.axis, 0)], case.index)
        arrays["src"] = draw((1,), case)  # nobody's
    elif case.kind == "nd":
        arrays["index"] = keys(case.items, min(case.shape[:2]), case.index)
        arrays["src"] = draw(case.items[:1] + case.shape[2:], case)
    else:
        arrays["index"] = keys(case.items, case.shape[case.axis], case.index)
        arrays["src"] = draw(case.shape[: case.axis] + case.items + case.shape[case.axis + 1 :], case)
    if case.kind in ("masked", "rows"):  # whether or not it is used: cases that share arrays draw the same
        arrays["grad"] = draw(case.shape, case)
    torch.cuda.synchronize()
    return arrays


def shown(array: Any) -> tuple[Any, int]:
    """Evenly chosen elements of a device array as a NumPy array of float64, and how far they are apart."""
    tensor = array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)
    flat = tensor.reshape(-1)
    step = max(1, flat.numel() // SHOWN)
    return flat[::step].double().cpu().numpy(), step


def flat_places(case: Case, index: torch.Tensor) -> tuple[torch.Tensor, int]:
    """For each update its place, counting rows where there are rows; and how many places there are."""
    if case.kind == "rows":
        return index, case.shape[0]
    if case.kind == "nd":
        return index[:, 0] * case.shape[1] + index[:, 1], case.shape[0] * case.shape[1]
    flat = torch.zeros((1,) * index.dim(), dtype=torch.int64, device="cuda")
    for d in range(index.dim()):
        own = [-1 if k == d else 1 for k in range(index.dim())]
        at = index if d == case.axis else torch.arange(case.items[d], device="cuda").view(own)
        flat = flat + at * product(case.shape[d + 1 :])
    return flat.reshape(-1), product(case.shape)


def bounds(case: Case, arrays: dict[str, torch.Tensor]) -> tuple[Any, str]:
    """How far a peer's result may be off ours at the shown places, and of what: "value" or "result".

    Peers round at every step, so the magnitudes of the terms count; of a product, its own. Where several
    updates are assigned to one place, peers leave open who wins.
    """
    if case.kind in ("masked", "diagonal", "cache", "gather") or case.reduce in ("amax", "amin"):
        return None, "value"
    to, places = flat_places(case, arrays["index"])
    width = product(case.shape) // places
    counts = torch.zeros(places, device="cuda").index_add_(0, to, torch.ones(1, device="cuda").expand(to.shape))
    whole = not arrays["x"].dtype.is_floating_point
    epsilon = 0.0 if whole else torch.finfo(arrays["x"].dtype).eps
    if case.reduce == "assign":
        allowed = torch.where(counts > 1, float("inf"), 0.0)[:, None].expand(-1, width)
        return shown(allowed)[0], "value"
    if case.reduce == "mul":
        return shown(((counts + 4) * 4 * epsilon)[:, None].expand(-1, width))[0], "result"
    sums = arrays["x"].abs().float().reshape(places, width).index_add_(0, to, arrays["src"].abs().float().reshape(-1, width))
    return shown((counts[:, None] + 4) * epsilon * sums)[0], "value"

# SPDX-License-Identifier: Apache-2.0
"""torch_scatter's functions on sow: the same names, signatures and meaning, with exact sums and one set of bits.

    from sow.compat.torch_scatter import scatter, scatter_softmax, segment_csr

Sums and means are exact and rounded once; the steps of softmax, logsumexp and their like are in float64. Where
several elements attain a minimum or maximum, the first is its argument and gets the gradient. A group without
elements has 0, and 1 for products; its argument is src.size(dim).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _core
from .._types import Reduction

__all__ = [
    "gather_coo", "gather_csr", "scatter", "scatter_add", "scatter_log_softmax", "scatter_logsumexp", "scatter_max",
    "scatter_mean", "scatter_min", "scatter_mul", "scatter_softmax", "scatter_std", "scatter_sum", "segment_coo",
    "segment_csr", "segment_max_coo", "segment_max_csr", "segment_mean_coo", "segment_mean_csr", "segment_min_coo",
    "segment_min_csr", "segment_sum_coo", "segment_sum_csr", "segment_add_coo", "segment_add_csr"]


def _keys(index: Tensor, src: Tensor, dim: int) -> Tensor:
    """One key for each slice along dim, or an index of src's rank that has its extent there."""
    if index.dim() == 1:
        return index.expand(src.size(dim))
    while index.dim() < src.dim():
        index = index.unsqueeze(-1)
    return index if index.size(dim) == src.size(dim) else index.expand(src.size())


def _axis(src: Tensor, dim: int) -> int:
    return dim + src.dim() if dim < 0 else dim


def _extent(index: Tensor, dim_size: int | None) -> int:
    if dim_size is not None:
        return dim_size
    return int(index.max()) + 1 if index.numel() else 0


def _new(src: Tensor, dim: int, size: int, value: float) -> Tensor:
    shape = list(src.shape)
    shape[dim] = size
    return torch.full(shape, value, dtype=src.dtype, device=src.device)


def _reduced(src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None, reduce: Reduction,
             empty: float = 0) -> Tensor:
    """What is met in a group, with what out holds already, or in new groups."""
    dim = _axis(src, dim)
    keys = _keys(index, src, dim)
    if out is None:
        into = _new(src, dim, _extent(index, dim_size), empty)
        if keys.dim() == 1:
            return _core.index_reduce(into, dim, keys, src, reduce, False)
        return _core.put_along_axis(into, keys, src, dim, reduce, False)
    if keys.dim() == 1:
        return _core.index_reduce_(out, dim, keys, src, reduce)
    return _core.put_along_axis_(out, keys, src, dim, reduce)


def scatter_sum(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                dim_size: int | None = None) -> Tensor:
    """The exact sum of each group, rounded once; onto `out` where it is given."""
    return _reduced(src, index, dim, out, dim_size, "add")


def scatter_add(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                dim_size: int | None = None) -> Tensor:
    """scatter_sum by its other name."""
    return scatter_sum(src, index, dim, out, dim_size)


def scatter_mul(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                dim_size: int | None = None) -> Tensor:
    """The product of each group."""
    return _reduced(src, index, dim, out, dim_size, "mul", 1)


def _counts(src: Tensor, index: Tensor, dim: int, size: int) -> Tensor:
    return _core.group_reduce(src.detach(), _keys(index, src, dim), "count", dim, size)


def scatter_mean(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                 dim_size: int | None = None) -> Tensor:
    """The mean of each group. What `out` holds is added to the sum, but does not count."""
    if out is None:
        return _reduced(src, index, dim, None, dim_size, "mean")
    dim = _axis(src, dim)
    scatter_sum(src, index, dim, out)
    counts = _counts(src, index, dim, out.size(dim)).clamp_(min=1).to(out.dtype)
    return out.div_(counts, rounding_mode=None if out.is_floating_point() else "floor")


def _extreme(src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None,
             largest: bool) -> tuple[Tensor, Tensor]:
    dim = _axis(src, dim)
    slices = src.size(dim)
    size = out.size(dim) if out is not None else _extent(index, dim_size)
    found = _core.group_reduce(src.detach(), _keys(index, src, dim), "argmax" if largest else "argmin", dim, size)
    if slices == 0:
        return (_new(src, dim, size, 0) if out is None else out), found
    value = src.gather(dim, found.clamp(max=slices - 1))
    none = found == slices
    if out is None:
        return value.masked_fill(none, 0), found
    none = none | ~(value > out if largest else value < out)
    out.copy_(torch.where(none, out, value))
    return out, found.masked_fill(none, slices)


def scatter_min(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                dim_size: int | None = None) -> tuple[Tensor, Tensor]:
    """The least of each group, and where along dim it is."""
    return _extreme(src, index, dim, out, dim_size, False)


def scatter_max(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                dim_size: int | None = None) -> tuple[Tensor, Tensor]:
    """The largest of each group, and where along dim it is."""
    return _extreme(src, index, dim, out, dim_size, True)


def scatter(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None,
            reduce: str = "sum") -> Tensor:
    """The groups of src along dim, reduced: sum = add, mul, mean, min, max.

    >>> scatter(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 0]))
    tensor([5., 0., 2.])
    """
    if reduce in ("sum", "add"):
        return scatter_sum(src, index, dim, out, dim_size)
    if reduce == "mul":
        return scatter_mul(src, index, dim, out, dim_size)
    if reduce == "mean":
        return scatter_mean(src, index, dim, out, dim_size)
    if reduce in ("min", "max"):
        return _extreme(src, index, dim, out, dim_size, reduce == "max")[0]
    raise ValueError(f"scatter: reduce '{reduce}' is unknown (known: sum, add, mul, mean, min, max)")


# -- composed functions


def _require_floating(src: Tensor, name: str) -> None:
    if not src.is_floating_point():
        raise ValueError(f"{name} can only be computed over tensors with floating point data types.")


def scatter_softmax(src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None) -> Tensor:
    """softmax over the elements of each group."""
    _require_floating(src, "`scatter_softmax`")
    dim = _axis(src, dim)
    return _core.group_softmax(src, _keys(index, src, dim), dim, _extent(index, dim_size))


def scatter_log_softmax(src: Tensor, index: Tensor, dim: int = -1, eps: float = 1e-12,
                        dim_size: int | None = None) -> Tensor:
    """log_softmax over the elements of each group. eps has no use here: nothing vanishes on the way."""
    _require_floating(src, "`scatter_log_softmax`")
    dim = _axis(src, dim)
    return _core.group_log_softmax(src, _keys(index, src, dim), dim, _extent(index, dim_size))


def scatter_logsumexp(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None,
                      dim_size: int | None = None, eps: float = 1e-12) -> Tensor:
    """The logarithm of the sum of exponentials of each group; with what `out` holds as one more element."""
    _require_floating(src, "`scatter_logsumexp`")
    dim = _axis(src, dim)
    if out is not None and dim_size is not None:
        assert out.size(dim) == dim_size, "dim_size must be that of out"
    size = out.size(dim) if out is not None else _extent(index, dim_size)
    result = _core.group_reduce(src, _keys(index, src, dim), "logsumexp", dim, size)
    return result if out is None else out.copy_(torch.logaddexp(out, result))


def scatter_std(src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None,
                unbiased: bool = True) -> Tensor:
    """The standard deviation of each group; 0 where it has none."""
    dim = _axis(src, dim)
    size = out.size(dim) if out is not None else _extent(index, dim_size)
    keys = _keys(index, src, dim)
    mean = scatter_mean(src, index, dim, None, size)
    spread = mean.index_select(dim, keys) if keys.dim() == 1 else mean.gather(dim, keys.expand(src.size()))
    off = src - spread
    squares = scatter_sum(off * off, index, dim, out, size)
    counts = _counts(src, index, dim, size).sub(1 if unbiased else 0).clamp_(min=1).to(src.dtype)
    result = (squares / counts).sqrt()
    return result if out is None else out.copy_(result)


# -- segments: sorted indices (coo), and pointers (csr), along their last dimension


def _pointers_to_index(indptr: Tensor, count: int) -> Tensor:
    """Which segment each of `count` slices is in; the number of segments where it is in none."""
    places = torch.arange(count, device=indptr.device).expand(*indptr.shape[:-1], count).contiguous()
    found = torch.searchsorted(indptr.contiguous(), places, right=True) - 1
    return found.masked_fill(found < 0, indptr.size(-1) - 1)


def _csr_keys(src: Tensor, indptr: Tensor) -> tuple[Tensor, int, int]:
    dim = indptr.dim() - 1
    indptr = indptr.expand(*src.shape[:dim], indptr.size(-1))
    index = _pointers_to_index(indptr, src.size(dim))
    while dim > 0 and index.dim() < src.dim():
        index = index.unsqueeze(-1)
    return index, dim, indptr.size(-1) - 1


def segment_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum") -> Tensor:
    """Segments of src between pointers, reduced: sum = add, mean, min, max. `out` is overwritten."""
    if reduce in ("min", "max"):
        return _extreme_csr(src, indptr, out, reduce == "max")[0]
    if reduce not in ("sum", "add", "mean"):
        raise ValueError(f"segment_csr: reduce '{reduce}' is unknown (known: sum, add, mean, min, max)")
    keys, dim, size = _csr_keys(src, indptr)
    # One more group takes what is in no segment.
    result = _reduced(src, keys, dim, None, size + 1, "mean" if reduce == "mean" else "add").narrow(dim, 0, size)
    return result if out is None else out.copy_(result)


def _extreme_csr(src: Tensor, indptr: Tensor, out: Tensor | None, largest: bool) -> tuple[Tensor, Tensor]:
    keys, dim, size = _csr_keys(src, indptr)
    value, found = _extreme(src, keys, dim, None, size + 1, largest)
    value, found = value.narrow(dim, 0, size), found.narrow(dim, 0, size)
    return (value if out is None else out.copy_(value)), found


def segment_sum_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The exact sum of each segment."""
    return segment_csr(src, indptr, out, "sum")


segment_add_csr = segment_sum_csr


def segment_mean_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The mean of each segment."""
    return segment_csr(src, indptr, out, "mean")


def segment_min_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The least of each segment, and where it is."""
    return _extreme_csr(src, indptr, out, False)


def segment_max_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest of each segment, and where it is."""
    return _extreme_csr(src, indptr, out, True)


def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """Each element as often as its segment is long."""
    dim = indptr.dim() - 1
    indptr = indptr.expand(*src.shape[:dim], indptr.size(-1))
    count = int(indptr.flatten()[-1]) if indptr.numel() else 0
    return gather_coo(src, _pointers_to_index(indptr, count), out)


def _coo_keys(index: Tensor, src: Tensor) -> tuple[Tensor, int]:
    dim = index.dim() - 1
    return (index if dim == 0 else index.expand(*src.shape[:dim], index.size(-1))), dim


def segment_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None,
                reduce: str = "sum") -> Tensor:
    """scatter along the last dimension of a sorted index: sum = add, mean, min, max."""
    keys, dim = _coo_keys(index, src)
    if reduce == "mul":
        raise ValueError("segment_coo: reduce 'mul' is unknown (known: sum, add, mean, min, max)")
    return scatter(src, keys, dim, out, dim_size, reduce)


def segment_sum_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The exact sum of each group of a sorted index."""
    return segment_coo(src, index, out, dim_size, "sum")


segment_add_coo = segment_sum_coo


def segment_mean_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The mean of each group of a sorted index."""
    return segment_coo(src, index, out, dim_size, "mean")


def segment_min_coo(src: Tensor, index: Tensor, out: Tensor | None = None,
                    dim_size: int | None = None) -> tuple[Tensor, Tensor]:
    """The least of each group of a sorted index, and where it is."""
    keys, dim = _coo_keys(index, src)
    return scatter_min(src, keys, dim, out, dim_size)


def segment_max_coo(src: Tensor, index: Tensor, out: Tensor | None = None,
                    dim_size: int | None = None) -> tuple[Tensor, Tensor]:
    """The largest of each group of a sorted index, and where it is."""
    keys, dim = _coo_keys(index, src)
    return scatter_max(src, keys, dim, out, dim_size)


def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The slices of src that a sorted index names along its last dimension."""
    keys, dim = _coo_keys(index, src)
    if dim == 0:
        result = _core.index_select(src, 0, keys)
    else:
        while keys.dim() < src.dim():
            keys = keys.unsqueeze(-1)
        result = _core.take_along_axis(src, keys, dim)
    return result if out is None else out.copy_(result)

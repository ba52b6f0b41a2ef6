# SPDX-License-Identifier: Apache-2.0
"""Counting with edges and keys: histogram, histogramdd and unique."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from . import _core


def _edges(x: Any, bins: Any, limits: tuple[float, float] | None) -> Any:
    """The edges that numpy.histogram takes for these arguments."""
    import numpy as np

    if not isinstance(bins, int):
        return np.asarray(bins)
    host = _host(x)
    return np.histogram_bin_edges(host.view(np.uint8) if host.dtype == bool else host, bins, limits)


def _host(x: Any) -> Any:
    """The array as NumPy's, for its extent and its type."""
    import numpy as np

    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach"):
        x = x.detach()
    if hasattr(x, "cpu"):
        x = x.cpu()
    return np.asarray(_core.asarray(x))


def _like(x: Any, edges: Any) -> Any:
    """Edges as the kind of array that x is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.from_numpy(edges).to(x.device)
    return _core.asarray(edges) if isinstance(x, _core.Tensor) else edges


def _array(x: Any) -> Any:
    """An array as it is, lists and numbers as sow's."""
    return x if hasattr(x, "reshape") and hasattr(x, "shape") else _core.asarray(x)


def _bin_index(x: Any, edges: Any) -> Any:
    import numpy as np

    if edges.dtype.kind == "c":
        raise TypeError("histogram: bins are complex; edges must have an order")
    wide = np.ascontiguousarray(edges, dtype=np.float64)
    return _core.bin_index(x, _like(x, wide))


def _count(index: Any, weights: Any, bins: int) -> Any:
    return _core.bincount(index.reshape(-1), None if weights is None else _array(weights).reshape(-1), bins, bounds="drop")


def histogram(x: Any, bins: int | Sequence[float] = 10, range: tuple[float, float] | None = None,
              weights: Any = None) -> tuple[Any, Any]:
    """How many elements of x are in each bin, and the bins' edges; as numpy.histogram.

    bins: how many of equal width, between the ends of `range` or of the data, or their edges. A bin includes its
    lower edge, the last one both. weights: of each element, summed exactly in their own type.

    >>> sow.histogram(np.array([0.0, 0.5, 1.0, 4.0]), bins=2)
    (array([3, 1]), array([0., 2., 4.]))
    """
    x = _array(x)
    edges = _edges(x, bins, range)
    if edges.ndim != 1 or len(edges) < 1:
        raise ValueError(f"histogram: bins have shape {edges.shape}; they must be a number or edges in one dimension")
    return _count(_bin_index(x, edges), weights, len(edges) - 1), _like(x, edges)


def histogramdd(sample: Any, bins: int | Sequence[Any] = 10, range: Sequence[Any] | None = None,
                weights: Any = None) -> tuple[Any, list[Any]]:
    """How many rows of sample are in each cell of a grid, and the edges along each dimension; as numpy.histogramdd.

    bins: a number for every dimension, or for each of them a number or edges.

    >>> counts, edges = sow.histogramdd(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), bins=2)
    >>> counts
    array([[1, 0],
           [1, 1]])
    """
    sample = _array(sample)
    if len(sample.shape) != 2:
        raise ValueError(f"histogramdd: sample has shape {tuple(sample.shape)}; it must have rows of coordinates")
    dimensions = int(sample.shape[1])
    each = [bins] * dimensions if isinstance(bins, int) else list(bins)
    limits = [None] * dimensions if range is None else list(range)
    if len(each) != dimensions or len(limits) != dimensions:
        raise ValueError(f"histogramdd: bins and range must be for the {dimensions} columns of sample")
    all_edges: list[Any] = []
    shape: list[int] = []
    cell: Any = None
    inside: Any = None
    for d, (own, limit) in enumerate(zip(each, limits)):
        column = sample[:, d]
        edges = _edges(column, own, limit)
        place = _bin_index(column, edges)
        count = len(edges) - 1
        kept = _core.lt(place, count)
        cell = place if cell is None else _core.add(_core.mul(cell, count), place)
        inside = kept if inside is None else _core.bitwise_and(inside, kept)
        all_edges.append(_like(sample, edges))
        shape.append(count)
    size = 1
    for extent in shape:
        size *= extent
    if cell is None:
        raise ValueError("histogramdd: sample has no columns")
    # What is outside in one dimension is outside of the grid.
    counts = _count(_core.where(inside, cell, size), weights, size)
    return counts.reshape(shape), all_edges


def unique(keys: Any, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The distinct keys in ascending order: integers, or the rows of a matrix of integers.

    return_inverse: also which of them each key is, the index for a reduction by group.
    return_counts: also how often each is there. The data is read.

    >>> sow.unique(np.array([7, 3, 7]), return_inverse=True)
    (array([3, 7]), array([1, 0, 1]))
    """
    found, inverse, counts = _core._unique(keys)
    wanted = (found, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return wanted if len(wanted) > 1 else found

# SPDX-License-Identifier: Apache-2.0
"""The same inside of JAX's shard_map, where `group` is the name of an axis and every part has the same shape.

Shapes are static there: each rank sends blocks of one capacity to every other, filled up with keys that are
dropped. They have room for twice the even share; where some rank needs more, all take blocks that always do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .. import index_copy as _index_copy
from .. import index_reduce as _index_reduce
from .. import index_select as _index_select


def _expect_axis(axis: int, op: str, x: Any) -> None:
    if axis != 0 and axis != -x.ndim:
        raise ValueError(f"{op}: axis {axis}; the destination is cut by rows, so that an index must be of axis 0")


def _resolve(keys: Any, total: int, bounds: str, axis: str) -> Any:
    """Keys from 0 to total, those that are dropped -1. A bad key is an error on every rank, before anything travels."""
    keys = keys.astype(jnp.int64 if jax.config.jax_enable_x64 else jnp.int32)
    wrapped = jnp.where(keys < 0, keys + total, keys)
    bad = (wrapped < 0) | (wrapped >= total)
    if bounds == "drop":
        return jnp.where(bad, -1, wrapped)
    if bounds == "clip" and total > 0:
        return jnp.clip(wrapped, 0, total - 1)
    if keys.size == 0:
        return wrapped
    size, rank = lax.axis_size(axis), lax.axis_index(axis)
    first = lax.pmin(jnp.where(bad.any(), rank, size), axis)
    value = lax.psum(jnp.where(rank == first, keys[jnp.argmax(bad)], 0), axis)
    check = _index_select(jnp.zeros(1, jnp.uint8), 0, jnp.where(first < size, value, 0)[None])
    return wrapped + check.astype(wrapped.dtype)  # zero; nothing goes on before the check


class _Blocks:
    """Where each key goes: a block of `capacity` slots for every rank."""

    def __init__(self, keys: Any, rows: int, capacity: int, axis: str):
        self.axis, self.size, self.capacity = axis, lax.axis_size(axis), capacity
        owner = jnp.where(keys < 0, self.size, keys // max(rows, 1)).astype(jnp.int32)
        order = jnp.argsort(owner, stable=True)
        begins = jnp.searchsorted(owner[order], jnp.arange(self.size + 1, dtype=jnp.int32))
        slots = begins[:-1, None] + jnp.arange(capacity)[None, :]
        used = (slots < begins[1:, None]).reshape(-1)
        # Positions of the updates in each slot; one past the end where there is none.
        self.positions = jnp.where(used, order[jnp.clip(slots.reshape(-1), 0, max(keys.size - 1, 0))], keys.size)
        local = _take(keys, self.positions) - jnp.repeat(jnp.arange(self.size), capacity) * rows
        self.keys = self.exchange(jnp.where(used, local, rows))  # past the end: dropped
        within = jnp.zeros(keys.size, owner.dtype).at[order].set(
            jnp.arange(keys.size, dtype=owner.dtype) - begins[owner[order]].astype(owner.dtype))
        self.slot = jnp.where(owner < self.size, owner * capacity + within, self.size * capacity)

    def exchange(self, rows: Any) -> Any:
        return lax.all_to_all(rows, self.axis, 0, 0, tiled=True)

    def send(self, source: Any) -> Any:
        return self.exchange(_take(source, self.positions))


def _take(rows: Any, positions: Any) -> Any:
    return _index_select(rows, 0, positions, bounds="drop")


def _with_room(keys: Any, rows: int, axis: str, run: Callable[..., Any], *arrays: Any) -> Any:
    """run(blocks, *arrays) with blocks that have room for all."""
    size, count = lax.axis_size(axis), keys.size
    capacity = 2 * -(-count // size)
    if size <= 2 or capacity >= count:
        return run(_Blocks(keys, rows, count, axis), *arrays)
    owner = jnp.where(keys < 0, size, keys // max(rows, 1))
    most = lax.pmax(jnp.bincount(owner, length=size + 1)[:size].max(), axis)
    return lax.cond(most > capacity,
                    lambda k, *a: run(_Blocks(k, rows, count, axis), *a),
                    lambda k, *a: run(_Blocks(k, rows, capacity, axis), *a), keys, *arrays)


def index_reduce(op: str, x: Any, axis: int, index: Any, source: Any, reduce: Any, include_self: bool, group: str,
                 bounds: str) -> Any:
    _expect_axis(axis, op, x)
    x, source, index = jnp.asarray(x), jnp.asarray(source), jnp.asarray(index)
    if x.dtype != source.dtype:
        raise TypeError(f"{op}: x is {x.dtype} but source is {source.dtype}; they must have the same type")
    if source.shape != (index.size, *x.shape[1:]):
        raise ValueError(f"{op}: source has shape {list(source.shape)}; for {index.size} keys and x {list(x.shape)} it must be {[index.size, *x.shape[1:]]}")
    keys = _resolve(index.reshape(-1), x.shape[0] * lax.axis_size(group), bounds, group)
    if index.size == 0:
        return x

    def run(blocks: _Blocks, x: Any, source: Any) -> Any:
        rows = blocks.send(source)
        if reduce == "assign":
            return _index_copy(x, 0, blocks.keys, rows, bounds="drop")
        return _index_reduce(x, 0, blocks.keys, rows, reduce, include_self, bounds="drop")

    return _with_room(keys, x.shape[0], group, run, x, source)


def index_select(x: Any, axis: int, index: Any, group: str, bounds: str) -> Any:
    _expect_axis(axis, "index_select", x)
    x, index = jnp.asarray(x), jnp.asarray(index)
    keys = _resolve(index.reshape(-1), x.shape[0] * lax.axis_size(group), bounds, group)
    if index.size == 0:
        return jnp.zeros((0, *x.shape[1:]), x.dtype)

    def run(blocks: _Blocks, x: Any) -> Any:
        found = blocks.exchange(_take(x, blocks.keys))
        return _take(found, blocks.slot)

    return _with_room(keys, x.shape[0], group, run, x)


def scatter_nd(op: str, x: Any, indices: Any, updates: Any, reduce: str, negate: bool, group: str, bounds: str) -> Any:
    x, indices, updates = jnp.asarray(x), jnp.asarray(indices), jnp.asarray(updates)
    depth = indices.shape[-1]
    extents = (x.shape[0] * lax.axis_size(group), *x.shape[1:depth])
    total = 1
    for extent in extents:
        total *= extent
    key, good = jnp.zeros(indices.shape[:-1], indices.dtype), True
    for d, extent in enumerate(extents):
        place = indices[..., d]
        place = jnp.where(place < 0, place + extent, place)
        place = jnp.clip(place, 0, extent - 1) if bounds == "clip" else place
        good = good & (place >= 0) & (place < extent)
        key = key * extent + place
    keys = jnp.where(good, key, total).reshape(-1)
    places = total // lax.axis_size(group)
    flat = x.reshape(places, *x.shape[depth:])
    rows = updates.reshape(keys.size, *x.shape[depth:])
    return index_reduce(op, flat, 0, keys, -rows if negate else rows, reduce, True, group, bounds).reshape(x.shape)

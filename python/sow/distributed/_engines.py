# SPDX-License-Identifier: Apache-2.0
"""How ranks talk: torch.distributed and mpi4py behind the four things that an exchange needs."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .. import _core
from .._tiles import tiles
from ..cuda import _following

_by_group: Any = weakref.WeakKeyDictionary()
_by_handle: dict[Any, Any] = {}


class TorchEngine:
    """A ProcessGroup: tensors travel from where they lie if a backend of the group takes them there (nccl on GPUs, gloo
    on CPUs), else from the memory that it does take."""

    def __init__(self, group: Any):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.group = torch, dist, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        backends = dict(pair.split(":") for pair in dist.get_backend_config(group).split(","))
        # gloo takes CUDA tensors too, but not in every build of torch; it copies them to the CPU itself.
        self.takes = {device for device, backend in backends.items() if device == "cpu" or backend != "gloo"}
        self.home = "cpu" if "cpu" in self.takes else getattr(group, "bound_device_id", None) or next(iter(self.takes))

    def gather(self, mine: bytes) -> bytes:
        torch = self.torch
        given = torch.frombuffer(bytearray(mine), dtype=torch.uint8).to(self.home)
        out = [torch.empty_like(given) for _ in range(self.size)]
        self.dist.all_gather(out, given, group=self.group)
        return bytes(torch.cat(out).cpu().numpy().tobytes())

    def exchange(self, rows: Any, send: list[int], into: Any, receive: list[int]) -> None:
        torch = self.torch
        given, out = torch.from_dlpack(rows), torch.from_dlpack(into)
        if given.device.type in self.takes:
            self.dist.all_to_all_single(out, given, receive, send, group=self.group)
            return
        moved = torch.empty_like(out, device=self.home)
        self.dist.all_to_all_single(moved, given.to(self.home), receive, send, group=self.group)
        out.copy_(moved)


class MpiEngine:
    """A communicator of mpi4py."""

    def __init__(self, comm: Any):
        from mpi4py import MPI

        self.mpi, self.comm = MPI, comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def gather(self, mine: bytes) -> bytes:
        out = bytearray(len(mine) * self.size)
        self.comm.Allgather([mine, self.mpi.BYTE], [out, self.mpi.BYTE])
        return bytes(out)

    def exchange(self, rows: Any, send: list[int], into: Any, receive: list[int]) -> None:
        import numpy

        here = rows.device == "cpu"  # not every MPI takes addresses of a GPU
        out = into if here else into.to("cpu")
        row = self.mpi.BYTE.Create_contiguous(rows.shape[1]).Commit()
        try:
            self.comm.Alltoallv([numpy.from_dlpack(rows.to("cpu")), send, _begins(send), row],
                                [numpy.from_dlpack(out), receive, _begins(receive), row])
        finally:
            row.Free()
        if not here:
            into.copy_(out.to(into.device))


def _begins(counts: list[int]) -> list[int]:
    out = [0]
    for count in counts[:-1]:
        out.append(out[-1] + count)
    return out


def _is_engine(group: Any) -> bool:
    return all(hasattr(group, name) for name in ("rank", "size", "gather", "exchange")) and not hasattr(group, "Get_rank")


def _make(group: Any) -> Any:
    module = type(group).__module__.split(".")[0]
    if module == "mpi4py":
        return MpiEngine(group)
    if _is_engine(group) and module != "torch":
        return group
    if module == "torch":
        return TorchEngine(group)
    raise TypeError(f"distributed: group is a {type(group).__name__}; it must be a torch ProcessGroup, an mpi4py "
                    "communicator, or inside of shard_map the name of an axis")


def exchange_of(group: Any) -> Any:
    """The exchange over a group, the same one each time."""
    if group is None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise ValueError("distributed: no group was given, and torch.distributed is not initialised")
        group = dist.group.WORLD
    if type(group).__module__.split(".")[0] == "mpi4py":  # every handle is an object of its own
        from mpi4py import MPI

        key = MPI._handleof(group)
        if key not in _by_handle:
            _by_handle[key] = _core._exchange_by(_make(group))
        return _by_handle[key]
    found = _by_group.get(group)
    if found is None:
        found = _by_group[group] = _core._exchange_by(_make(group))
    return found


def any_rank(exchange: Any, op: str, mine: bool) -> bool:
    """Whether it is so on any rank: all go the same way then. Ranks that make another call are named."""
    return any(exchange.agree(op, "its arguments", mine))


@contextlib.contextmanager
def apart(array: Any) -> Iterator[None]:
    """Inside, work is on the stream of the library that owns the array, between that library's own, and no tile shape
    holds: what travels is no destination of the caller's."""
    with tiles(()), _following(array):
        yield


def works_apart(argument: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a function: inside of apart(this argument)."""
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*arguments: Any, **options: Any) -> Any:
            with apart(arguments[argument]):
                return function(*arguments, **options)

        return inside

    return decorate

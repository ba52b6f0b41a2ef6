# SPDX-License-Identifier: Apache-2.0
"""sow under torch's own names: existing models use it without being changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import sow

_INDEX_TYPES = (torch.int64, torch.int32)
_REDUCTIONS: dict[str, Any] = {"sum": "add", "prod": "mul", "mean": "mean", "amax": "amax", "amin": "amin"}
_left = NotImplemented


def _fits(x: Tensor, index: Tensor, source: Any = None) -> bool:
    """Whether sow takes these; everything else is torch's."""
    if index.dtype not in _INDEX_TYPES or x.layout is not torch.strided:
        return False
    if isinstance(source, Tensor) and source.dtype is not x.dtype:
        return False
    # Where torch refuses negative indices, so does its kernel, which says so. A device is not waited for.
    return not (index.device.type == "cpu" and index.numel() and int(index.min()) < 0)


# -- one function for each name


def _index_add(form: str) -> Callable[..., Any]:
    def call(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
        if alpha != 1 or not _fits(x, index, source) or source.dim() != x.dim():
            return _left
        return getattr(sow, form)(x, dim, index, source)

    return call


def _index_copy(form: str) -> Callable[..., Any]:
    def call(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
        if not _fits(x, index, source) or source.dim() != x.dim():
            return _left
        return getattr(sow, form)(x, dim, index, source)

    return call


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    return sow.index_fill_(x, dim, index, value) if _fits(x, index, value) else _left


def _scatter(form: str, reduce: str | None = None) -> Callable[..., Any]:
    def call(x: Tensor, dim: int, index: Tensor, src: Any) -> Any:
        if not _fits(x, index, src):
            return _left
        return getattr(sow, form)(x, dim, index, src, reduce=reduce)

    return call


def _scatter_named(form: str) -> Callable[..., Any]:
    def call(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Any:
        return _scatter(form, {"add": "add", "multiply": "mul"}[reduce])(x, dim, index, src)

    return call


def _scatter_reduce(form: str) -> Callable[..., Any]:
    def call(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *,
             include_self: bool = True) -> Any:
        if not _fits(x, index, src) or reduce not in _REDUCTIONS:
            return _left
        return getattr(sow, form)(x, dim, index, src, _REDUCTIONS[reduce], include_self)

    return call


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    if mask.dtype is not torch.bool or source.dtype is not x.dtype:
        return _left
    return sow.masked_scatter_(x, mask, source)


def _index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False, unsafe: bool = False) -> Any:
    if not accumulate or not indices or any(i is None for i in indices) or values.dtype is not x.dtype:
        return _left
    if any(i.dtype not in (*_INDEX_TYPES, torch.bool) for i in indices):
        return _left
    return sow.index_put_(x, tuple(indices), values, accumulate=True)


def _embedding(grad: Tensor, indices: Tensor, count: int, padding: int, by_frequency: bool) -> Any:
    if by_frequency or indices.dtype not in _INDEX_TYPES:
        return _left
    rows = grad.reshape(-1, grad.shape[-1])
    keys = indices.reshape(-1)
    if padding >= 0:
        keys = torch.where(keys == padding, count, keys)
    zeros = rows.new_zeros(count, rows.shape[1])
    return sow.index_add_(zeros, 0, keys, rows, bounds="drop" if padding >= 0 else "error")


_KERNELS: dict[str, Callable[..., Any]] = {
    "index_add": _index_add("index_add"),
    "index_add_": _index_add("index_add_"),
    "index_copy": _index_copy("index_copy"),
    "index_copy_": _index_copy("index_copy_"),
    "index_fill_.int_Scalar": _index_fill,
    "index_fill_.int_Tensor": _index_fill,
    "scatter.src": _scatter("scatter"),
    "scatter_.src": _scatter("scatter_"),
    "scatter.value": _scatter("scatter"),
    "scatter_.value": _scatter("scatter_"),
    "scatter.reduce": _scatter_named("scatter"),
    "scatter_.reduce": _scatter_named("scatter_"),
    "scatter.value_reduce": _scatter_named("scatter"),
    "scatter_.value_reduce": _scatter_named("scatter_"),
    "scatter_add": _scatter("scatter", "add"),
    "scatter_add_": _scatter("scatter_", "add"),
    "scatter_reduce.two": _scatter_reduce("scatter_reduce"),
    "scatter_reduce_.two": _scatter_reduce("scatter_reduce_"),
    "masked_scatter_": _masked_scatter,
    "_index_put_impl_": _index_put,
    "embedding_dense_backward": _embedding,
}
_DEVICES = ("CPU", "CUDA")


class _State:
    """Who holds the names now, and what was counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.compiled_depth = 0
        self.library: Any = None
        self.sharded: Any = None
        self.decompositions: dict[Any, Any] = {}
        self.counts: dict[str, list[int]] = {}


_state = _State()


def _kernel(name: str, function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    counts = _state.counts.setdefault("aten::" + name, [0, 0])

    def run(keyset: Any, *args: Any, **keywords: Any) -> Any:
        before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # autograd is above this; its tensors still say that they require it
        try:
            result = function(*args, **keywords)
        except (IndexError, TypeError, ValueError):
            result = _left  # nothing was written: torch says in its own words what is wrong
        finally:
            torch._C._set_grad_enabled(before)
        if result is _left:
            counts[1] += 1
            return original.call_boxed(keyset, *args, **keywords)
        counts[0] += 1
        return result

    return run


def _install() -> None:
    if not hasattr(torch.library, "get_kernel") or not hasattr(torch.library.Library, "_destroy"):
        raise RuntimeError(f"patched: torch {torch.__version__} cannot give its kernels back "
                           "(torch.library.get_kernel); call sow's functions by their names instead")
    library = torch.library.Library("aten", "IMPL")
    options: dict[str, Any] = {"with_keyset": True}
    if "allow_override" in torch.library.Library.impl.__code__.co_varnames:
        options["allow_override"] = True
    try:
        for device in _DEVICES:
            if device == "CUDA" and not torch.cuda.is_available():
                continue
            for name, function in _KERNELS.items():
                original = torch.library.get_kernel("aten::" + name, device)
                library.impl(name, _kernel(name, function, original), device, **options)
    except BaseException:
        library._destroy()
        raise
    _state.library = library
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        from ._sharded_rows import Handlers

        _state.sharded = Handlers()


# -- compiled code: Inductor looks into a table of its own


def _decompositions() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten

    def fits(x: Tensor, index: Tensor, source: Any) -> bool:
        return index.dtype in _INDEX_TYPES and (not isinstance(source, Tensor) or source.dtype is x.dtype)

    def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
        if alpha != 1 or not fits(x, index, source):
            return NotImplemented
        return sow.index_add(x, dim, index, source)

    def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
        return sow.index_copy(x, dim, index, source) if fits(x, index, source) else NotImplemented

    def scatter(x: Tensor, dim: int, index: Tensor, src: Any) -> Any:
        return sow.scatter(x, dim, index, src) if fits(x, index, src) else NotImplemented

    def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
        return sow.scatter_add(x, dim, index, src) if fits(x, index, src) else NotImplemented

    def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *,
                       include_self: bool = True) -> Any:
        if not fits(x, index, src):
            return NotImplemented
        return sow.scatter_reduce(x, dim, index, src, _REDUCTIONS[reduce], include_self)

    def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
        return sow.masked_scatter(x, mask, source) if source.dtype is x.dtype else NotImplemented

    def index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
        if not accumulate or any(i is None or i.dtype not in _INDEX_TYPES for i in indices):
            return NotImplemented
        return sow.index_put(x, list(indices), values, accumulate=True)

    def embedding(grad: Tensor, indices: Tensor, count: int, padding: int, by_frequency: bool) -> Any:
        if by_frequency:
            return NotImplemented
        rows, keys = grad.reshape(-1, grad.shape[-1]), indices.reshape(-1)
        if padding >= 0:
            keys = torch.where(keys == padding, count, keys)
        zeros = rows.new_zeros(count, rows.shape[1])
        return sow.index_add(zeros, 0, keys, rows, bounds="drop" if padding >= 0 else "error")

    return {
        aten.index_add.default: index_add,
        aten.index_copy.default: index_copy,
        aten.scatter.src: scatter,
        aten.scatter.value: scatter,
        aten.scatter_add.default: scatter_add,
        aten.scatter_reduce.two: scatter_reduce,
        aten.masked_scatter.default: masked_scatter,
        aten.index_put.default: index_put,
        aten.embedding_dense_backward.default: embedding,
    }


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    counts = _state.counts.setdefault("compiled " + name, [0, 0])

    def run(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        counts[1 if result is NotImplemented else 0] += 1
        return result

    return run


def _tables() -> list[dict[Any, Any]]:
    import torch._inductor.decomposition as decomposition

    tables = [decomposition.decompositions]
    fast = getattr(decomposition, "fast_random_decomps", None)
    if fast is not None:
        tables.append(fast())  # cached by torch
    return tables


def _install_compiled() -> None:
    import torch._functorch.config as config

    for number, table in enumerate(_tables()):
        for op, function in _decompositions().items():
            _state.decompositions[number, op] = table.get(op)
            table[op] = _counted(str(op), function)
    # Graphs are remembered by what they were before they were taken apart.
    _state.decompositions["cache"] = config.enable_autograd_cache
    config.enable_autograd_cache = False


def _remove_compiled() -> None:
    import torch._functorch.config as config

    config.enable_autograd_cache = _state.decompositions.pop("cache")
    tables = _tables()
    for (number, op), before in _state.decompositions.items():
        if before is None:
            tables[number].pop(op, None)
        else:
            tables[number][op] = before
    _state.decompositions.clear()


def _begin(inductor: bool) -> None:
    with _state.lock:
        if _state.depth == 0:
            _install()
        _state.depth += 1
        if inductor:
            if _state.compiled_depth == 0:
                _install_compiled()
            _state.compiled_depth += 1


def _end(inductor: bool) -> None:
    with _state.lock:
        if inductor:
            _state.compiled_depth -= 1
            if _state.compiled_depth == 0:
                _remove_compiled()
        _state.depth -= 1
        if _state.depth == 0:
            library, _state.library = _state.library, None
            library._destroy()
            if _state.sharded is not None:
                _state.sharded.remove()
                _state.sharded = None


@contextlib.contextmanager
def patched(*, inductor: bool = False) -> Iterator[None]:
    """Inside, torch's own scatters are done by sow: index_add, index_copy, index_fill, scatter,
    scatter_add, scatter_reduce, masked_scatter, index_put with accumulate and the gradient of an
    embedding, in and out of place, on the CPU and on CUDA, with torch's gradients around them.

    Process-wide: every thread of the process sees it. It nests. What sow does not take (other types,
    an alpha, a frequency) goes to torch's kernel, and what is wrong is said by torch: only on CUDA, where
    nothing waits for the device, negative indices count from the end. inductor=True: also in functions
    that are compiled inside, by a table of Inductor's that is private to torch. Where torch.distributed is initialised
    before: updates of DTensors that are cut along the axis travel to their rows (there, too, negative indices count
    from the end).

    >>> import torch
    >>> with sow.torch.patched():
    ...     torch.zeros(2, dtype=torch.bfloat16).index_add(0, torch.zeros(1000, dtype=torch.int64),
    ...                                                    torch.ones(1000, dtype=torch.bfloat16))
    tensor([1000.,    0.], dtype=torch.bfloat16)
    """
    _begin(inductor)
    try:
        yield
    finally:
        _end(inductor)


def enable(*, inductor: bool = False) -> None:
    """patched() from now on, for the whole process. Calling it again changes nothing.

    >>> sow.torch.enable()  # doctest: +SKIP
    """
    global _enabled
    wanted = (True, inductor or _enabled[1])
    if not _enabled[0]:
        _begin(False)
    if wanted[1] and not _enabled[1]:
        with _state.lock:
            if _state.compiled_depth == 0:
                _install_compiled()
            _state.compiled_depth += 1
    _enabled = wanted


_enabled = (False, False)


def report() -> dict[str, dict[str, int]]:
    """What was taken over so far, and how often: by sow, and left to torch.

    >>> sow.torch.report()  # doctest: +SKIP
    {'aten::index_add': {'sow': 1, 'torch': 0}}
    """
    return {name: {"sow": taken, "torch": left} for name, (taken, left) in sorted(_state.counts.items())
            if taken or left}

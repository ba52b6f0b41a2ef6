# SPDX-License-Identifier: Apache-2.0
"""CUDA devices: whether there are any, and when the errors of their calls are told.

A call on a GPU returns before the device has done the work. A bad index writes nothing, and its error is
raised at the next point where sow waits for the device, or by check().
"""

import contextlib as _contextlib
from collections.abc import Callable as _Callable
from collections.abc import Iterator as _Iterator
from typing import Any as _Any

from . import _core


def available() -> bool:
    """Whether tensors can live on CUDA devices here.

    >>> sow.cuda.available() == (sow.cuda.device_count() > 0)
    True
    """
    return _core._cuda_available()


def device_count() -> int:
    """How many CUDA devices there are.

    >>> sow.cuda.device_count() >= 0
    True
    """
    return _core._cuda_device_count()


def status() -> str:
    """One line: the devices, or why there are none.

    >>> isinstance(sow.cuda.status(), str)
    True
    """
    return _core._cuda_status()


def synchronize(device: int = 0) -> None:
    """Waits for everything on the device, then raises the first error since the last time.

    >>> sow.cuda.synchronize() if sow.cuda.available() else None
    """
    _core._cuda_synchronize(device)


def check(device: int = 0) -> None:
    """Raises the first error among the calls that have finished on this thread's stream.

    >>> sow.cuda.check() if sow.cuda.available() else None
    """
    _core._cuda_check(device)


def set_debug_checks(on: bool) -> None:
    """For debugging: every call waits for the device and raises its own errors.

    >>> sow.cuda.set_debug_checks(False)
    """
    _core._cuda_set_debug_checks(on)


def _number(stream: _Any, op: str = "stream") -> int:
    """The cudaStream_t behind a stream of torch or CuPy, one with __cuda_stream__, a number or None."""
    if stream is None:
        return 0
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    raise TypeError(f"{op}: stream is {stream!r}; it must be a CUDA stream of torch or CuPy, an object with "
                    "__cuda_stream__, the number of a cudaStream_t, or None")


@_contextlib.contextmanager
def stream(stream: _Any, device: int = 0) -> _Iterator[None]:
    """Inside, this thread's calls on the device run on this stream, whoever owns their arrays.

    Without it they run on the current stream of the library that the first array is from (torch and
    CuPy), else on the default stream. stream is one of torch or CuPy, an object with __cuda_stream__,
    the number of a cudaStream_t, or None for the default stream. For a single call, give it as the
    call's own stream=; 0 is the default stream there, None the library's own.

    >>> with sow.cuda.stream(None):
    ...     sow.cuda.current_stream()
    0
    """
    _core._cuda_push_stream(_number(stream), device)
    try:
        yield
    finally:
        _core._cuda_pop_stream()


def current_stream(device: int = 0) -> int:
    """The number of the stream that this thread's calls run on, as sow.cuda.stream set it.

    >>> sow.cuda.current_stream()
    0
    """
    return _core._cuda_current_stream(device)


@_contextlib.contextmanager
def _following(array: _Any) -> _Iterator[None]:
    """Inside, calls run on the current stream of the array's library."""
    found: _Any = None if array is None else _core._cuda_stream_of(array)
    if found is None:
        yield
        return
    with stream(found[0], found[1]):
        yield


def capture(function: _Callable[[], _Any], device: int = 0) -> _core.CudaGraph:
    """Calls function once and captures what sow runs in it, instead of running it.

    The graph's launch() then runs it all, as often as wanted, on the arrays it was captured with.
    Results that function makes are filled at every launch; what waits for the device (nonzero,
    masked_select, copies to the host) cannot be captured. torch.cuda.graph around calls of sow works
    as well.

    >>> if sow.cuda.available():
    ...     x, index, one = sow.zeros([2], device="cuda"), sow.tensor([1]).to("cuda"), sow.ones([1], device="cuda")
    ...     graph = sow.cuda.capture(lambda: x.scatter_add_(0, index, one))
    ...     graph.launch()
    """
    return _core._cuda_capture(function, device)

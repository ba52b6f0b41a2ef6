"""CUDA devices: whether there are any, and when the errors of their calls are told.

A call on a GPU returns before the device has done the work. A bad index writes nothing, and its error is
raised at the next point where sow waits for the device, or by check().
"""

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

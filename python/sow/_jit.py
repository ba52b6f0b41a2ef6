"""Functions that are recorded once and then run as programs."""

import functools
from collections.abc import Callable
from typing import Any

from ._core import _Jit


def jit(function: Callable[..., Any] | None = None, *, dynamic: bool = False) -> Any:
    """A function that is recorded as a program when it is called, and run as one from then on.

    It is recorded anew for arguments of other types, ranks or extents; with dynamic=True extents do
    not count, and are -1 while it is recorded. Arguments that are no arrays count by their value.
    Arrays that it finds elsewhere become constants. The results are of the first array's kind.

    >>> @sow.jit
    ... def step(x, index, updates):
    ...     x = sow.scatter_add(x, 0, index, updates)
    ...     return sow.masked_fill(x, sow.gt(x, 2), 2.0)
    >>> step(np.ones(3, "f4"), np.array([0, 2, 0]), np.ones(3, "f4"))
    array([2., 1., 2.], dtype=float32)
    """
    if function is None:
        return functools.partial(jit, dynamic=dynamic)
    return functools.update_wrapper(_Jit(function, dynamic), function)

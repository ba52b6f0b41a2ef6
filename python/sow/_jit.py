# SPDX-License-Identifier: Apache-2.0
"""Functions that are recorded once and then run as programs."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ._core import _Jit

F = TypeVar("F", bound=Callable[..., Any])


@overload
def jit(function: F, *, dynamic: bool = False) -> F: ...
@overload
def jit(function: None = None, *, dynamic: bool = False) -> Callable[[F], F]: ...
def jit(function: Callable[..., Any] | None = None, *, dynamic: bool = False) -> Any:
    """A function that is recorded as a program when it is called, and run as one from then on.

    It is recorded anew for arguments of another structure, or arrays of other types, ranks or extents;
    with dynamic=True extents do not count, and are -1 while it is recorded. Arrays inside of lists,
    tuples, dicts and dataclasses are inputs too; whatever else is there counts by its type and its
    bits, other objects by their type and ==. Arrays that it finds elsewhere become constants. Results
    may be nested, and their arrays are of the first array's kind. The 256 programs used last are kept.

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

# SPDX-License-Identifier: Apache-2.0
"""Gradients: switching recording off, gradients of chosen inputs, and vjp for arrays of any library."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from . import _core
from ._core import Tensor


class _GradMode(contextlib.ContextDecorator):
    _on = False

    def __init__(self) -> None:
        self._before = threading.local()

    def __enter__(self) -> _GradMode:
        stack = self._before.__dict__.setdefault("stack", [])
        stack.append(_core._set_grad_enabled(self._on))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _core._set_grad_enabled(self._before.stack.pop())


class no_grad(_GradMode):
    """Record nothing on this thread: a context manager and a decorator.

    >>> w = sow.tensor([1.0]).requires_grad_()
    >>> with sow.no_grad():
    ...     print((w * 2).requires_grad)
    False
    """


class enable_grad(_GradMode):
    """Record again inside of no_grad: a context manager and a decorator.

    >>> with sow.no_grad(), sow.enable_grad():
    ...     print(sow.is_grad_enabled())
    True
    """

    _on = True


def _listed(values: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [values] if isinstance(values, Tensor) else list(values)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of outputs, weighted by grad_outputs, with respect to inputs.

    Zeros for an input that no output depends on. With create_graph they can be differentiated again.

    >>> x = sow.tensor([2.0]).requires_grad_()
    >>> first, = sow.grad(sow.pow(x, 3), x, create_graph=True)
    >>> first, sow.grad(first, x)[0]
    (Tensor([12.], dtype=float32), Tensor([12.], dtype=float32))
    """
    given: list[Any] = []
    if grad_outputs is not None:
        given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    found = _core._gradients(_listed(outputs), _listed(inputs), given, create_graph)
    return tuple(found)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__dlpack__") or hasattr(value, "__array__")


_DIFFERENTIABLE = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}


def vjp(op: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The result of an operation, and a function from its gradient to those of the arguments.

    op is an operation of sow or its name. Arrays of any library go in; the result and each gradient
    are of the kind they came as. The function returns a tuple with one entry for each positional
    argument, None where it is not differentiable.

    >>> x, src = np.zeros(3), np.array([1.0, 2.0])
    >>> y, pullback = sow.vjp("scatter_add", x, 0, [2, 2], src)
    >>> y
    array([0., 0., 3.])
    >>> pullback(np.array([1.0, 10.0, 100.0]))
    (array([  1.,  10., 100.]), None, None, array([100., 100.]))
    """
    import sow

    # On a GPU everything runs on the stream of the first array's library.
    first = next((value for value in args if _is_array(value)), None)

    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    if name.endswith("_"):
        raise ValueError(f"vjp: {name} writes into its first argument; use {name[:-1]}")
    function = getattr(sow, op, None) if isinstance(op, str) else op
    if not callable(function):
        raise ValueError(f"vjp: '{op}' is no operation of sow")

    with sow.cuda._following(first):
        return _vjp(function, args, kwargs, first)


def _vjp(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
         first: Any) -> tuple[Any, Callable[[Any], Any]]:
    import sow

    leaves: list[Tensor | None] = []
    given: list[Any] = []
    like: Any = None
    for value in args:
        leaf = None
        if _is_array(value):
            leaf = sow.asarray(value).detach()
            like = value if like is None and leaf.dtype.name in _DIFFERENTIABLE else like
            given.append(leaf)
            leaf = leaf.requires_grad_() if leaf.dtype.name in _DIFFERENTIABLE else None
        else:
            given.append(value)
        leaves.append(leaf)
    with enable_grad():
        result: Tensor = function(*given, **kwargs)
    if not isinstance(result, Tensor):
        raise TypeError(f"vjp: the function returned {type(result).__name__}; it must return one sow.Tensor")

    def pullback(gradient: Any) -> tuple[Any, ...]:
        with sow.cuda._following(first):
            return pulled(gradient)

    def pulled(gradient: Any) -> tuple[Any, ...]:
        wanted = [leaf for leaf in leaves if leaf is not None]
        if result.requires_grad:
            weight = sow.asarray(gradient).detach()
            found = iter(_core._gradients([result], wanted, [weight], False))
        else:
            found = iter([sow.zeros(leaf.shape, leaf.dtype, device=leaf.device) for leaf in wanted])
        return tuple(
            None if leaf is None else _core._as_kind_of(next(found), value)
            for leaf, value in zip(leaves, args))

    detached = result.detach()
    return (detached if like is None else _core._as_kind_of(detached, like)), pullback

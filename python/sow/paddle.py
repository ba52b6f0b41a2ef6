# SPDX-License-Identifier: Apache-2.0
"""sow inside of Paddle: dynamic graphs with gradients, static programs, and Paddle's own functions.

The plain functions of sow come here by themselves where a tensor wants a gradient or is a value of a
static program.

>>> import paddle
>>> x = paddle.zeros([3]); x.stop_gradient = False
>>> sow.index_add(x, 0, paddle.to_tensor([0, 2, 0]), paddle.ones([3])).sum().backward()
>>> x.grad.tolist()
[1.0, 1.0, 1.0]

In a static program the forward runs from Python as it is; `build()` compiles an operator for the Paddle
that is installed, once, and from then on static programs can be trained. `patched()` puts sow under
Paddle's own functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import paddle
from paddle.autograd import PyLayer

from . import _core
from ._derived import DIFFERENTIABLE, TYPES, Core, Meta, Op, Vjp, base, is_operation, read, saved_program
from ._frameworks import OPERATIONS, register

__all__ = ["build", "call", "patched"]


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """An operation of sow on Paddle's tensors, or on values of a static program.

    >>> sow.paddle.call("index_select", paddle.to_tensor([1.0, 2.0]), 0, paddle.to_tensor([1])).tolist()
    [2.0]
    """
    if not is_operation(name):
        raise ValueError(f"sow.paddle: '{name}' is no operation of sow")
    plain = name[:-1] if OPERATIONS[name].form == "in_place" else name
    op, arrays = read(plain, args, kwargs, _is_array)
    arrays = [_tensor(array) for array in arrays]
    for number, parameter in op.holes.items():
        if _dtype(arrays[number]) not in TYPES:
            raise TypeError(f"{name}: {parameter} is {_dtype(arrays[number])}, which is none of sow's types")
    if any(_is_value(array) for array in arrays):
        return _static(op, arrays)  # where an in-place form is a new value
    if plain == name:
        return _dynamic(op, arrays)[0]
    x = arrays[0]
    if x.is_leaf and not x.stop_gradient and paddle.is_grad_enabled():
        raise RuntimeError(f"{name}: {op.holes[0]} is a leaf that wants a gradient, which cannot be written in "
                           f"place; use {plain}")
    # Paddle records the assignment, so that what is written takes part in the graph; the gradient needs
    # the destination as it was.
    paddle.assign(_dynamic(op, [x.clone(), *arrays[1:]])[0], x)
    return x


def __getattr__(name: str) -> Callable[..., Any]:
    if not is_operation(name):
        raise AttributeError(f"module 'sow.paddle' has no attribute '{name}'")
    return functools.update_wrapper(functools.partial(call, name), getattr(_core, name), assigned=("__doc__",))


def _is_value(value: Any) -> bool:
    return isinstance(value, paddle.pir.Value) and not isinstance(value, paddle.Tensor)


def _is_array(value: Any) -> bool:
    return isinstance(value, (paddle.Tensor, paddle.pir.Value, np.ndarray))


def _tensor(array: Any) -> Any:
    if isinstance(array, (paddle.Tensor, paddle.pir.Value)):
        return array
    return paddle.to_tensor(np.asarray(array))


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rsplit(".", 1)[-1].lower()


def _wants_gradient(tensor: Any) -> bool:
    return not tensor.stop_gradient and _dtype(tensor) in DIFFERENTIABLE


# Dynamic graphs ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _compiled(saved: bytes) -> Any:
    return _core.Program.deserialize(saved).compile()


def _run(core: Core, tensors: Sequence[Any]) -> list[Any]:
    """Computes a core; gradients are somebody else's matter."""
    plain = [tensor.detach() for tensor in tensors]
    if isinstance(core, Op):
        filled = core.filled(plain)
        return [_tensor(getattr(_core, core.name)(**filled))]
    metas = [(tuple(plain[k].shape), _dtype(plain[k])) for _, k in core.feeds]
    return list(_compiled(saved_program(core, metas))(*(plain[k] for _, k in core.feeds)))


class _Held:
    """The tensors of a recorded call, out of PyLayer's sight, which must see one only."""

    def __init__(self, core: Core, tensors: Sequence[Any]):
        self.core, self.tensors = core, list(tensors)
        self.versions = [tensor.inplace_version for tensor in tensors]

    def gradient(self, k: int, grads: Sequence[Any]) -> Any:
        for tensor, version in zip(self.tensors, self.versions):
            if tensor.inplace_version != version:
                raise RuntimeError(f"{base(self.core).name}: a tensor that its gradient needs was written in place "
                                   "since")
        return _dynamic(Vjp(self.core, [k]), [*self.tensors, *grads])[0]


class _Recorded(PyLayer):  # type: ignore[misc]
    """A call whose gradient goes to argument k alone. Without `found` it computes nothing: its results are
    -0, which change nothing where they are added."""

    @staticmethod
    def forward(ctx: Any, held: _Held, k: int, like: list[Any] | None, tensor: Any) -> Any:
        ctx.held, ctx.k = held, k
        if like is None:
            found = _run(held.core, held.tensors)
        else:
            found = [paddle.full(shape, -0.0, dtype) for shape, dtype in like]
        return found[0] if len(found) == 1 else tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.held.gradient(ctx.k, grads)


def _sum(one: Any, other: Any) -> Any:
    """one + other, which is -0. Paddle adds no float16 on the CPU."""
    if one.dtype == paddle.float16 and one.place.is_cpu_place():
        return (one.astype(paddle.float32) + other.astype(paddle.float32)).astype(paddle.float16)
    return one + other


def _dynamic(core: Core, tensors: Sequence[Any]) -> list[Any]:
    """Computes a core and records it: one PyLayer for each tensor that wants a gradient.

    Paddle's grad() fails at a PyLayer where one of two inputs is not asked for.
    """
    wanted = [k for k, tensor in enumerate(tensors) if _wants_gradient(tensor)]
    if not wanted or not paddle.is_grad_enabled():
        return _run(core, tensors)
    held = _Held(core, tensors)
    found: list[Any] = []
    for k in wanted:
        like = [(one.shape, one.dtype) for one in found] or None
        part = _Recorded.apply(held, k, like, tensors[k])
        parts = list(part) if isinstance(part, (tuple, list)) else [part]
        if not all(_dtype(one) in DIFFERENTIABLE for one in parts):
            return _run(core, tensors)
        found = [_sum(one, other) for one, other in zip(found, parts)] if found else parts
    return found


# Static programs ---------------------------------------------------------------------------------


def _static(op: Op, values: Sequence[Any]) -> Any:
    metas = [(tuple(value.shape), _dtype(value)) for value in values]
    (shape, dtype), = op.results(metas)  # everything that needs no data is checked here
    if op.name in ("nonzero", "masked_select"):
        raise ValueError(f"{op.name}: the shape of its result depends on data, which a static program does not have")
    values = [_value(value) for value in values]
    if _operator.function is not None:
        return _operator.call(op, values, shape, dtype, metas)
    if any(_wants_gradient(value) for value in values):
        raise RuntimeError(f"{op.name}: a gradient is wanted in a static program; call sow.paddle.build() before, "
                           "which compiles an operator for the Paddle that is installed, once")
    return _from_python(op, values, shape, dtype)


def _value(tensor: Any) -> Any:
    """A tensor that meets values of a program becomes a constant of it."""
    if _is_value(tensor):
        return tensor
    with paddle.base.dygraph.base.guard():
        data = tensor.numpy()
    return paddle.assign(data)


def _from_python(op: Op, values: Sequence[Any], shape: Sequence[int], dtype: str) -> Any:
    """A Python function as an operator: forward only."""
    names = [f"x{k}" for k in range(len(values))]

    def meta(*_: Any, **__: Any) -> Any:
        return paddle.static.MetaTensor(dtype=getattr(paddle, dtype), shape=list(shape))

    def run(*tensors: Any, **named: Any) -> Any:
        return _run(op, [*tensors, *(named[name] for name in names if name in named)])[0]

    # The operator binds by the names of parameters: these have them.
    scope: dict[str, Any] = {"run": run, "meta": meta}
    exec(f"def function({', '.join(names)}): return run({', '.join(names)})\n"
         f"def infer({', '.join(names)}): return meta()", scope)
    key = hashlib.sha256(f"{op.key}{[_dtype(v) for v in values]}{list(shape)}".encode()).hexdigest()[:16]
    made = paddle.static.register_op(scope["function"], name=f"sow_{op.name}_{key}", infer_meta=scope["infer"],
                                     input_names=names, output_names=["out"])
    return made(*values)


def _written(op: Op, shape: Sequence[int], metas: Sequence[Meta], place: dict[int, int]) -> list[str]:
    """The shape of a result as the operator reads it: numbers, and where unknown extents come from."""
    if -1 not in shape:
        return [str(extent) for extent in shape]
    if op.name.startswith("masked_"):  # the destination and the mask broadcast together
        return [str(extent) if extent >= 0 else f"{place[0]}+{place[1]}.{len(shape) - d}"
                for d, extent in enumerate(shape)]
    names: dict[int, str] = {}
    tried: list[Meta] = []
    for k, (extents, dtype) in enumerate(metas):
        numbers = []
        for d, extent in enumerate(extents):
            number = 1_000_003 + 64 * k + 2 * d if extent < 0 else extent
            names[number] = f"{place[k]}.{d}"
            numbers.append(number)
        tried.append((tuple(numbers), dtype))
    try:
        (known, _), = op.results(tried)
    except ValueError:  # extents that must agree do not: those of the destination then
        return [str(extent) if extent >= 0 else f"{place[0]}.{d}" for d, extent in enumerate(shape)]
    return [str(extent) if extent < 1_000_003 else names.get(extent, f"{place[0]}.{d}")
            for d, extent in enumerate(known)]


class _Operator:
    """The compiled operator, once build() has loaded it."""

    def __init__(self) -> None:
        self.function: Any = None
        self.lock = threading.Lock()

    def call(self, op: Op, values: Sequence[Any], shape: Sequence[int], dtype: str, metas: Sequence[Any]) -> Any:
        smooth = [k for k, (_, kind) in enumerate(metas) if kind in DIFFERENTIABLE]
        others = [k for k in range(len(values)) if k not in smooth]
        place = {k: position for position, k in enumerate([*smooth, *others])}
        backward = Vjp(op, smooth) if smooth and dtype in DIFFERENTIABLE else None

        def spec(core: Core, arguments: Callable[[int], int]) -> str:
            known = [*metas, (tuple(shape), dtype)]
            feeds = [known[k] for _, k in core.feeds]
            words = " ".join(f"a{arguments(k)}" for _, k in core.feeds)
            return f"{words};;{saved_program(core, feeds).hex()}"

        forward_spec = spec(op, lambda k: place[k])
        backward_spec = spec(backward, lambda k: place.get(k, len(values))) if backward else ""
        extents = " ".join(_written(op, shape, metas, place))
        return self.function([values[k] for k in smooth], [values[k] for k in others], forward_spec,
                             backward_spec, extents, dtype)


_operator = _Operator()


def build(directory: str | os.PathLike[str] | None = None, verbose: bool = False) -> None:
    """Compiles the operator that static programs are trained with, once for each Paddle, and loads it.

    It needs the C++ compiler that Paddle's extensions need, and half a minute; the result is kept in
    `directory` (else $SOW_CACHE or ~/.cache/sow).
    """
    with _operator.lock:
        if _operator.function is not None:
            return
        from paddle.utils import cpp_extension

        here = pathlib.Path(__file__).parent
        source = here / "_paddle_operator.cc"
        mark = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
        root = pathlib.Path(directory or os.environ.get("SOW_CACHE") or pathlib.Path.home() / ".cache" / "sow")
        folder = root / f"paddle-{paddle.__version__}-{mark}"
        folder.mkdir(parents=True, exist_ok=True)
        # The operator finds the handler among the symbols of the process.
        ctypes.CDLL(str(here / "_jax_handler.so"), mode=ctypes.RTLD_GLOBAL)
        module = cpp_extension.load(name="sow_paddle_operator", sources=[str(source)], build_directory=str(folder),
                                    extra_cxx_cflags=["-O2", "-w"], verbose=verbose)
        _operator.function = module.sow_call


# Paddle's own functions --------------------------------------------------------------------------


def _patches() -> dict[str, Callable[..., Any]]:
    """What each function of Paddle becomes: a call of sow, by Paddle's arguments."""

    def masked_scatter(x: Any, mask: Any, value: Any, name: Any = None) -> Any:
        return call("masked_scatter", x, mask, value)

    def put_along_axis(arr: Any, indices: Any, values: Any, axis: int, reduce: str = "assign",
                       include_self: bool = True, broadcast: bool = True) -> Any:
        if reduce not in ("assign", "add", "mul", "multiply", "amax", "amin", "mean"):
            return NotImplemented
        if isinstance(values, paddle.Tensor) and values.dtype != arr.dtype:
            values = values.astype(arr.dtype)
        return call("put_along_axis", arr, indices, values, axis, reduce, include_self, broadcast)

    def diagonal_scatter(x: Any, y: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, name: Any = None) -> Any:
        return call("diagonal_scatter", x, y, offset, axis1, axis2)

    def index_add(x: Any, index: Any, axis: int, value: Any, name: Any = None) -> Any:
        return call("index_add", x, axis, index, value)

    def index_put(x: Any, indices: Any, value: Any, accumulate: bool = False, name: Any = None) -> Any:
        return call("index_put", x, tuple(indices), value, accumulate)

    def scatter(x: Any, index: Any, updates: Any, overwrite: bool = True, name: Any = None) -> Any:
        index = index.flatten()
        if overwrite:
            return call("index_copy", x, 0, index, updates)
        return call("index_reduce", x, 0, index, updates, "add", include_self=False)

    def scatter_nd_add(x: Any, index: Any, updates: Any, name: Any = None) -> Any:
        return call("tensor_scatter_nd_add", x, index, updates)

    return {function.__name__: function for function in (
        masked_scatter, put_along_axis, diagonal_scatter, index_add, index_put, scatter, scatter_nd_add)}


_patch_lock = threading.RLock()
_patch_depth = 0
_originals: dict[tuple[Any, str], Any] = {}


def _replacement(original: Callable[..., Any], ours: Callable[..., Any], in_place: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("x", kwargs.get("arr"))
        if isinstance(x, paddle.Tensor) and _dtype(x) in TYPES:
            try:
                found = ours(*args, **kwargs)
                if found is not NotImplemented and in_place and found.shape != x.shape:
                    found = NotImplemented
            except (TypeError, ValueError):  # of shapes and types: Paddle takes them, or says what is wrong
                found = NotImplemented
            if found is not NotImplemented:
                return paddle.assign(found, x) if in_place else found
        return original(*args, **kwargs)

    return function


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Puts sow under Paddle's masked_scatter, put_along_axis, diagonal_scatter, index_add, index_put,
    scatter and scatter_nd_add, their in-place forms and methods, in dynamic graphs.

    For the whole process, until the outermost block ends. What sow does not take goes to Paddle, and what is
    wrong is said by Paddle, except an index that is out of range: Paddle does not look at all of them.
    """
    global _patch_depth
    with _patch_lock:
        _patch_depth += 1
        if _patch_depth == 1:
            for name, ours in _patches().items():
                for owner in (paddle, paddle.Tensor):
                    for full in (name, name + "_"):
                        original = getattr(owner, full, None)
                        if original is None:
                            continue
                        _originals[owner, full] = original
                        setattr(owner, full, _replacement(original, ours, full.endswith("_")))
    try:
        yield
    finally:
        with _patch_lock:
            _patch_depth -= 1
            if _patch_depth == 0:
                for (owner, full), original in _originals.items():
                    setattr(owner, full, original)
                _originals.clear()


register("paddle", lambda op, values: call(op, **dict(zip(OPERATIONS[op].names, values))), paddle.is_grad_enabled)

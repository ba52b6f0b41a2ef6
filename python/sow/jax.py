# SPDX-License-Identifier: Apache-2.0
"""sow inside of JAX programs: jit, grad, vmap, scan, shard_map, checkpoint and export.

Nothing has to be called here: the plain functions of sow, given a tracer, come here by themselves.

>>> import jax, jax.numpy as jnp
>>> @jax.jit
... def degree(index):
...     return sow.index_add(jnp.zeros(4), 0, index, jnp.ones(index.shape))
>>> degree(jnp.array([0, 2, 2, 2]))
Array([1., 0., 3., 0.], dtype=float32)

`sow.jax.index_add` and so on are the same functions, which go through JAX for concrete arrays too. An
operation is one primitive, computed by sow in XLA's buffers; its derivatives are programs of sow, so
that gradients have eager's bits. The destination is written in place where its argument was donated.
A bad index raises a JaxRuntimeError with sow's sentence; on a GPU nothing waits for the device, and
sow.cuda.check() raises it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from . import _core
from ._derived import (
    DIFFERENTIABLE,
    TYPES,
    Core,
    Jvp,
    Meta,
    Op,
    Vjp,
    base,
    is_operation,
    read,
    saved_program,
)
from ._frameworks import OPERATIONS, register
from ._jax_sharding import Split, part_of, split

try:
    from jax import ffi
except ImportError:  # before 0.5
    from jax.extend import ffi
try:
    from jax.extend.core import Primitive
except ImportError:  # before 0.4.36
    from jax.core import Primitive

__all__ = ["call"]

_TARGET = "sow"


def _register() -> None:
    library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("_jax_handler.so")))
    ffi.register_ffi_target(_TARGET, ffi.pycapsule(library.sow_jax_cpu), platform="cpu")
    ffi.register_ffi_target(_TARGET, ffi.pycapsule(library.sow_jax_cuda), platform="CUDA")


Shape = tuple[Any, ...]  # of ints, and of symbolic dimensions while a function is exported
# For each batch dimension, outermost first, which operands have it; every result has them all.
Levels = tuple[tuple[bool, ...], ...]

sow_p = Primitive("sow")
whole_p = Primitive("sow_whole")  # the same where it is lowered, on one device or on a part
sow_p.multiple_results = whole_p.multiple_results = True


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """An operation of sow on JAX arrays or tracers.

    >>> sow.jax.call("index_select", jnp.arange(5.0), 0, jnp.array([4, -1]))
    Array([4., 4.], dtype=float32)
    """
    if name.endswith("_") and is_operation(name):
        raise TypeError(f"{name}: JAX arrays are immutable; use {name[:-1]}, which writes in place "
                        "where its argument is donated")
    if not is_operation(name):
        raise ValueError(f"sow.jax: '{name}' is no operation of sow")
    op, arrays = read(name, args, kwargs, _is_array)
    operands = [_operand(op, k, array) for k, array in enumerate(arrays)]
    return bind(op, [_widened(op, k, operand, operands[0]) for k, operand in enumerate(operands)])[0]


def __getattr__(name: str) -> Callable[..., Any]:
    if not is_operation(name):
        raise AttributeError(f"module 'sow.jax' has no attribute '{name}'")
    return functools.update_wrapper(functools.partial(call, name), getattr(_core, name), assigned=("__doc__",))


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


def _operand(op: Op, number: int, array: Any) -> Any:
    if isinstance(array, jax.Array):
        return array
    given = np.asarray(array)
    converted = jnp.asarray(given)
    if converted.dtype != given.dtype and given.dtype.kind in "fc":
        raise TypeError(f"{op.name}: {op.holes[number]} is {given.dtype}, but JAX has 64-bit types switched "
                        "off (jax_enable_x64)")
    return converted


def _widened(op: Op, number: int, operand: Any, first: Any) -> Any:
    """Integers that are added to floating values, as such: what JAX holds for linear is so in all that it differentiates.

    A number that JAX traces (a weakly typed scalar) is of the first array's type, as Python's numbers are.
    """
    if number and getattr(operand, "weak_type", False) and not operand.ndim and _is_values(op, number):
        if jnp.issubdtype(first.dtype, jnp.inexact) or operand.dtype.kind == first.dtype.kind:
            return operand.astype(first.dtype)
    added = op.name + "_" in OPERATIONS and op.holes[number] in ("source", "src", "values", "value", "updates")
    if not added or operand.dtype.kind not in "iub" or not jnp.issubdtype(first.dtype, jnp.floating):
        return operand
    digits = 1 if operand.dtype == bool else 8 * operand.dtype.itemsize - (operand.dtype.kind == "i")
    return operand.astype(first.dtype) if digits <= jnp.finfo(first.dtype).nmant + 1 else operand


def _is_values(op: Op, number: int) -> bool:
    return any(p.role == "values" and p.name == op.holes[number] for p in OPERATIONS[op.name].parameters)


def bind(core: Core, operands: Sequence[Any], levels: Levels = (),
         shapes: tuple[Meta | None, ...] = ()) -> list[Any]:
    if isinstance(core, Op):
        for number, parameter in core.holes.items():
            if str(operands[number].dtype) not in TYPES:
                raise TypeError(f"{core.name}: {parameter} is {operands[number].dtype}, which is none of "
                                "sow's types")
    return list(sow_p.bind(*_varying_alike(operands), core=core, levels=levels, shapes=shapes))


# Shapes ------------------------------------------------------------------------------------------


def _core_metas(avals: Sequence[Any], levels: Levels) -> list[Meta]:
    """Shapes and types of operands without their batch dimensions."""
    depth = [sum(level[i] for level in levels) for i in range(len(avals))]
    return [(tuple(aval.shape[d:]), str(aval.dtype)) for aval, d in zip(avals, depth)]


def _feeds(core: Core, metas: Sequence[Meta], shapes: Sequence[Meta | None]) -> list[Meta]:
    given: list[Any] = [metas[k] if kind == "a" else shapes[k] if shapes else None for kind, k in core.feeds]
    return given


@functools.lru_cache(maxsize=4096)
def _known_results(core: Core, feeds: tuple[Meta, ...]) -> tuple[Meta, ...]:
    return tuple(core.results(feeds))


def _results(core: Core, feeds: list[Meta]) -> tuple[Meta, ...]:
    symbols: dict[Any, int] = {}

    def known(extent: Any) -> int:
        if isinstance(extent, int):
            return extent
        return symbols.setdefault(extent, 1_000_003 + 2 * len(symbols))

    given = tuple(feed and (tuple(known(extent) for extent in feed[0]), feed[1]) for feed in feeds)
    results = _known_results(core, given)
    numbers = {number: extent for extent, number in symbols.items()}
    for shape, _ in results:
        if any(extent < 0 for extent in shape):
            raise ValueError(f"{base(core).name}: the shape of its result depends on data, which a JAX program does "
                             "not have; call it outside of jit, grad and vmap")
        if any(extent >= 1_000_003 and extent not in numbers for extent in shape) and symbols:
            raise ValueError(f"{base(core).name}: the shape of its result cannot be told from symbolic dimensions")
    return tuple((tuple(numbers.get(extent, extent) for extent in shape), dtype) for shape, dtype in results)


def _abstract(*avals: Any, core: Core, levels: Levels, shapes: tuple[Meta | None, ...]) -> list[Any]:
    batch = []
    for level, has in enumerate(levels):
        first = has.index(True)
        batch.append(avals[first].shape[sum(levels[k][first] for k in range(level))])
    results = _results(core, _feeds(core, _core_metas(avals, levels), shapes))
    return [_shaped((*batch, *shape), dtype, avals) for shape, dtype in results]


def _shaped(shape: Shape, dtype: str, avals: Sequence[Any]) -> Any:
    for aval in avals:
        mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
        if mesh is not None and not mesh.empty:  # inside of shard_map, or with explicit axes
            everywhere = NamedSharding(mesh, PartitionSpec(*(None for _ in shape)))
            return aval.update(shape=shape, dtype=jnp.dtype(dtype), weak_type=False, sharding=everywhere)
    return ShapedArray(shape, jnp.dtype(dtype))


def _varying(value: Any) -> frozenset[str]:
    """The axes of the mesh that a value inside of shard_map varies over."""
    aval = jax.typeof(value)
    manual = getattr(aval, "mat", None)  # since 0.10
    return getattr(aval, "vma", frozenset()) if manual is None else manual.varying


def _varying_alike(operands: Sequence[Any]) -> Sequence[Any]:
    """Inside of shard_map, operands that vary over the same axes of the mesh."""
    if not hasattr(jax, "typeof"):  # before 0.6
        return operands
    varying = [_varying(operand) for operand in operands]
    everything = frozenset().union(*varying)
    if not everything or all(own == everything for own in varying):
        return operands
    cast = functools.partial(jax.lax.pcast, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary
    return [operand if own == everything else cast(operand, tuple(everything - own))
            for operand, own in zip(operands, varying)]


# Running -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _jitted(core: Core, levels: Levels, shapes: tuple[Meta | None, ...]) -> Any:
    return jax.jit(lambda *operands: sow_p.bind(*operands, core=core, levels=levels, shapes=shapes))


def _run(*operands: Any, core: Core, levels: Levels, shapes: tuple[Meta | None, ...]) -> Any:
    return _jitted(core, levels, shapes)(*operands)


def _writes_in_place(core: Core, avals_in: Sequence[Any], avals_out: Sequence[Any], levels: Levels) -> bool:
    return (isinstance(core, Op) and hasattr(_core, core.name + "_") and all(level[0] for level in levels)
            and avals_in[0].shape == avals_out[0].shape and avals_in[0].dtype == avals_out[0].dtype)


def _lower(context: Any, *operands: Any, core: Core, levels: Levels, shapes: tuple[Meta | None, ...]) -> Any:
    """Over several devices the call is split along dimensions that no index addresses."""
    devices = getattr(context.module_context.axis_context, "device_assignment", None)
    several = devices is not None and len(devices) > 1
    dims = split(core, tuple(_inputs(context, core, levels))) if several and not levels else None
    if dims is None:
        return _lower_whole(context, *operands, core=core, levels=levels, shapes=shapes)
    return mlir.lower_fun(_partitioned(core, shapes, dims), multiple_results=True)(context, *operands)


def _partitioned(core: Core, shapes: tuple[Meta | None, ...], dims: Split) -> Any:
    function = custom_partitioning(lambda *operands: whole_p.bind(*operands, core=core, levels=(), shapes=shapes))

    def infer(mesh: Any, arguments: Any, results: Any) -> Any:
        axes = dims.axes([argument.sharding for argument in arguments])
        return dims.shardings(mesh, dims.results, axes)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        axes = dims.axes([argument.sharding for argument in arguments])
        mine = tuple(meta and (part_of(meta[0], names, mesh, axes), meta[1])
                     for meta, names in zip(shapes, dims.results))

        def part(*operands: Any) -> Any:
            return whole_p.bind(*operands, core=core, levels=(), shapes=mine)

        return (mesh, part, dims.shardings(mesh, dims.results, axes),
                tuple(dims.shardings(mesh, dims.arguments, axes)))

    more: dict[str, Any] = {}
    if "need_replication_factors" in inspect.signature(function.def_partition).parameters:  # Shardy's
        more = {"sharding_rule": dims.rule, "need_replication_factors": dims.whole}
    function.def_partition(partition=partition, infer_sharding_from_operands=infer, **more)
    return function


def _inputs(context: Any, core: Core, levels: Levels) -> list[Meta]:
    """Shapes and types of the inputs of a core's program, in a lowering."""
    metas, results = _core_metas(context.avals_in, levels), context.avals_out
    return [metas[k] if kind == "a" else (results[k].shape[len(levels):], str(results[k].dtype))
            for kind, k in core.feeds]


def _lower_whole(context: Any, *operands: Any, core: Core, levels: Levels,
                 shapes: tuple[Meta | None, ...]) -> Any:
    avals, results = context.avals_in, context.avals_out
    given = _inputs(context, core, levels)
    feeds = " ".join(f"{kind}{k}" for kind, k in core.feeds)
    batches = " ".join("".join("01"[has] for has in level) for level in levels)
    spec = f"{feeds};{batches};{saved_program(core, given).hex()}"
    aliases = {0: 0} if _writes_in_place(core, avals, results, levels) else {}
    # Newer versions say the shapes of results themselves.
    more = {} if hasattr(jax, "ffi") else _symbolic_results(context, results)
    rule = ffi.ffi_lowering(_TARGET, operand_output_aliases=aliases, **more)
    return rule(context, *operands, spec=spec)


def _symbolic_results(context: Any, results: Sequence[Any]) -> dict[str, Any]:
    if all(isinstance(extent, int) for aval in results for extent in aval.shape):
        return {}
    from jax._src.interpreters.mlir import eval_dynamic_shape_as_tensor

    return {"result_shapes": [eval_dynamic_shape_as_tensor(context, aval.shape) for aval in results]}


# Derivatives -------------------------------------------------------------------------------------


def _is_differentiable(value: Any) -> bool:
    return str(value.dtype) in DIFFERENTIABLE


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, core: Core, levels: Levels,
         shapes: tuple[Meta | None, ...]) -> tuple[list[Any], list[Any]]:
    out = bind(core, primals, levels, shapes)
    ignored = core.ignores()
    wrt = [i for i, (primal, tangent) in enumerate(zip(primals, tangents))
           if not isinstance(tangent, ad.Zero) and _is_differentiable(primal) and i not in ignored]
    if not wrt or not all(_is_differentiable(result) for result in out):
        return out, [ad.Zero(_tangent_aval(result)) for result in out]
    linear = core.linear()
    if linear is None:
        linear = frozenset(i for i, primal in enumerate(primals) if _is_differentiable(primal))
    if linear.issuperset(wrt):
        moved = [ad.instantiate_zeros(tangent) if i in linear else primal
                 for i, (primal, tangent) in enumerate(zip(primals, tangents))]
        part = core.homogeneous() if isinstance(core, Op) else core
        return out, bind(part, moved, levels, shapes)
    tangent_levels = tuple((*level, *(level[i] for i in wrt)) for level in levels)
    return out, bind(Jvp(core, wrt), [*primals, *(tangents[i] for i in wrt)], tangent_levels, shapes)


def _tangent_aval(value: Any) -> Any:
    aval = jax.typeof(value) if hasattr(jax, "typeof") else jax.core.get_aval(value)
    return aval.to_tangent_aval() if hasattr(aval, "to_tangent_aval") else aval.at_least_vspace()


def _transpose(grads: Sequence[Any], *operands: Any, core: Core, levels: Levels,
               shapes: tuple[Meta | None, ...]) -> list[Any]:
    wanted = [i for i, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    out: list[Any] = [None] * len(operands)
    if all(isinstance(grad, ad.Zero) for grad in grads):
        return [ad.Zero(operand.aval) if ad.is_undefined_primal(operand) else None for operand in operands]
    grads = [ad.instantiate_zeros(grad) for grad in grads]
    if isinstance(core, Jvp):
        before = core.inner.arguments
        wrt = [core.wrt[i - before] for i in wanted]
        kept = tuple(level[:before] for level in levels)
        found = _pull(core.inner, wrt, (), operands[:before], grads, kept, shapes)
    elif isinstance(core, Vjp):
        found = _push(core, grads, operands, wanted, levels, shapes)
    else:
        found = _pull(core, wanted, wanted, operands, grads, levels, shapes)
    for i, gradient in zip(wanted, found):
        out[i] = gradient
    return out


def _pull(core: Core, wrt: Sequence[int], missing: Sequence[int], operands: Sequence[Any],
          grads: Sequence[Any], levels: Levels, shapes: tuple[Meta | None, ...]) -> list[Any]:
    """The gradients of the operands `wrt`; those that are missing have a shape only."""
    avals = [operand.aval if ad.is_undefined_primal(operand) else operand for operand in operands]
    metas = _core_metas(avals, levels)
    # The linear part of an operation reads none of its differentiable arguments: the gradient may
    # stand for one of its shape.
    grad_meta = (tuple(grads[0].shape[len(levels):]), str(grads[0].dtype))
    alike = [i for i in range(len(operands)) if missing and i not in missing and metas[i] == grad_meta]
    conjugate = core.linear() is not None and any(dtype.startswith("complex") for _, dtype in metas)
    vjp = Vjp(core, wrt, missing, alike, conjugate=conjugate)
    given = [operands[i] for i in vjp.kept]
    flags = tuple((*(level[i] for i in vjp.kept), *(True for _ in grads)) for level in levels)
    known = tuple(metas[i] if i in missing else None for i in wrt) if missing else shapes
    found = bind(vjp, [*given, *grads], flags, known)
    # What an operand shares between the elements of a batch, its gradient sums over them.
    for position, i in enumerate(wrt):
        shared = [axis for axis, level in enumerate(levels) if not level[i]]
        if shared:
            found[position] = call("sum", found[position], shared)
    return found


def _push(core: Vjp, grads: Sequence[Any], operands: Sequence[Any], wanted: Sequence[int], levels: Levels,
          shapes: tuple[Meta | None, ...]) -> list[Any]:
    """The transpose of a gradient: the tangents of the results, for tangents of the arguments `wrt`."""
    del wanted  # the gradients of the results are all that a gradient is linear in
    count = len(core.kept)
    given = dict(zip(core.kept, operands[:count]))
    inner = core.inner
    batched = {k: tuple(level[position] for level in levels) for position, k in enumerate(core.kept)}
    everywhere = tuple(True for _ in levels)
    if inner.linear() is None and isinstance(inner, Op):
        tangents = dict(zip(core.wrt, grads))
        arguments, flags = [], []
        for k in range(inner.arguments):
            if k in tangents:
                arguments.append(tangents[k])
                flags.append(everywhere)
            elif k in given and not _is_differentiable(given[k]):
                arguments.append(given[k])
                flags.append(batched[k])
            else:  # a linear argument that no gradient is wanted of
                like = operands[count].aval if k in core.alike else given[k]
                arguments.append(jnp.zeros(like.shape, like.dtype))
                flags.append(everywhere if k in core.alike else batched[k])
        new_levels = tuple(tuple(flag[level] for flag in flags) for level in range(len(levels)))
        return bind(inner.homogeneous(), arguments, new_levels)
    new_levels = tuple((*level[:count], *(True for _ in grads)) for level in levels)
    return bind(Jvp(inner, core.wrt), [*operands[:count], *grads], new_levels, shapes)


# Batches -----------------------------------------------------------------------------------------


def _batch(operands: Sequence[Any], dims: Sequence[Any], *, core: Core, levels: Levels,
           shapes: tuple[Meta | None, ...]) -> tuple[list[Any], list[int]]:
    flags = tuple(isinstance(dim, int) for dim in dims)
    moved = [jnp.moveaxis(operand, dim, 0) if has else operand
             for operand, dim, has in zip(operands, dims, flags)]
    out = bind(core, moved, (flags, *levels), shapes)
    return out, [0] * len(out)


sow_p.def_impl(_run)
sow_p.def_abstract_eval(_abstract)
whole_p.def_abstract_eval(_abstract)
ad.primitive_jvps[sow_p] = _jvp
ad.primitive_transposes[sow_p] = _transpose
batching.primitive_batchers[sow_p] = _batch
_register()
register("jax", lambda op, values: call(op, **dict(zip(OPERATIONS[op].names, values))))
if not hasattr(jax, "typeof"):  # before 0.6 shard_map asks for rules of its own
    from jax.experimental import shard_map

    shard_map.register_standard_check(sow_p)
    shard_map.register_standard_rewrite(sow_p)
# A lowering that may split asks JAX for its devices; a jax that does not know of it gathers instead.
with contextlib.suppress(ImportError, AttributeError):
    from jax._src import dispatch as _dispatch

    _dispatch.prim_requires_devices_during_lowering.add(sow_p)
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(sow_p, _lower, platform=_platform)
    mlir.register_lowering(whole_p, _lower_whole, platform=_platform)

# SPDX-License-Identifier: Apache-2.0
"""The pages of the Python reference, read off the docstrings of the installed package."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import pkgutil
import re
import types
from typing import Any

import rest

import sow
import sow.cuda

# title: (file, names, what the page says first). What is named nowhere comes last.
GROUPS: dict[str, tuple[str, list[str], str]] = {
    "Masks": ("masks", ["masked_scatter", "masked_fill", "masked_select", "nonzero", "where"],
              "A mask addresses places by the order of its trues."),
    "Along an axis": ("along-axis", ["put_along_axis", "scatter", "scatter_add", "scatter_reduce", "take_along_axis", "gather"],
                      "An index for each element, along one axis."),
    "Whole slices": ("slices", ["index_add", "index_copy", "index_fill", "index_reduce", "index_select"],
                     "A one-dimensional index for whole rows, or slices of any axis."),
    "Groups and segments": ("groups", ["group_reduce", "group_softmax", "group_log_softmax", "segment_reduce", "segment_cumsum", "gather_csr",
                                       "unique"], "What belongs together is named by an index, or lies together."),
    "Counting": ("counting", ["bincount", "histogram", "histogramdd", "bin_index"], "How many, or how much, there is of each."),
    "Messages": ("messages", ["send_u_recv", "send_ue_recv", "send_uv"], "What travels along the edges of a graph; it is never written down."),
    "By coordinates": ("coordinates", ["index_put", "index_get", "scatter_nd", "tensor_scatter_nd_update", "tensor_scatter_nd_add",
                                       "tensor_scatter_nd_sub", "tensor_scatter_nd_max", "tensor_scatter_nd_min",
                                       "tensor_scatter_nd_mul", "gather_nd"], "Several indices together address one place."),
    "Regular places": ("regular", ["diagonal_scatter", "select_scatter", "slice_scatter", "fill_diagonal"],
                       "Places that strides describe: diagonals, slices."),
    "Views": ("views", ["diagonal", "select", "slice", "broadcast_to", "flatten", "reshape", "transpose", "unsqueeze"],
              "The same memory seen in another way."),
    "Elementwise": ("elementwise", ["add", "sub", "mul", "div", "neg", "abs", "conj", "pow", "exp", "log", "sqrt", "remainder", "bitwise_and", "bitwise_or",
                                    "bitwise_xor", "bitwise_not", "eq", "ne", "lt", "le", "gt", "ge", "sum", "mean"],
                    "The few elementwise operations that gradients and small models need, with NumPy's broadcasting."),
    "Streams and limits": ("streams", ["stream", "resume_stream", "limit_memory", "tiles", "set_tile_shape"],
                           "Many calls folded once, and bounds on what a call works on."),
    "Making arrays": ("making", ["tensor", "asarray", "from_dlpack", "zeros", "ones", "full", "arange", "rand", "randn", "seed"],
                      "Arrays of sow's own, where no other library is at hand."),
    "Gradients": ("gradients", ["grad", "vjp", "no_grad", "enable_grad", "is_grad_enabled"],
                  "Reverse mode over everything the library does, to any order."),
    "Programs": ("programs", ["jit", "Program", "CompiledProgram"], "Functions recorded once and planned for their shapes."),
    "Index and Tensor": ("classes", ["Index", "Tensor"], "An index that is held, and sow's own array."),
    "Types": ("types", ["DType", "bool_", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
                        "complex64", "complex128"], "The types of elements."),
    "Machine": ("machine", ["explain", "get_num_threads", "set_num_threads", "thread_limit", "memory_stats", "release_memory", "__version__"],
                "How an operation would be done, threads and memory."),
}
TITLES = {"sow.cuda": "CUDA devices", "sow.torch": "PyTorch", "sow.jax": "JAX", "sow.paddle": "Paddle", "sow.distributed": "several processes",
          "sow.compat": "other libraries' names", "sow.compat.torch_scatter": "torch_scatter's names"}
IN_PLACE = "Writes into its first argument and returns it."


def public_names(module: types.ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    return list(listed) if listed else [name for name in vars(module) if not name.startswith("_")]


def modules() -> dict[str, types.ModuleType]:
    """The modules whose libraries are installed; the others cannot be read here."""
    found = {}
    public = [f"sow.{each.name}" for each in pkgutil.iter_modules(sow.__path__) if not each.name.startswith("_")]
    waiting = [*[name for name in TITLES if name in public], *[name for name in public if name not in TITLES]]
    while waiting:
        name = waiting.pop(0)
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
        inside = getattr(found[name], "__path__", [])
        waiting += [f"{name}.{each.name}" for each in pkgutil.iter_modules(inside) if not each.name.startswith("_")]
    return found


def signature(found: Any, name: str) -> tuple[str, str]:
    """(signature, docstring) of a function: nanobind writes the signature into the docstring's first line."""
    words = inspect.cleandoc(found.__doc__ or "")
    first = words.partition("\n")[0]
    short = name.rpartition(".")[2]
    if first.startswith(short + "(") and not inspect.isfunction(found):
        text, words = first, overloaded(words, short)
    else:
        try:
            text = short + str(inspect.signature(found))
        except (TypeError, ValueError):
            text = short + "()"
    text = re.sub(r"\b(sow\._types|sow\._core|collections\.abc|typing|_?Callable)\.", "", text)
    text = text.replace("| None | None", "| None").replace("'sow._core.", "'").replace("_Callable", "Callable").replace("_Any", "Any")
    text = re.sub(r"<function .*?>|<[\w.]+ object at 0x[0-9a-f]+>", "...", text)
    return text.replace("_Iterator", "Iterator"), words


def overloaded(words: str, name: str) -> str:
    """What a docstring says behind its signatures; of overloads what the first says, and how the others differ."""
    lines = words.split("\n")
    signatures = [line for line in lines if line.startswith(name + "(")]
    rest_of = "\n".join(lines[len(signatures):]).strip()
    if not rest_of.startswith("Overloaded function."):
        return rest_of
    said = re.split(r"^\d+\. ``.*``$", rest_of, flags=re.MULTILINE)[1].strip()
    if any(re.sub(r"\bdim\b", "axis", other) == re.sub(r"\bdim\b", "axis", signatures[0]) for other in signatures[1:]):
        given, other = ("axis", "dim") if re.search(r"\baxis\b", signatures[0]) else ("dim", "axis")
        said += f"\n\n`{other}=` may be written for `{given}=`."
    return said


def body(words: str, parameters: set[str]) -> str:
    """A docstring as reStructuredText: paragraphs, arguments (`name: what it is`) and examples."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", words):
        if paragraph.startswith(">>> "):
            blocks.append(".. code-block:: pycon\n\n" + rest.indent(re.sub(r"  # doctest: .*", "", paragraph)))
            continue
        text: list[str] = []
        fields: list[str] = []
        for line in paragraph.split("\n"):
            found = re.match(r"(\w+): (.*)", line)
            if found and found.group(1) in parameters:
                fields.append(f":param {found.group(1).replace('_', chr(92) + '_')}: {rest.escape(found.group(2))}")
            elif fields:
                fields[-1] += " " + rest.escape(line.strip())
            else:
                text.append(rest.escape(line.strip()))
        blocks += ([" ".join(text)] if text else []) + (["\n".join(fields)] if fields else [])
    return "\n\n".join(blocks)


def function_entry(owner: Any, name: str, prefix: str, twin: str = "", kind: str = "py:function") -> str:
    found = getattr(owner, name)
    text, words = signature(found, name)
    signatures = [text]
    if twin:
        signatures.append(signature(getattr(owner, twin), twin)[0])
        words = words.rstrip() + "\n\nThe form whose name ends in _ writes into its first argument and returns it."
    parameters = set(re.findall(r"[(,] ?\*{0,2}(\w+)(?=[:,=)])", text))
    signatures = [prefix + each.replace("(self, ", "(").replace("(self)", "()") for each in signatures]
    return rest.directive(kind, signatures, body(words, parameters))


def paired(owner: Any, listed: list[str]) -> list[tuple[str, str]]:
    """(name, in-place form or nothing), the in-place form only beside its twin."""
    functions = {name for name in listed if callable(getattr(owner, name))}
    pairs = [(name, name + "_" if name in functions and name + "_" in functions else "") for name in listed]
    return [pair for pair in pairs if not (pair[0].endswith("_") and pair[0][:-1] in functions)]


def class_entry(found: type, prefix: str) -> str:
    members = [name for name in vars(found) if not name.startswith("_")]
    inside = []
    operations = [name for name in members if hasattr(sow, name) and callable(getattr(found, name)) and found is sow.Tensor]
    for name, twin in paired(found, [name for name in members if name not in operations]):
        member = inspect.getattr_static(found, name)
        if callable(getattr(found, name)):
            kind = "py:staticmethod" if isinstance(member, staticmethod) or type(member).__name__ == "nb_func" else "py:method"
            inside.append(function_entry(found, name, "", twin, kind))
        else:
            inside.append(rest.directive("py:property", [name], rest.escape(rest.sentence(inspect.cleandoc(member.__doc__ or "")))))
    if operations:
        inside.append("Every operation is a method too, with the tensor as its first argument:\n")
        for name, twin in paired(found, operations):
            signatures = [re.sub(r"\(self,? ?", "(", signature(getattr(found, each), each)[0]) for each in (name, twin) if each]
            first = signature(getattr(found, name), name)[1].split("\n\n")[0].split("\n>>>")[0].replace("\n", " ")
            inside.append(rest.directive("py:method", signatures, f"{rest.escape(first)} See :py:func:`sow.{name}`."))
    start = signature(found.__init__, "__init__")[0] if "__init__" in vars(found) else ""
    arguments = re.sub(r"^__init__\((self, |self)", "(", start).replace(" -> None", "") if start.startswith("__init__(self") else ""
    return rest.directive("py:class", [prefix + found.__name__ + arguments],
                          body(inspect.cleandoc(found.__doc__ or ""), set()) + "\n\n" + "\n".join(inside))


def entry(owner: Any, name: str, twin: str, prefix: str = "") -> str:
    found = getattr(owner, name)
    if inspect.isclass(found) and found in (sow.Tensor, sow.Index, sow.Program, sow.CompiledProgram, sow.DType):
        return class_entry(found, prefix)
    if isinstance(found, sow.DType):
        what = {"b": "true or false"}.get(found.name[0], f"{found.itemsize * 8} bits")
        return rest.directive("py:data", [prefix + name], f"The type of elements ``{found.name}``, {what}.")
    if name == "__version__":
        return rest.directive("py:data", [prefix + name], f"The version of the package, ``{found}``.")
    return function_entry(owner, name, prefix, twin)


def write(folder: pathlib.Path) -> int:
    """Writes the pages and says how many names they document."""
    folder.mkdir(parents=True, exist_ok=True)
    grouped = {name for _, names, _ in GROUPS.values() for name in names}
    everything = public_names(sow)
    rest_of = [name for name, _ in paired(sow, everything) if name not in grouped and not isinstance(getattr(sow, name), types.ModuleType)]
    groups = {**GROUPS, **({"Others": ("others", rest_of, "")} if rest_of else {})}
    for title, (file, names, words) in groups.items():
        pairs = [(name, name + "_" if name + "_" in everything else "") for name in names if hasattr(sow, name)]
        text = rest.title(title) + f"\n{words}\n\n.. py:currentmodule:: sow\n\n"
        (folder / f"{file}.rst").write_text(text + "\n".join(entry(sow, name, twin) for name, twin in pairs))
    listing = "\n".join(f"   {file}" for file, _, _ in groups.values())
    inside = modules()
    for name, module in inside.items():
        text = rest.title(f"{name}: {TITLES[name]}" if name in TITLES else name) + f"\n.. py:module:: {name}\n\n" + body(inspect.cleandoc(module.__doc__ or ""), set())
        (folder / f"{name.replace('.', '-')}.rst").write_text(
            text + "\n\n" + "\n".join(entry(module, each, "", "") for each in public_names(module)
                                      if not isinstance(getattr(module, each), types.ModuleType)))
    listing += "".join(f"\n   {name.replace('.', '-')}" for name in inside)
    count = len(names_of())
    (folder / "index.rst").write_text(
        rest.title("Python") + "\n.. py:module:: sow\n\n" + body(inspect.cleandoc(sow.__doc__ or ""), set()) +
        f"\n\n{count} names, read off the docstrings; every example on these pages is run by the tests. In signatures *A* is an array of "
        "any library and the result is of the same kind, *ArrayLike* an array, a number, a nested list or anything with a buffer, "
        "*IndexLike* that or a :py:class:`sow.Index`, *DTypeLike* a type of sow or NumPy or its name, *Shape* one or more "
        "extents, *StreamLike* a CUDA stream of torch or CuPy or the number of a ``cudaStream_t``.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listing}\n")
    return count


def names_of() -> set[str]:
    """Every public name: of the package, of its classes and of its modules."""
    found = {f"sow.{name}" for name in public_names(sow)}
    for owner in (sow.Tensor, sow.Index, sow.Program, sow.CompiledProgram, sow.DType):
        found |= {f"sow.{owner.__name__}.{name}" for name in vars(owner) if not name.startswith("_")}
    for name, module in modules().items():
        found |= {name} | {f"{name}.{each}" for each in public_names(module)}
    return found

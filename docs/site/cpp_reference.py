# SPDX-License-Identifier: Apache-2.0
"""The pages of the C++ reference, one for each public header."""

from __future__ import annotations

import pathlib
import re

import cpp_headers
import rest
from cpp_headers import Name

# header: (title, order in the menu)
PAGES = {
    "ops.h": "Operations", "tensor.h": "Tensor", "index.h": "Index", "reduce.h": "Reductions", "dtype.h": "Types and scalars",
    "half.h": "float16 and bfloat16", "dims.h": "Dims", "math.h": "Elementwise operations", "autograd.h": "Gradients",
    "program.h": "Programs", "cuda.h": "CUDA devices", "dlpack.h": "DLPack", "error.h": "Errors", "memory.h": "Memory",
    "runtime.h": "Threads and instructions", "distributed.h": "Several processes", "mpi.h": "MPI", "interrupt.h": "Interrupts",
}
SCOPES = ("class", "struct", "enum")


def root() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2]


def names() -> list[Name]:
    words = cpp_headers.sentences(pathlib.Path(__file__).with_name("cpp_words.txt"))
    return cpp_headers.public_names(root() / "include" / "sow", words)


def opening(header: str) -> str:
    return cpp_headers.opening((root() / "include" / "sow" / header).read_text())


def qualified(name: Name, depth: int) -> str:
    """The declaration as the C++ domain wants it: with the name's scopes in it, unless it stands inside of its class."""
    scope, _, short = name.name.rpartition("::")
    text = re.sub(r"^(inline|SOW_HD) ", "", name.declaration)
    if name.kind in SCOPES:
        text = re.sub(r"^(enum class|class|struct) ", "", text)
    if name.kind == "type":
        text = text.removeprefix("using ")
    if depth:
        return text
    if name.kind in (*SCOPES, "type", "concept"):
        return text.replace(short, name.name, 1)
    if short.startswith("operator"):
        return text.replace("operator", scope + "::operator", 1)
    pattern = rf"(?<![\w:]){re.escape(short)}(?= ?\()" if name.kind == "function" else rf"(?<![\w:]){re.escape(short)}(?=$| |\[)"
    return re.sub(pattern, name.name, text, count=1)


KINDS = {"enumerator": "enumerator", "function": "function", "member": "var", "type": "type", "concept": "concept",
         "class": "class", "struct": "struct", "enum": "enum-class"}


def twin(one: Name, other: Name) -> bool:
    """Whether the other is an overload or the in-place form of the one."""
    return one.kind == other.kind == "function" and other.name in (one.name, one.name + "_") and one.words == other.words


def entries(found: list[Name], depth: int = 0) -> str:
    """Everything in the order of the header; what belongs to a class stands inside of its entry."""
    parts, at, section = [], 0, ""
    while at < len(found):
        name = found[at]
        if name.section != section and depth == 0:
            section = name.section
            if section:
                parts.append(rest.title(section[:1].upper() + section[1:], "-"))
        last = at + 1
        if name.kind in SCOPES:
            while last < len(found) and found[last].name.startswith(name.name + "::"):
                last += 1
            body = rest.prose(name.words) + "\n\n" + entries(found[at + 1 : last], depth + 1)
            parts.append(rest.directive(f"cpp:{KINDS[name.kind]}", [qualified(name, depth)], body))
        else:
            while last < len(found) and twin(name, found[last]):
                last += 1
            inherited = cpp_headers.is_constructor(name) or (name.kind in ("enumerator", "member") and not name.own)
            body = "" if inherited else rest.prose(name.words)
            parts.append(rest.directive(f"cpp:{KINDS[name.kind]}", [qualified(each, depth) for each in found[at:last]], body))
        at = last
    return "\n".join(parts)


def write(folder: pathlib.Path) -> int:
    """Writes the pages and says how many names they document."""
    folder.mkdir(parents=True, exist_ok=True)
    found = names()
    by_header: dict[str, list[Name]] = {}
    for name in found:
        by_header.setdefault(name.header, []).append(name)
    order = [*PAGES, *sorted(set(by_header) - set(PAGES))]
    pages = [header for header in order if header in by_header]
    for header in pages:
        text = rest.title(PAGES.get(header, header)) + f"\n``#include <sow/{header}>``\n\n" + rest.prose(opening(header)) + "\n\n"
        (folder / f"{header[:-2]}-h.rst").write_text(text + entries(by_header[header]))
    listing = "\n".join(f"   {header[:-2]}-h" for header in pages)
    count = len({name.name for name in found})
    (folder / "index.rst").write_text(
        rest.title("C++") + "\n``#include <sow/sow.h>`` brings everything, in the namespace ``sow``. Every function throws "
        ":cpp:class:`sow::Error` before it writes anything; the form whose name ends in ``_`` writes into its first argument "
        f"and returns it, the other returns a fresh result. {count} names, read off the headers.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listing}\n")
    return count

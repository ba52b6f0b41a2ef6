# SPDX-License-Identifier: Apache-2.0
"""Pieces of reStructuredText for the reference pages."""

from __future__ import annotations

import re


def escape(words: str) -> str:
    """Plain words: what is between backticks is code, and nothing else is markup."""
    parts = re.split(r"`([^`]+)`", words)
    plain = [re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2]]
    return "".join(text + (f"``{parts[2 * i + 1]}``" if 2 * i + 1 < len(parts) else "") for i, text in enumerate(plain))


def sentence(words: str) -> str:
    words = words.strip()
    words = words[:1].upper() + words[1:]
    return words if words.endswith((".", ":", "?", "!")) else words + "."


def indent(text: str, by: int = 3) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.split("\n"))


def title(words: str, mark: str = "=") -> str:
    return f"{words}\n{mark * max(len(words), 4)}\n"


def directive(kind: str, signatures: list[str], body: str, options: str = "") -> str:
    head = f".. {kind}:: "
    lines = [head + signatures[0], *[" " * len(head) + signature for signature in signatures[1:]]]
    return "\n".join(lines) + "\n" + (indent(options) + "\n" if options else "") + "\n" + indent(body) + "\n"


def prose(words: str) -> str:
    """The comment of a header: paragraphs, and indented lines of code."""
    blocks: list[str] = []
    code: list[str] = []
    text: list[str] = []

    def flush() -> None:
        if text:
            blocks.append(escape(sentence(" ".join(text))))
            text.clear()
        if code:
            blocks.append(".. code-block:: cpp\n\n" + indent("\n".join(code)))
            code.clear()

    for line in words.split("\n"):
        if line.startswith("  ") and line.strip():
            if text:
                flush()
            code.append(line.strip())
        else:
            if code:
                flush()
            if line.strip():
                text.append(line.strip())
            else:
                flush()
    flush()
    return "\n\n".join(blocks)

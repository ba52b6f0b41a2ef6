# SPDX-License-Identifier: Apache-2.0
"""The code of the documentation's pages: what stands in fences, and what a page hides for it in comments.

`<!-- run python ... -->` and `<!-- run cpp ... -->` hold code that a reader does not need to see; `<!-- run: on a GPU -->`
in front of a fence says where alone it can run. Fences of `pycon` are examples with their output, `python` and `cpp` are run.
"""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE = re.compile(r"^(?:<!-- run(?: (?P<hidden>python|cpp)\n(?P<code>.*?)\n-->|: (?P<where>.*?) -->)|"
                   r"```(?P<language>python|pycon|cpp)\n(?P<fence>.*?)\n```)$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass
class Snippet:
    language: str
    code: str
    line: int
    where: str = ""


def pages():
    """Every page that people read, from the root of the repository."""
    return [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "site" not in path.parts]


def snippets(path):
    found, where = [], ""
    text = path.read_text()
    for match in PIECE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["where"]:
            where = match["where"]
        elif match["hidden"]:
            found.append(Snippet(match["hidden"], match["code"], line))
        else:
            found.append(Snippet(match["language"], match["fence"], line, where))
            where = ""
    return found


def cpp_program(pages_with_code):
    """One program of all C++ snippets: whole programs in namespaces, others in blocks after the code hidden for them."""
    parts, calls = ["#include <sow/sow.h>", "#include <iostream>", "#include <vector>"], []
    for number, (path, codes) in enumerate(pages_with_code):
        blocks = []
        for code in codes:
            if "int main()" in code:
                name = f"page_{number}_{len(calls)}"
                body = re.sub(r"^#include.*$", "", code, flags=re.MULTILINE).replace("int main()", "void run()")
                parts.append(f"namespace {name} {{\n{body}\n}}")
                calls.append(f"{name}::run();")
            else:
                blocks.append("{\n" + code + "\n}")
        parts.append(f"void page_{number}() {{  // {path.name}\nusing namespace sow;\n" + "\n".join(blocks) + "\n}")
        calls.append(f"page_{number}();")
    return "\n".join(parts) + "\nint main() {\n" + "\n".join(calls) + "\n}\n"


def cpp_snippets(path):
    """The C++ fences of a page, each with what is hidden in front of it."""
    found, hidden = [], ""
    text = path.read_text()
    for match in PIECE.finditer(text):
        if match["hidden"] == "cpp":
            hidden = match["code"] + "\n"
        elif match["language"] == "cpp":
            found.append(hidden + match["fence"])
            hidden = ""
    return found


def tables(text):
    """(heading, rows of cells) of each table of a page."""
    found, heading, rows = [], "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip().strip("|").split(" | ")])
        elif rows:
            found.append((heading, rows[2:]))
            rows = []
    return found

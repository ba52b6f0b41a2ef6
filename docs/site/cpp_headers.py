# SPDX-License-Identifier: Apache-2.0
"""Reads the public headers: every public name with its declaration and the sentence that stands beside it.

A small reader instead of a large tool: the headers are plain, and what it does not understand is an error. A sentence
is the comment above a declaration, the one behind it, or the one above the group (declarations without a blank line
between them) that it belongs to. A method of Tensor that is an operation has the sentence of the function of its name.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

INTERNAL = {"export.h", "portable.h", "sow.h"}  # marks for compilers, and the header of all headers
ACCESS = re.compile(r"(public|private|protected)\s*:")


class NotUnderstood(Exception):
    """A declaration that the reader has no rule for."""


@dataclasses.dataclass
class Name:
    """One declaration: `kind` is function, class, struct, enum, enumerator, member, type, macro or concept."""

    kind: str
    name: str  # with its scopes: sow::Tensor::zeros
    declaration: str
    words: str
    header: str
    section: str = ""
    inherited: bool = False  # the words stand above another declaration of its group
    own: bool = True  # the words are not those of the class or enum around it


@dataclasses.dataclass
class Scope:
    names: list[str]
    public: bool
    open: bool = True  # whether what is around it is public, without which nothing in it is


class Reader:
    def __init__(self, text: str, header: str) -> None:
        self.text, self.header, self.at = text, header, 0
        self.found: list[Name] = []
        self.hidden: set[str] = set()  # names that are private or internal
        self.comment: list[str] = []  # lines right above
        self.group = ""  # the comment that still holds for what follows
        self.section = ""
        self.inherited = False

    def fail(self, what: str) -> NotUnderstood:
        line = self.text.count("\n", 0, self.at) + 1
        return NotUnderstood(f"include/sow/{self.header}:{line}: {what}")

    def line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def read(self, scope: Scope) -> None:
        """Everything up to the brace that closes this scope."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n":
                self.at += 1
                if re.match(r"[ \t]*\n", self.text[self.at :]):  # a blank line ends a group
                    self.comment, self.group = [], ""
            elif char in " \t;":
                self.at += 1
            elif char == "#":
                while self.text[self.line_end() - 1] == "\\":
                    self.at = self.line_end() + 1
                self.at = self.line_end()
                self.comment, self.group = [], ""
            elif self.text.startswith("//", self.at):
                line = self.text[self.at + 2 : self.line_end()]
                if line.startswith(" -- "):
                    self.section, self.comment = line[4:].strip(), []
                else:
                    self.comment.append(line[1:] if line.startswith(" ") else line)
                self.at = self.line_end()
            elif char == "}":
                self.at += 1
                return
            elif match := ACCESS.match(self.text, self.at):
                scope.public = scope.open and match.group(1) == "public"
                self.comment, self.group = [], ""
                self.at = match.end()
            else:
                self.declaration(scope)

    def skip_braces(self) -> None:
        """From an opening brace to behind the one that closes it."""
        depth = 0
        for match in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//[^\n]*|[{}]', self.text[self.at :]):
            depth += {"{": 1, "}": -1}.get(match.group(), 0)
            if depth == 0:
                self.at += match.end()
                return
        raise self.fail("a brace that nothing closes")

    def head(self) -> tuple[str, str]:
        """The text of a declaration up to its body or semicolon, and which of the two it was."""
        begin, depth = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text.startswith("//", self.at):
                self.at = self.line_end()
                continue
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth == 0 and char in "{;":
                before = self.text[begin : self.at].rstrip()
                if char == "{" and (before.endswith("=") or re.search(r"\bconcept \w+ =", before)):
                    self.skip_braces()
                    continue
                text = re.sub(r"//[^\n]*", "", self.text[begin : self.at])
                return " ".join(text.split()), char
            self.at += 1
        raise self.fail("a declaration without an end")

    def trailing(self) -> str:
        """The comment behind a declaration, with the lines that go on under it."""
        match = re.match(r"[ \t]*//[ ]?([^\n]*)", self.text[self.at :])
        if not match:
            return ""
        column = self.at + match.group().index("//") - (self.text.rfind("\n", 0, self.at) + 1)
        self.at += match.end()
        words = [match.group(1)]
        while more := re.match(rf"\n {{{column}}}//[ ]?([^\n]*)", self.text[self.at :]):
            words.append(more.group(1))
            self.at += more.end()
        return " ".join(words)

    def words(self) -> str:
        """What stands above, which also holds for what follows without a blank line."""
        self.inherited = not self.comment
        if self.comment:
            self.group = "\n".join(self.comment)
            self.comment = []
        return self.group

    def add(self, scope: Scope, kind: str, name: str, declaration: str, words: str) -> None:
        hidden = "detail::" in declaration or words.startswith("Internal") or "= delete" in declaration
        full = "::".join([*scope.names, name])
        if scope.public and not hidden:
            self.found.append(Name(kind, full, declaration, words.strip(), self.header, self.section, self.inherited))
        else:
            self.hidden.add(full)

    def declaration(self, scope: Scope) -> None:
        head, end = self.head()
        head = re.sub(r"\bSOW_(API|HD)\b ?|\[\[\w+\]\] ?", "", head).strip()
        plain = re.sub(r"^template ?<.*?> ?(?=[a-zA-Z~\[])", "", head)
        if match := re.fullmatch(r"(inline )?namespace ([\w:]*)", head):
            self.at += 1
            self.comment, self.group = [], ""
            inner = match.group(2).split("::")
            self.read(Scope([*scope.names, *inner], scope.public and "detail" not in inner))
        elif match := re.fullmatch(r"enum class (\w+)( : \w+)?", head):
            self.enum(scope, match.group(1), head, end)
        elif (match := re.match(r"(class|struct|union) (\w+)", plain)) and end == "{":
            words = self.words()
            self.add(scope, match.group(1), match.group(2), head, words)
            self.at += 1
            self.group, section, self.section = "", self.section, ""
            self.read(Scope([*scope.names, match.group(2)], scope.public and match.group(1) == "struct", scope.public))
            self.section, self.group = section, ""
        elif re.fullmatch(r"(friend )?(class|struct) \w+", plain) or plain.startswith(("friend ", "static_assert")):
            self.finish(end)
            self.comment = []
        else:
            self.entity(scope, head, plain, end)

    def finish(self, end: str) -> None:
        if end == "{":
            self.skip_braces()
            while re.match(r"\s*,\s*\w+\{", self.text[self.at :]) or re.match(r"\s*\{", self.text[self.at :]):  # member initialisers
                self.at = self.text.index("{", self.at)
                self.skip_braces()
        else:
            self.at += 1

    def entity(self, scope: Scope, head: str, plain: str, end: str) -> None:
        """A function, a member or a name for a type."""
        above = self.words()
        self.finish(end)
        own = self.trailing()
        words = own or above
        self.inherited = self.inherited and not own
        # What comes before a constructor's initialisers, and without a default.
        declared = re.sub(r"\)( const| noexcept)* : .*$", lambda m: ")" + (m.group(1) or ""), head)
        declared = re.sub(r"\)( const)?( noexcept)? = default$", lambda m: ")" + (m.group(1) or "") + (m.group(2) or ""), declared)
        plain = re.sub(r"^requires ?\(.*?\)\)? (?=\w)", "", plain)
        while (bare := re.sub(r"(?<=\w)<[^<>]*>", "", plain)) != plain:
            plain = bare
        if re.search(r"\w::~?\w+ ?\(", plain.split("=")[0]) and not re.search(r" \w+ ?\(", plain.split("=")[0].split("(")[0] + "("):
            return  # what was declared before
        if match := re.match(r"using (\w+) = ", plain):
            self.add(scope, "type", match.group(1), head, words)
        elif match := re.match(r"concept (\w+) = ", plain):
            self.add(scope, "concept", match.group(1), head.split(" = ")[0].replace("concept ", ""), words)
        elif match := re.search(r"(operator ?(?:\(\)|\[\]|[^\s(\w]+|[\w:]+)|~?\w+) ?\(", plain):
            self.add(scope, "function", match.group(1), declared, words)
        elif match := re.fullmatch(r"([\w:<>&* ]+[ &*])((?:\w+(?: = [^,]+)?, )+\w+(?: = [^,]+)?)", plain):
            for declarator in match.group(2).split(", "):  # several members of one type
                self.add(scope, "member", declarator.split(" ")[0], match.group(1) + declarator, words)
        elif match := re.match(r"[\w:<>,&* ]+?[ &*](\w+)(\[.*\])?( ?= .*)?$", plain):
            self.add(scope, "member", match.group(1), head, words)
        else:
            raise self.fail(f"not understood: {head}")

    def enum(self, scope: Scope, name: str, head: str, end: str) -> None:
        words = self.words()
        self.add(scope, "enum", name, head, words)
        if end == ";":
            self.at += 1
            return
        begin = self.at + 1
        self.skip_braces()
        body = self.text[begin : self.at - 1]
        for match in re.finditer(r"(\w+)(?:\s*=\s*[^,\n]+)?\s*(?:,|$|\n)[ \t]*(?://[ ]?([^\n]*))?", re.sub(r"^\s*//[^\n]*", "", body, flags=re.M)):
            self.add(Scope([*scope.names, name], scope.public), "enumerator", match.group(1), match.group(1),
                     (match.group(2) or "").strip())
        self.group = ""


def sentences(path: pathlib.Path) -> dict[str, str]:
    """The words for names that explain themselves to a reader of the header: lines of `name: sentence`."""
    found = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, words = line.partition(": ")
            found[name] = words
    return found


def hidden_names(folder: pathlib.Path) -> set[str]:
    """What the headers declare and do not offer: private members, and what they call internal."""
    found: set[str] = set()
    for path in folder.glob("*.h"):
        reader = Reader(path.read_text(), path.name)
        reader.read(Scope([], path.parent.name != "detail"))
        found |= reader.hidden
    return found


def opening(text: str) -> str:
    """The comment that a header opens with, without its licence."""
    found = re.match(r"(?://[^\n]*\n)+", text)
    lines = found.group().splitlines() if found else []
    return "\n".join(line[3:] for line in lines if not line.startswith("// SPDX-"))


def public_names(folder: pathlib.Path, extra: dict[str, str]) -> list[Name]:
    """Every public name of the headers in a folder, each with its words where there are any."""
    found: list[Name] = []
    for path in sorted(folder.glob("*.h")):
        if path.name not in INTERNAL:
            reader = Reader(path.read_text(), path.name)
            reader.read(Scope([], True))
            found += reader.found
            first = next((name for name in reader.found if name.kind in ("class", "struct", "enum")), None)
            if first and not first.words and opening(reader.text):
                first.words, first.inherited = opening(reader.text), False
    found = [name for name in found if not is_special(name)]
    spoken: dict[str, str] = {}
    for name in found:
        if name.words and (not name.inherited or name.name.endswith("_") or name.name in spoken):
            spoken.setdefault(name.name, name.words)
    for name in found:
        short = name.name.removeprefix("sow::")
        parent, _, last = name.name.rpartition("::")
        name.words = extra.get(short) or spoken.get(name.name, "")
        if not name.words and parent == "sow::Tensor":
            name.words = extra.get(last) or spoken.get(f"sow::{last}", "")
    by_name = {name.name: name for name in found if name.words}
    for name in found:  # the values of an enum and the members of a struct, where theirs says it all
        parent = by_name.get(name.name.rpartition("::")[0])
        if not name.words and name.kind in ("enumerator", "member") and parent:
            name.words, name.own = parent.words, False
        elif not name.words and is_constructor(name) and parent:
            name.words, name.own = parent.words, False
    return found


def is_constructor(name: Name) -> bool:
    parts = name.name.split("::")
    return name.kind == "function" and len(parts) > 2 and parts[-1] == parts[-2]


def is_special(name: Name) -> bool:
    """Destructors, copies and moves, which say nothing that a C++ programmer does not know."""
    parts = name.name.split("::")
    copies = f"const {parts[-2]}& other" in name.declaration or f"{parts[-2]}&& other" in name.declaration
    return "~" in parts[-1] or ((is_constructor(name) or parts[-1] == "operator=") and copies)

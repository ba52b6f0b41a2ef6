# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site: python docs/site/build.py FOLDER (make docs: build/site).

The pages of docs/ are copied beside the folder, the references, notebooks and sources of the examples are written there
as pages of their own, links to other files of the repository become links to these, and Sphinx makes HTML of it all,
with warnings as errors. Nothing on the site is fetched from anywhere when it is read.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cpp_reference  # noqa: E402
import notebooks  # noqa: E402
import playground  # noqa: E402
import python_reference  # noqa: E402
import race_tables  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()((?:\.\./)+)([^)#\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".py": "python", ".cc": "cpp", ".h": "cpp", ".md": "markdown", ".cu": "cuda"}


class Sources:
    """Files of the repository that pages link to, each as a page of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.written = folder, set[str]()

    def page_of(self, file: str) -> str:
        """The page that shows a file of the repository, from the root of the pages."""
        path = ROOT / file
        if path.is_dir():
            return "gallery.md"
        if not path.is_file():
            raise SystemExit(f"docs: a link to {file}, which is not there")
        name = f"source/{file.replace('/', '-')}.md"
        if name not in self.written:
            self.written.add(name)
            (self.folder / "source").mkdir(exist_ok=True)
            fence = "`" * 5
            language = LANGUAGES.get(path.suffix, "text")
            (self.folder / name).write_text(f"---\norphan: true\n---\n# {file}\n\n{fence}{language}\n{path.read_text()}{fence}\n")
        return name


def rewrite(words: str, page: pathlib.PurePath, sources: Sources) -> str:
    """Links that leave docs/ lead to pages of the site instead."""
    def replace(found: re.Match[str]) -> str:
        ups = found.group(2).count("../")
        if ups <= len(page.parts) - 1:
            return found.group()  # still inside of docs/
        target = sources.page_of(found.group(3).rstrip("/"))
        return f"{found.group(1)}{'../' * (len(page.parts) - 1)}{target}"

    return LINK.sub(replace, words)


def add_strays(pages: pathlib.Path) -> None:
    """Pages that no menu names come last in it, so that whoever writes one need not know of the menu."""
    start = pages / "index.md"
    words = start.read_text()
    named = set(re.findall(r"^[\w/-]+$", words, re.MULTILINE)) | {"index"}
    strays = [str(path.relative_to(pages).with_suffix("")) for path in sorted(pages.rglob("*.md"))
              if path.parts[len(pages.parts)] != "source" and str(path.relative_to(pages).with_suffix("")) not in named]
    if strays:
        start.write_text(words + "\n```{toctree}\n:hidden:\n:caption: More\n\n" + "\n".join(strays) + "\n```\n")


def prepare(pages: pathlib.Path) -> dict[str, int]:
    """The folder that Sphinx reads; says how many names each reference documents."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site", "__pycache__", "README.md"))
    for path in sorted((pages / "notebooks").glob("*.ipynb")):
        notebooks.page(path, path.parent)
    playground.write(pages / "_static")
    (pages / "_extra").mkdir()
    race_tables.write_pages(pages / "_extra")
    sources = Sources(pages)
    for path in sorted(pages.rglob("*.md")):
        path.write_text(rewrite(path.read_text(), path.relative_to(pages), sources))
    add_strays(pages)
    counts = {"Python": python_reference.write(pages / "reference" / "python"), "C++": cpp_reference.write(pages / "reference" / "cpp")}
    return counts


def build(out: pathlib.Path, quiet: bool = True) -> dict[str, int]:
    from sphinx.cmd.build import main as sphinx

    import sow

    out = out.resolve()
    pages = out.parent / f"{out.name}-pages"
    counts = prepare(pages)
    shutil.rmtree(out, ignore_errors=True)
    status = sphinx(["-W", "--keep-going", *(["-q"] if quiet else []), "-b", "html", "-j", "auto", "-D", f"release={sow.__version__}",
                     "-d", str(out.parent / f"{out.name}-doctrees"), str(pages), str(out)])
    if status:
        raise SystemExit("docs: the site was not built without warnings")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=ROOT / "build" / "site")
    folder = parser.parse_args().folder
    counts = build(folder)
    print(f"{folder / 'index.html'}: " + ", ".join(f"{count} {name} names" for name, count in counts.items()))


if __name__ == "__main__":
    main()

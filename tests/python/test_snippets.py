# SPDX-License-Identifier: Apache-2.0
"""Every piece of code in the documentation runs, and prints what it says; both sides of the porting table agree."""

import doctest
import os
import pathlib
import re
import shutil
import subprocess
import sys

import doc_snippets
import numpy as np
import pytest
from doc_snippets import ROOT

import sow

PAGES = [page for page in doc_snippets.pages() if any(s.language != "cpp" for s in doc_snippets.snippets(page))]
HIDDEN = re.compile(r"<!-- run\n(.*?)-->", re.DOTALL)


def title(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_python_of_page(page):
    names, ran = {"__name__": "page"}, 0
    for snippet in doc_snippets.snippets(page):
        if snippet.language == "cpp" or (snippet.where and not sow.cuda.available()):
            continue
        for library in ("torch", "jax", "paddle"):
            if re.search(rf"\b(import|from) .*\b{library}\b", snippet.code):
                pytest.importorskip(library)
        if snippet.language == "python":
            exec(compile("\n" * snippet.line + snippet.code, str(page), "exec"), names)  # noqa: S102
        else:
            test = doctest.DocTestParser().get_doctest(snippet.code + "\n", names, title(page), str(page), snippet.line)
            output = []
            result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=output.append, clear_globs=False)
            assert result.failed == 0, "".join(output)
            names = test.globs
        ran += 1
    assert ran > 0


def test_cpp_of_pages(tmp_path):
    """Compiled and run together: one compilation is quick, one for each page is not."""
    headers, library = ROOT / "build" / "stage" / "include", pathlib.Path(sow.__file__).parent
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler or not headers.is_dir():
        pytest.skip("no compiler, or no staged headers (make python)")
    pieces = [(page, doc_snippets.cpp_snippets(page)) for page in doc_snippets.pages()]
    source = tmp_path / "pages.cc"
    source.write_text(doc_snippets.cpp_program([(page, code) for page, code in pieces if code]))
    subprocess.run([compiler, "-std=c++20", "-O0", f"-I{headers}", str(source), f"-L{library}", "-l:libsow.so.0.1",
                    f"-Wl,-rpath,{library}", "-o", str(tmp_path / "pages")], check=True)
    done = subprocess.run([str(tmp_path / "pages")], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("12. 20. 31.") == 2  # the README's and the start page's put_along_axis


def porting_rows():
    text = (ROOT / "docs" / "porting.md").read_text()
    return [(heading, theirs.strip("`"), ours.strip("`")) for heading, rows in doc_snippets.tables(text)
            for theirs, ours, *_ in rows if heading not in ("Coming from another library",)]


def arrays(make):
    names = {"np": np, "sow": sow, "A": make}
    exec(HIDDEN.search((ROOT / "docs" / "porting.md").read_text()).group(1), names)  # noqa: S102
    return names


def library_names(heading):
    """The arrays of a section and its library's modules; None where the library is not here."""
    if heading == "PyTorch":
        torch = pytest.importorskip("torch")
        return {**arrays(torch.from_numpy), "torch": torch}
    if heading == "JAX":
        jax = pytest.importorskip("jax")
        return {**arrays(jax.numpy.asarray), "jax": jax, "jnp": jax.numpy}
    if heading == "Paddle":
        paddle = pytest.importorskip("paddle")
        return {**arrays(paddle.to_tensor), "paddle": paddle}
    return arrays(np.copy) if heading == "NumPy" else None


def value_of(call, names):
    """What a call returns, or what it left in its first argument."""
    result = eval(call, names)  # noqa: S307
    return np.asarray(names["x"] if result is None else result)


@pytest.mark.filterwarnings("ignore:index_reduce\\(\\) is in beta")
@pytest.mark.parametrize(("heading", "theirs", "ours"), porting_rows(), ids=lambda value: None)
def test_porting(heading, theirs, ours):
    here = library_names(heading)
    mine = value_of(ours, library_names(heading) or arrays(np.copy))
    assert mine.size > 0
    if here is not None:
        expected = value_of(theirs, here)
        assert mine.tobytes() == expected.astype(mine.dtype).tobytes(), (theirs, expected, mine)


def test_porting_covers_the_libraries():
    headings = {heading for heading, _, _ in porting_rows()}
    assert headings == {"PyTorch", "torch_scatter", "NumPy", "JAX", "Paddle", "pypto", "TensorFlow"}


def test_gallery_has_every_example():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    missing = [path.name for path in sorted((ROOT / "examples").glob("*.*")) if f"(../examples/{path.name})" not in gallery]
    assert not missing, f"docs/gallery.md does not lead to {missing}"


def test_example_of_static_graph():
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "static_graph.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "[1 0 3 0]" in done.stdout, done.stderr

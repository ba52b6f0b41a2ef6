# SPDX-License-Identifier: Apache-2.0
"""The site in a real browser: the playground computes what sow does, and its code runs. Needs Chromium.

`make test-long` installs it; elsewhere these tests run where it is found and are skipped, with this reason, where it is not.
"""

import html
import json
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

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here (scripts/setup browser installs it)")

sys.path.insert(0, str(ROOT / "docs" / "site"))


def dom(path, anchor=""):
    """The page after its scripts have run."""
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom",
                           f"file://{path}{anchor}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the playground says about itself: a page of its scripts alone, so that no site has to be built."""
    import playground

    folder = tmp_path_factory.mktemp("playground")
    (folder / "_static").mkdir()
    for name in ("playground-core.js", "playground.js"):
        shutil.copy(ROOT / "docs" / "_static" / name, folder / "_static")
    playground.write(folder / "_static")
    body = (ROOT / "docs" / "playground.md").read_text().split("\n\n", 1)[1]
    (folder / "page.html").write_text(f"<!doctype html><meta charset='utf-8'><body>{body}</body>")
    found = re.search(r'<pre id="selftest">(.*?)</pre>', dom(folder / "page.html", "#selftest"), re.DOTALL)
    assert found, "the page's scripts did not run to their end"
    return json.loads(html.unescape(found.group(1)))


def test_playground_computes_what_sow_does(told):
    assert told["check"]["right"] == told["check"]["total"] >= 500, told["check"]["wrong"]


def numbers(words, type_name):
    import ml_dtypes

    dtype = {"bfloat16": ml_dtypes.bfloat16}.get(type_name, type_name)
    return np.array([float(word) for word in words]).astype(dtype)


@pytest.mark.parametrize("library", ["numpy", "torch", "paddle"])
def test_code_of_playground(told, library):
    pytest.importorskip(library)
    for preset in told["presets"]:
        names = {}
        code = preset["codes"][library].replace("print(result)", "")
        if preset["error"]:
            with pytest.raises((IndexError, ValueError), match=re.escape(preset["error"])):
                exec(code, names)
            continue
        exec(code, names)
        result = names["result"]
        found = np.asarray(result.float() if library == "torch" and preset["type"] == "bfloat16" else
                           result.astype("float32") if library == "paddle" and preset["type"] == "bfloat16" else result)
        expected = numbers(preset["result"], preset["type"])
        assert found.astype(expected.dtype).tobytes() == expected.tobytes(), (preset["name"], result, preset["result"])


def test_cpp_of_playground(told, tmp_path):
    headers, library = ROOT / "build" / "stage" / "include", pathlib.Path(sow.__file__).parent
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler or not headers.is_dir():
        pytest.skip("no compiler, or no staged headers (make python)")
    codes = [preset["codes"]["cpp"] for preset in told["presets"] if not preset["error"]]
    source = tmp_path / "playground.cc"
    source.write_text("#include <cmath>\n" + doc_snippets.cpp_program([(pathlib.Path("playground"), codes)]))
    subprocess.run([compiler, "-std=c++20", "-O0", f"-I{headers}", str(source), f"-L{library}", "-l:libsow.so.0.1",
                    f"-Wl,-rpath,{library}", "-o", str(tmp_path / "playground")], check=True)
    printed = subprocess.run([str(tmp_path / "playground")], capture_output=True, text=True, check=True).stdout
    found = [float(word) for word in re.findall(r"[-\d.e+]+", printed)]
    expected = [float(word) for preset in told["presets"] if not preset["error"] for word in preset["result"]]
    assert found == expected


def test_playground_shows_the_exact_sum(told):
    places = {preset["name"]: preset["place"] for preset in told["presets"]}
    assert "264" in places["ones in bfloat16"] and "256" in places["ones in bfloat16"]
    assert "exact sum" in places["cancellation"] and "a loop that rounds each time" in places["cancellation"]


def race_page(folder, script):
    """The race's page of the documentation's own tables, on a phone, with a script at its end that writes what it sees."""
    import race_tables

    from race import page

    path = folder / "race.html"
    text = page.page("a machine", race_tables.cpu_run()[:40], {})
    path.write_text(text.replace("</body>", f"<pre id='seen'></pre><script>document.getElementById('seen').textContent = (() => {{ {script} }})()</script></body>"))
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,844", "--virtual-time-budget=3000",
                           "--dump-dom", f"file://{path}"], capture_output=True, text=True, timeout=120)
    return html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL).group(1))


def test_race_page_fits_a_phone(tmp_path):
    seen = race_page(tmp_path, "return document.documentElement.scrollWidth + ' of ' + window.innerWidth")
    wide, of = (int(part) for part in seen.split(" of "))
    assert of <= 500 and wide <= of, seen


def test_race_page_sorts(tmp_path):
    """A click on a heading sorts by it, a second one the other way; cells without a value stay last."""
    seen = race_page(tmp_path, """
        const table = document.querySelector("table"), head = table.tHead.rows[0].cells[2], column = () =>
            [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.value));
        head.click(); const up = column(); head.click(); return JSON.stringify([up, column()]);""")
    up, down = json.loads(seen)
    assert len(up) > 2 and up == sorted(up) and down == sorted(up, reverse=True)

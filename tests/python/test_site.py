# SPDX-License-Identifier: Apache-2.0
"""The documentation site builds without a warning, leads nowhere that is not there, and documents every public name."""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser

import pytest
from doc_snippets import ROOT

import sow

sys.path.insert(0, str(ROOT / "docs" / "site"))

import cpp_headers  # noqa: E402
import cpp_reference  # noqa: E402
import python_reference  # noqa: E402


class Page(HTMLParser):
    """The anchors of a page, what it leads to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source", "video") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("href") and given.get("rel") not in ("canonical",):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "site" / "build.py"), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_links(site, pages):
    broken, checked = [], 0
    for path, page in pages.items():
        for link in page.links + page.loads:
            address, _, anchor = urllib.parse.unquote(link).partition("#")
            if urllib.parse.urlparse(address).scheme:
                continue
            target = (path.parent / address.split("?")[0]).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            checked += 1
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken, "\n".join(broken)
    assert checked > 1000


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert not [load for load in page.loads if urllib.parse.urlparse(load).netloc], path
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(https?:)?//", styles) and "@import" not in styles


def inventory(site, domain):
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, names in found.data.items() if kind.startswith(domain + ":") for name in names}


def test_every_python_name_is_documented(site):
    names = python_reference.names_of()
    documented = inventory(site, "py")
    missing = sorted(names - documented)
    assert not missing, f"{len(names) - len(missing)} of {len(names)} Python names are documented; not: {missing}"
    assert len(names) > 250


def test_every_python_name_has_words():
    for name in python_reference.names_of():
        found = sow
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert isinstance(found, str) or found.__doc__, name


def test_every_cpp_name_is_documented_and_has_words(site):
    names = cpp_reference.names()
    silent = sorted({f"{name.name} (include/sow/{name.header})" for name in names if not name.words})
    assert not silent, f"write a sentence above these, or into docs/site/cpp_words.txt: {silent}"
    every = {name.name for name in names}
    missing = sorted(every - inventory(site, "cpp"))
    assert not missing, f"{len(every) - len(missing)} of {len(every)} C++ names are documented; not: {missing}"
    assert len(every) > 350


def test_every_symbol_of_the_library_is_a_documented_name():
    """A count that does not come from the reader of the headers: what the shared library shows to a linker."""
    if not shutil.which("nm"):
        pytest.skip("no nm here")
    library = pathlib.Path(sow.__file__).parent / "libsow.so.0.1"
    listing = subprocess.run(["nm", "-DC", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    symbols = {re.sub(r"\[abi:\w+\]", "", line.split(" ", 2)[2]).split("(")[0] for line in listing.splitlines() if " T sow::" in line}
    symbols = {name for name in symbols if "::detail" not in name and "~" not in name and "operator" not in name}
    known = {name.name for name in cpp_reference.names()}
    known |= {name for name in symbols if name.split("::")[-1] == name.split("::")[-2]}  # constructors
    headers = ROOT / "include" / "sow"
    known |= cpp_headers.hidden_names(headers) | cpp_headers.hidden_names(headers / "detail")
    declared = "".join(path.read_text() for path in headers.glob("*.h"))
    missing = sorted(name for name in symbols - known if re.search(rf"\b{name.split('::')[-1]}\(", declared))
    assert not missing and len(symbols) > 100, missing


def test_pages_of_the_menu(pages, site):
    """What a reader looks for is there by its name."""
    start = next(page for path, page in pages.items() if path == site / "index.html")
    linked = {link.split("#")[0] for link in start.links}
    for page in ("tour", "playground", "gallery", "porting", "semantics", "gradients", "programs", "frameworks", "performance",
                 "lab-notebook", "guides/masks", "guides/groups", "guides/graphs", "guides/kv-cache", "guides/binning",
                 "guides/gpus", "guides/scale", "reference/python/index", "reference/cpp/index"):
        assert f"{page}.html" in linked, page


def test_pages_fit_a_phone(pages, site, tmp_path):
    """390 pixels wide, nothing is wider than the page: tables and code scroll in boxes of their own."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("no Chromium here (scripts/setup browser installs it)")
    every = [str(path.relative_to(site)) for path in pages if path.relative_to(site).parts[0] not in ("source", "_static")]
    frames = "".join(f'<iframe width="390" height="844" src="file://{site}/{name}" data-name="{name}"></iframe>' for name in every)
    (tmp_path / "phone.html").write_text(f"""<body>{frames}<pre id="seen"></pre><script>onload = () => {{
      document.getElementById("seen").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map((frame) =>
        [frame.dataset.name, frame.contentDocument.documentElement.scrollWidth]));
    }};</script></body>""")
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                           "--virtual-time-budget=20000", "--dump-dom", f"file://{tmp_path}/phone.html"], capture_output=True, text=True, timeout=300)
    seen = json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL).group(1)))
    assert len(seen) == len(every) > 50
    assert not [(name, width) for name, width in seen if not 0 < width <= 390]


def test_pictures_are_for_light_and_dark():
    """One style: every picture has the reader's scheme, and no background of its own."""
    found = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
    for path in found:
        text = path.read_text()
        assert "prefers-color-scheme: dark" in text and "var(--ink)" in text, path.name
        assert 'fill="white"' not in text and "1.41421" not in text, path.name
    assert len([path for path in found if path.name.startswith("gallery-")]) >= 8

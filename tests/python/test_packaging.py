# SPDX-License-Identifier: Apache-2.0
"""What a release says of itself agrees: version, Python versions, licences, and what an installed package declares."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def test_every_file_names_the_same_version():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert json.loads((ROOT / "packaging/vcpkg/sow/vcpkg.json").read_text())["version-semver"] == VERSION
    assert f"\n## {VERSION} " in (ROOT / "CHANGELOG.md").read_text()
    assert set(re.findall(r"sow-(\d[\d.]*)-cp", (ROOT / "README.md").read_text())) <= {VERSION}


def test_wheels_are_made_for_the_pythons_that_are_declared():
    text = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    made = re.search(r'^build = "(.*)"$', text, re.MULTILINE).group(1)
    assert made.split() == [f"cp{version.replace('.', '')}-*" for version in declared]
    assert f'requires-python = ">={declared[0]}"' in text


def test_the_installed_package_declares_itself():
    found = importlib.metadata.metadata("sow")
    assert found["Version"] == VERSION
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown" and "## Install" in (found["Description"] or found.get_payload())
    assert {"torch", "jax", "paddle", "bench"} <= set(found.get_all("Provides-Extra"))
    names = {pathlib.PurePosixPath(path).name for path in importlib.metadata.files("sow")}
    assert {"LICENSE", "NOTICE", "py.typed", "_core.pyi"} <= names


def test_the_sources_need_no_library_of_others():
    """A C++20 compiler is enough: every system header is the standard's, POSIX's, OpenMP's or Linux's own. sow/mpi.h is for
    programs that have MPI."""
    known = re.compile(r"[a-z_]+|(sys/\w+|omp|pthread|sched|unistd|fcntl|dlfcn|immintrin|cpuid|xlocale|emmintrin|arm_\w+)\.h")
    for path in [*ROOT.glob("src/**/*.cc"), *ROOT.glob("src/**/*.h"), *ROOT.glob("include/sow/**/*.h")]:
        if "cuda" in path.relative_to(ROOT).parts or path == ROOT / "include/sow/mpi.h":
            continue
        for name in re.findall(r"^\s*#\s*include <(.*)>", path.read_text(), re.MULTILINE):
            assert known.fullmatch(name), f"{path.relative_to(ROOT)} includes <{name}>"


def test_a_missing_openmp_is_named():
    program = """
import sys

import pytest
class Missing:
    def find_spec(name, path=None, target=None):
        if name == "sow._core":
            raise ImportError("libgomp.so.1: cannot open shared object file: No such file or directory")
sys.meta_path.insert(0, Missing)
import sow
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "install the package libgomp1" in done.stderr.splitlines()[-1]


def test_workflows_call_what_is_there():
    """They cannot run here: at least every step has something to do, and what it names exists."""
    yaml = pytest.importorskip("yaml")
    targets = set(re.findall(r"^([\w-]+(?: [\w-]+)*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {name for line in targets for name in line.split()}
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(files) == 2
    for file in files:
        workflow = yaml.safe_load(file.read_text())
        assert workflow[True] and workflow["permissions"] == {"contents": "read"}  # YAML reads the key `on` as true
        for name, job in workflow["jobs"].items():
            assert job["runs-on"] and job["timeout-minutes"] <= 120, name
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), (name, step)
                if "uses" in step:
                    assert re.fullmatch(r"[\w-]+/[\w-]+@v\d[\d.]*", step["uses"]), step
                command = step.get("run", "")
                assert set(re.findall(r"\bmake (\w[\w-]*)", command)) <= targets, command
                for path in re.findall(r"(?:packaging|tests|scripts)/[\w./-]+", command):
                    assert (ROOT / path).exists(), path


def test_both_packages_carry_the_licences():
    """libsow_cuda has code of others in it, whose licence asks to be shown with it."""
    for project in (ROOT / "pyproject.toml", ROOT / "packaging" / "cuda" / "pyproject.toml"):
        assert 'license-files = ["LICENSE", "NOTICE"]' in project.read_text(), project
        for name in ("LICENSE", "NOTICE"):
            assert (project.parent / name).read_text() == (ROOT / name).read_text()

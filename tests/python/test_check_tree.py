# SPDX-License-Identifier: Apache-2.0
"""scripts/check_tree finds what it is there for."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_tree"


@pytest.fixture(scope="module")
def check_tree():
    loader = importlib.machinery.SourceFileLoader("check_tree", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_tree", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(("layer", "included"), [
    ("core", "transfer/transfer.h"), ("core", "ops/op.h"), ("transfer", "cpu/strategies.h"),
    ("transfer", "ops/op.h"), ("cpu", "ops/op.h"), ("cpu", "cuda/runtime/runtime.h"), ("cuda", "cpu/tuning.h"),
    ("ops", "cpu/mask/mask_scan.h"), ("ops", "program/graph.h"), ("autograd", "program/graph.h")])
def test_a_planted_upward_include_is_found(check_tree, layer, included):
    planted = f'// A file.\n#include "sow/ops.h"\n  #  include "{included}"\n'
    found = list(check_tree.layer_complaints(f"src/{layer}/folder/planted.cc", planted))
    assert found == [f"src/{layer}/folder/planted.cc: src/{layer} must not include {included.split('/')[0]}/"]


def test_includes_that_point_down_are_fine(check_tree):
    for layer, below in check_tree.LAYERS.items():
        text = "".join(f'#include "{name}/any.h"\n' for name in [*below, layer])
        assert not list(check_tree.layer_complaints(f"src/{layer}/any.cc", text))
    assert list(check_tree.layer_complaints("src/unheard_of/any.cc", ""))


def test_folders_have_a_limit(check_tree):
    names = [f"src/cpu/fold/{i}.cc" for i in range(check_tree.MAX_FOLDER)]
    assert not list(check_tree.folder_complaints(names))
    assert list(check_tree.folder_complaints([*names, "src/cpu/fold/more.h"])) == [
        f"src/cpu/fold: {check_tree.MAX_FOLDER + 1} files, the limit is {check_tree.MAX_FOLDER}"]


def test_private_words_are_found(check_tree):
    text = "// It is de" + "alt out,\nint x;  // and the re" + "sts stay.\nint interests;\n"
    found = list(check_tree.word_complaints("src/cpu/any.h", text))
    assert [line.split(": ")[0] for line in found] == ["src/cpu/any.h:1", "src/cpu/any.h:2"]
    assert not list(check_tree.word_complaints("docs/any.md", text))


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("src/core/any.cc", "// What it is for.\n", "// {}\n// What it is for.\n"),
    ("python/sow/any.py", '"""What it is for."""\n', '# {}\n"""What it is for."""\n'),
    ("scripts/any", "#!/bin/sh\n# What it is for.\n", "#!/bin/sh\n# {}\n# What it is for.\n"),
    ("cmake/version.h.in", "#pragma once\n", "// {}\n#pragma once\n"), ("cmake/any.cmake.in", "x\n", "# {}\nx\n"),
    ("tests/CMakeLists.txt", "x\n", "# {}\nx\n"), ("docs/_static/any.css", "x\n", "/* {} */\nx\n")])
def test_a_source_without_its_licence_is_found_and_mended(check_tree, name, text, expected):
    assert [line.split(" lack")[0] for line in check_tree.licence_complaints({name: text, "docs/any.md": "words\n"})] == ["1 sources"]
    mended = check_tree.with_licence(name, text)
    assert mended == expected.format(check_tree.LICENCE)
    assert not list(check_tree.licence_complaints({name: mended}))


def test_a_licence_deep_inside_of_a_source_is_none(check_tree):
    text = f"// One.\n// Two.\n// {check_tree.LICENCE}\n"
    assert list(check_tree.licence_complaints({"src/core/any.h": text}))


def test_the_tree_follows_the_rules(check_tree):
    assert check_tree.main() == 0

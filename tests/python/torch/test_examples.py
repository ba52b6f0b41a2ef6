# SPDX-License-Identifier: Apache-2.0
"""The examples in torch run and say that what they show holds."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[3] / "examples").glob("torch_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.stem for e in EXAMPLES])
def test_example(example):
    if example.stem == "torch_transformers" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not here")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "True" in done.stdout and "False" not in done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 3

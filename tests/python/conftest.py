# SPDX-License-Identifier: Apache-2.0
"""What all tests share: bounded examples, and a last line that names the peers that are missing."""

import os

import hypothesis

import peers

LONG = int(os.environ.get("SOW_TEST_PROBLEMS", "0")) >= 100_000  # what `make test-long` asks for

# Few tests that take long: begun first where files run side by side, so that none is left to the end alone.
LONGEST = ("torch/test_compile.py", "test_site.py", "distributed/test_processes.py", "test_notebooks.py", "test_types.py",
           "paddle/test_static.py", "torch/test_examples.py", "test_cli.py", "torch/test_dtensor.py", "test_stream.py")

hypothesis.settings.register_profile(
    "sow", deadline=None, max_examples=400 if LONG else 40, derandomize=not LONG, database=None,
    suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("sow")


def pytest_collection_modifyitems(items):
    """The longest come first. Peers' tests that are left out on purpose are not there: a skip would say that one is missing."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))
    if peers.left_out:
        items[:] = [item for item in items if not any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif"))]


def pytest_terminal_summary(terminalreporter):
    if peers.missing:
        terminalreporter.write_line(f"not compared, going on without: {', '.join(peers.missing)}")

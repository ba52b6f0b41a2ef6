# SPDX-License-Identifier: Apache-2.0
"""Random Python objects as arguments: the call works or raises a documented exception, and never crashes."""

import os

import argument_fuzzer
import pytest

import sow

import peers

BATCHES = int(os.environ.get("SOW_FUZZ_BATCHES", "20"))
pytestmark = pytest.mark.filterwarnings("ignore:nanobind")


def test_random_objects_as_arguments():
    made, raised = argument_fuzzer.run_batches(0, BATCHES, libraries=False)
    assert made == BATCHES * argument_fuzzer.BATCH
    assert 0.1 < raised / made < 0.9  # both ways of ending are met


def test_random_objects_beside_arrays_of_other_libraries():
    if peers.torch or peers.jax:
        argument_fuzzer.run_batches(BATCHES, BATCHES + 3, libraries=True)


def test_objects_the_foreign_exception_of_which_is_kept_as_the_cause():
    class Broken:
        def __dlpack__(self, **keywords):
            raise OSError("the disk is on fire")

    try:
        sow.asarray(Broken())
    except TypeError as error:
        assert isinstance(error.__cause__, OSError) and "the disk is on fire" in str(error)
    else:
        raise AssertionError("no error")

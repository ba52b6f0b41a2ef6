# SPDX-License-Identifier: Apache-2.0
"""Every public name has a docstring, and every example in one runs and prints what it says."""

import doctest
import inspect

import numpy as np
import pytest

import sow

NAMES = {"np": np, "sow": sow}
OPTIONS = doctest.NORMALIZE_WHITESPACE


def public_functions():
    return [name for name in sow.__all__ if callable(getattr(sow, name)) and not inspect.isclass(getattr(sow, name))]


def documented_methods():
    return [name for name, method in vars(sow.Tensor).items() if not name.startswith("_") and callable(method)]


def run_examples(text, name):
    test = doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, 0)
    output = []
    result = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=output.append)
    assert result.failed == 0, "".join(output)
    return result.attempted


@pytest.mark.parametrize("name", public_functions())
def test_example_of_function(name):
    assert run_examples(getattr(sow, name).__doc__, name) > 0


@pytest.mark.parametrize("name", documented_methods())
def test_example_of_method(name):
    assert run_examples(getattr(sow.Tensor, name).__doc__, name) > 0


def test_examples_of_package_and_classes():
    assert run_examples(sow.__doc__, "sow") > 0
    assert run_examples(sow.Index.__doc__, "Index") > 0
    assert run_examples(sow.Program.__doc__, "Program") > 0
    assert sow.CompiledProgram.__doc__
    assert sow.Tensor.__doc__ and sow.DType.__doc__


@pytest.mark.parametrize("name", [name for name in vars(sow.cuda) if not name.startswith("_")])
def test_example_of_cuda(name):
    assert run_examples(getattr(sow.cuda, name).__doc__, name) > 0


def test_every_operation_is_a_method():
    reading_or_making = {"arange", "asarray", "explain", "from_dlpack", "full", "get_num_threads", "jit", "grad",
                         "is_grad_enabled", "limit_memory", "memory_stats", "resume_stream", "set_tile_shape", "stream", "tiles", "ones", "rand", "randn", "release_memory", "scatter_nd", "seed",
                         "set_num_threads", "tensor", "vjp", "where", "zeros", "histogram", "histogramdd", "unique"}
    for name in set(public_functions()) - reading_or_making:
        assert hasattr(sow.Tensor, name), name

# SPDX-License-Identifier: Apache-2.0
"""TensorFlow on the CPU: tensor_scatter_nd_*, always out of place."""

# mypy: ignore-errors
from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

from ..cases import Case
from ..data import Arrays
from ..way import Way

FUNCTIONS = {"add": "add", "amax": "max", "amin": "min", "assign": "update"}


def start(threads: int) -> str:
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    return str(tf.__version__)


def set_threads(threads: int) -> None:
    """TensorFlow sizes its pool once: cases on fewer threads leave it out."""


def ways(case: Case, arrays: Arrays, compiled: bool) -> list[Way]:
    fits = case.kind == "rows" and case.reduce in FUNCTIONS and case.dtype in ("float32", "float64", "int64")
    if not fits or case.backward or case.threads:
        return []
    x, src = tf.constant(arrays["x"]), tf.constant(arrays["src"])
    index = tf.constant(arrays["index"].reshape(-1, 1))
    name = "tensor_scatter_nd_" + FUNCTIONS[case.reduce]
    function = getattr(tf, name)
    return [Way(name, run=lambda: function(x, index, src), result=lambda out: [out.numpy()])]

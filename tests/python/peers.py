# SPDX-License-Identifier: Apache-2.0
"""The array libraries that are here: the tests compare with those, and say which were missing."""

import importlib
import os
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("GLOG_minloglevel", "2")

missing = []
# Where sow is tested under a sanitizer, whose runtime the others were not made for, they are left out on purpose.
left_out = bool(os.environ.get("SOW_TEST_WITHOUT_PEERS"))


def load(module, package=None):
    """The module, or None where it is not installed."""
    if left_out and module != "ml_dtypes":
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError:
        missing.append(package or module)
        return None


ml_dtypes = load("ml_dtypes")
torch = load("torch")
jax = load("jax")
paddle = load("paddle", "paddlepaddle")
cupy = load("cupy")
onnx = load("onnx")

if jax is not None:
    jax.config.update("jax_enable_x64", True)
if cupy is not None:
    try:
        cupy.zeros(1)
    except Exception:  # installed, but without a device
        missing.append("cupy")
        cupy = None

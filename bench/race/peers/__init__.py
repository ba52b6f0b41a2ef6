# SPDX-License-Identifier: Apache-2.0
"""The libraries that race: a module each, with start, set_threads and ways (see way.py)."""

NAMES = ("sow", "torch", "numpy", "jax", "paddle", "tensorflow")
TITLES = {"sow": "sow", "torch": "PyTorch", "numpy": "NumPy", "jax": "JAX", "paddle": "Paddle", "tensorflow": "TensorFlow",
          "cupy": "CuPy", "torch_deterministic": "PyTorch, deterministic"}

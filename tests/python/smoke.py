# SPDX-License-Identifier: Apache-2.0
"""Tries an installed sow with nothing but NumPy: one scatter of each family, and the command."""

import subprocess
import sys

import numpy as np

import sow

x = np.zeros((3, 5), "f4")
result = sow.scatter_(x, 0, np.array([[1, 2], [0, 1]]), 2.0)
assert result is x
assert x.tolist() == [[2, 0, 0, 0, 0], [2, 2, 0, 0, 0], [0, 2, 0, 0, 0]]

mask = np.array([True, False, True])
assert sow.masked_scatter(np.zeros(3), mask, np.array([1.0, 2.0])).tolist() == [1, 0, 2]
assert sow.put_along_axis(np.zeros(3), [0, 0, 2], 1.0, 0).tolist() == [2, 0, 1]
assert sow.diagonal_scatter(np.zeros((2, 2)), np.ones(2)).tolist() == [[1, 0], [0, 1]]
assert sow.index_add(sow.zeros([2, 2]), 0, [1, 1], sow.ones([2, 2])).tolist() == [[0, 0], [2, 2]]
total = sow.scatter_add(np.zeros(1, "f4"), 0, [0] * 4, np.array([1e20, 1, -1e20, 1], "f4"))
assert total.tolist() == [2.0], "sums are exact"

try:
    sow.scatter_add(np.zeros(3), 0, [7], np.ones(1))
except IndexError as error:
    assert "7" in str(error)
else:
    raise AssertionError("an index out of range went unnoticed")

for command in (["info"], ["demo"], ["bench", "--list"]):
    done = subprocess.run([sys.executable, "-m", "sow", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
print(f"sow {sow.__version__} works with Python {sys.version.split()[0]}, NumPy {np.__version__}")

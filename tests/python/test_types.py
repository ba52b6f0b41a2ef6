# SPDX-License-Identifier: Apache-2.0
"""A type checker accepts the package and a program that uses it, and finds a wrong one wrong."""

import pathlib
import subprocess
import sys

import sow

RIGHT = """
import numpy as np
import sow
from typing import Any

x: np.ndarray[Any, Any] = np.zeros((3, 5), "f4")
y: np.ndarray[Any, Any] = sow.scatter_(x, 0, np.array([[1, 2]]), 2.0)
t: sow.Tensor = sow.zeros([2, 3], sow.float32)
u: sow.Tensor = t.masked_scatter([[True, False, True]], [1.0, 2.0, 3.0, 4.0]).put_along_axis([[0], [1]], 1, axis=1)
v: sow.Tensor = sow.index_add(t, 0, sow.Index([0, 1], size=2), sow.ones([2, 3]), bounds="drop")
n: int = t.shape[0] + t.ndim
d: sow.DType = t.dtype
s: str = sow.explain("scatter", t, 0, [0], 1.0)
t[0, 1:] = 5
w: sow.Tensor = t[t]
m: np.ndarray[Any, Any] = t.numpy()
"""
WRONG = ["sow.scatter(sow.zeros([2]), 'zero', [0], 1.0)", "sow.zeros([2]).scatter(0)", "sow.explain(3)",
         "sow.unknown", "sow.zeros([2]).shape.x", "x: int = sow.zeros([2])"]


# The race imports whole libraries, whose types would take minutes to read.
CONFIG = """
[mypy]
strict = true
[mypy-torch.*,jax.*,paddle.*,tensorflow.*,scipy.*,cupy.*,cupyx.*,matplotlib.*,mpi4py.*]
follow_imports = skip
ignore_missing_imports = true
"""


def mypy(*arguments, cwd):
    (cwd / "mypy.ini").write_text(CONFIG)
    return subprocess.run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cwd / "cache"),
                           *arguments], capture_output=True, text=True, cwd=cwd)


def test_the_package_is_typed(tmp_path):
    package = pathlib.Path(sow.__file__).parent
    assert (package / "py.typed").exists() and (package / "_core.pyi").exists()
    done = mypy("-p", "sow", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_programs(tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("import sow\n" + "\n".join(WRONG))
    done = mypy("right.py", "wrong.py", cwd=tmp_path)
    assert "right.py" not in done.stdout, done.stdout
    for line in range(2, len(WRONG) + 2):
        assert f"wrong.py:{line}:" in done.stdout, WRONG[line - 2]


def test_every_public_name_is_in_the_stubs():
    package = pathlib.Path(sow.__file__).parent
    text = "".join((package / name).read_text() for name in ("_core.pyi", "_autograd.py", "_jit.py", "_counting.py", "_stream.py", "_threads.py", "_tiles.py"))
    for name in set(sow.__all__) - {"__version__", "cuda"}:
        assert any(form in text for form in (f"def {name}(", f"class {name}", f"{name}: DType")), name

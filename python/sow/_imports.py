# SPDX-License-Identifier: Apache-2.0
"""Tells torch's compiler about sow's functions as soon as both are there, and not before.

torch._dynamo is imported when the first function is compiled. It must know by then that calls of sow
belong into its graphs, where the arrays that it traces with lead them to sow.torch.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_WATCHED = "torch._dynamo"


def _tell() -> None:
    from . import _core, _frameworks

    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    allowed = getattr(rules, "_allowed_callable_ids", None)
    if allowed is None:
        return  # a torch that has no such list breaks its graph at sow's calls, as at any others
    for name in _frameworks.OPERATIONS:
        allowed.add(id(getattr(_core, name)))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != _WATCHED:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _tell()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Tells torch now if it can compile already, else when it first does."""
    if _WATCHED in sys.modules:
        _tell()
    else:
        sys.meta_path.insert(0, _Finder())

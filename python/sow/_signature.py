# SPDX-License-Identifier: Apache-2.0
"""Real signatures of the compiled functions, for inspect, IPython and editors."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from . import _core


@functools.cache
def _parsed(text: str, defaults: tuple[Any, ...]) -> inspect.Signature:
    """Of "def f(x: A, axis: int = \\0) -> A", whose defaults are named by their numbers."""
    numbered = re.sub(r"\\(\d+)", r"_default[\1]", text)
    space: dict[str, Any] = {"_default": defaults}
    exec("from __future__ import annotations\n" + numbered + ": ...", space)
    found = space[re.match(r"def (\w+)", numbered).group(1)]  # type: ignore[union-attr]
    return inspect.signature(found)


def signature_of(function: Any) -> inspect.Signature:
    """The first way of calling it; others differ in names alone (axis, dim)."""
    text, _, *defaults = function.__nb_signature__[0]
    signature = _parsed(text, tuple(defaults[0]) if defaults and defaults[0] else ())
    bound = getattr(function, "__self__", None)
    if isinstance(bound, _core.Tensor):
        return signature.replace(parameters=list(signature.parameters.values())[1:])
    return signature


for _kind in (_core.index_add, _core.Tensor.index_add, _core.zeros([1]).index_add):
    _core._describe(_kind, property(signature_of))

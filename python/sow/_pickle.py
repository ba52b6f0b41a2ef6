# SPDX-License-Identifier: Apache-2.0
"""Where pickled tensors and programs come back to life, and how functions are found again: by their names."""

import copyreg
from typing import Any

from . import Index, Program, Tensor, tensor
from ._core import index_add as _core_function


def restore(values: Any, dtype: str) -> Tensor:
    return tensor(values, dtype)


def restore_index(keys: Any, size: int, bounds: Any, sorted: bool, unique: bool) -> Index:
    return Index(keys, size, bounds=bounds, sorted=sorted, unique=unique)


def restore_program(data: bytes) -> Program:
    return Program.deserialize(data)


def _name_of(function: Any) -> str:
    from . import _core

    name: str = function.__name__
    if getattr(_core, name, None) is not function:
        raise TypeError(f"cannot pickle {function!r}")
    return name


copyreg.pickle(type(_core_function), _name_of)

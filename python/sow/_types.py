# SPDX-License-Identifier: Apache-2.0
"""The types in the signatures of sow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Union

from ._core import DType, Index

if TYPE_CHECKING:
    import numpy

    NumpyArray = numpy.ndarray[Any, Any]


class SupportsDLPack(Protocol):
    """Any array: NumPy's, PyTorch's, JAX's, CuPy's, Paddle's, sow's."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


A = TypeVar("A", bound=SupportsDLPack)
"""A destination: the result is of the same kind."""

Number = Union[bool, int, float, complex]
Nested = Sequence[Any]
ArrayLike = Union[SupportsDLPack, Number, Nested, bytes, bytearray, memoryview]
"""What can be read: an array, a number, a nested list, anything with a buffer."""

IndexLike = Union[ArrayLike, Index]
Shape = Union[int, Sequence[int]]
StreamLike = Union[int, Any]
"""A CUDA stream: torch's, CuPy's, an object with __cuda_stream__, or the number of a cudaStream_t."""
Reduction = Literal["assign", "add", "sum", "mul", "multiply", "prod", "amax", "max", "amin", "min", "mean",
                    "bitwise_and", "bitwise_or", "bitwise_xor"]
"""What happens where several updates meet."""
GroupReduction = Literal["add", "sum", "mul", "multiply", "prod", "amax", "max", "amin", "min", "mean", "count", "any", "all",
                         "var", "std", "logsumexp", "first", "last", "argmax", "argmin", "bitwise_and", "bitwise_or",
                         "bitwise_xor"]
"""What becomes of a group or a segment."""
Policy = Literal["error", "drop", "clip", "promise", "error_unwrapped", "drop_unwrapped", "clip_unwrapped"]
"""What happens to an index outside of its axis."""
Out = Union[SupportsDLPack, None]
"""An array that takes the result, or None: a new one."""
DTypeLike = Union[DType, str, type, Any]

__all__ = ["A", "ArrayLike", "DTypeLike", "GroupReduction", "IndexLike", "Number", "Out", "Policy", "Reduction", "Shape",
           "StreamLike", "SupportsDLPack"]

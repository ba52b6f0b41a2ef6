# SPDX-License-Identifier: Apache-2.0
"""`sow explain`: the plan of an operation on shapes given on the command line."""

import argparse
import re
from typing import Any

from . import Tensor, arange, explain, ones, zeros
from ._race import look

ALONG_AXIS = ("put_along_axis", "scatter", "scatter_add", "scatter_reduce", "gather", "take_along_axis")
ROWS = ("index_add", "index_copy", "index_fill", "index_reduce", "index_select")
OTHERS = ("masked_scatter", "masked_fill", "masked_select", "diagonal_scatter")

EXAMPLES = """examples:
  sow explain scatter_add 100000 1000000
  sow explain index_add 50000x64 500000 --dtype bfloat16
  sow explain put_along_axis 1024x8192 1024x1024 --axis 1 --reduce amax
  sow explain masked_scatter 4096x4096 --device cuda"""


def shape(text: str) -> list[int]:
    try:
        return [int(extent) for extent in text.lower().split("x")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no shape; write 1024x8192") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("operation", choices=ALONG_AXIS + ROWS + OTHERS)
    parser.add_argument("shape", type=shape, help="of the destination: 1024x8192")
    parser.add_argument("index", type=shape, nargs="?", help="shape of the index (default: the destination's)")
    parser.add_argument("--axis", type=int, default=0)
    parser.add_argument("--reduce", default="add")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1")


def keys(extents: list[int], size: int) -> Tensor:
    """Spread over the axis, every place about equally often."""
    count = 1
    for extent in extents:
        count *= extent
    spread = arange(0, count) if count <= size else arange(0, size)
    flat = zeros(count, "int64")
    for at in range(0, count, max(size, 1)):
        flat[at : at + size] = spread[: count - at]
    return flat.reshape(extents)


def arguments(options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    name, extents, axis = options.operation, options.shape, options.axis
    x = zeros(extents, options.dtype)
    if name == "diagonal_scatter":
        return [x, x.diagonal().clone()], {}
    if name in OTHERS:
        mask = ones(extents, "bool")
        values: dict[str, list[Any]] = {"masked_scatter": [ones(extents, options.dtype)], "masked_fill": [1]}
        return [x, mask, *values.get(name, [])], {}
    index = keys(options.index or (extents if name in ALONG_AXIS else extents[axis : axis + 1]), x.shape[axis])
    if name in ROWS:
        rows = list(extents)
        rows[axis] = index.size
        source = ones(rows, options.dtype)
        rest: list[Any] = [1] if name == "index_fill" else [] if name == "index_select" else [source]
        return [x, axis, index, *rest], {"reduce": options.reduce} if name == "index_reduce" else {}
    source = ones(index.shape, options.dtype)
    if name == "put_along_axis":
        return [x, index, source, axis], {"reduce": options.reduce}
    if name == "take_along_axis":
        return [x, index, axis], {}
    rest = [] if name == "gather" else [source]
    return [x, axis, index, *rest], {"reduce": options.reduce} if name == "scatter_reduce" else {}


def main(options: argparse.Namespace) -> None:
    positional, keywords = arguments(options)
    positional = [given.to(options.device) if isinstance(given, Tensor) else given for given in positional]
    for line in explain(options.operation, *positional, **keywords).splitlines():
        found = re.fullmatch(r"  (\S.*?) {2,}(.*)", line)
        if found:
            print(look.row(*found.groups()))
        else:
            look.heading(line) if not line.startswith(" ") else print(line)

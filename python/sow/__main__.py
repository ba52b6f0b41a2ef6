# SPDX-License-Identifier: Apache-2.0
"""The command `sow`, also as `python -m sow`: info, explain, demo, bench, tune."""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from . import __version__, _core, _demo, _explain, _info
from ._race import __main__ as _race


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sow", description="Every scatter, on every array.")
    parser.add_argument("--version", action="version", version=f"sow {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    info = commands.add_parser("info", help="this machine and what sow finds on it")
    info.set_defaults(run=lambda _: _info.main())

    explain = commands.add_parser("explain", help="how an operation would be done, in words")
    _explain.add_arguments(explain)
    explain.set_defaults(run=_explain.main)

    demo = commands.add_parser("demo", help="a short tour with pictures")
    demo.add_argument("operation", nargs="*", help="only these")
    demo.set_defaults(run=lambda options: _demo.main(options.operation))

    bench = commands.add_parser("bench", help="a race against every array library that is installed")
    _race.add_arguments(bench)
    bench.set_defaults(run=_race.run, out=pathlib.Path("sow-bench"))

    tune = commands.add_parser("tune", help="measure this machine for the planner, and keep it in a file")
    tune.add_argument("--out", default="", help="the file (default: $SOW_TUNING, else ~/.config/sow/tuning-<instruction set>.txt)")
    tune.set_defaults(run=_tune)
    return parser


def _tune(options: argparse.Namespace) -> None:
    path = _core._tune(options.out)
    print(pathlib.Path(path).read_text(), end="")
    print(f"# nanoseconds, written to {path}; used from the next start on" + ("" if not options.out else f" with SOW_TUNING={path}"))


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        print(f"sow: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())

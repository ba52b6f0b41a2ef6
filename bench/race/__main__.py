"""The command: sow bench, make bench, make bench-quick; or python -m race from bench/."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from typing import Any

from . import machine, report, table
from .cases import all_cases
from .contender import Contender
from .device_cases import PEERS, device_cases
from .peers import NAMES
from .run import DEVICE, FULL, QUICK, Race


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="race", description="Race sow against every library that is installed.")
    add_arguments(parser)
    return parser.parse_args(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="the rows with goals, in less than two minutes")
    parser.add_argument("--seconds", type=float, metavar="S", help="of timing a case; torch.compile sits out below 2")
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[], help="cases whose name or group matches")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the arrays lie")
    parser.add_argument("--peers", default=",".join([*NAMES, *PEERS]), help="who takes part, separated by commas")
    parser.add_argument("--threads", type=int, default=machine.processors())
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--document", type=pathlib.Path, metavar="PAGE", help="put the last run's table into this page")
    parser.add_argument("--list", action="store_true", help="print the cases and leave")


class Progress:
    """What happens now: a moving line in a terminal, one line a case elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()
        self.moves = sys.stderr.isatty()

    def say(self, words: str) -> None:
        if self.moves:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + f"[{self.done + 1}/{self.total}, {time.monotonic() - self.began:.0f} s] {words}"[:width],
                  end="", file=sys.stderr, flush=True)

    def finish(self, result: dict[str, Any]) -> None:
        self.done += 1
        times = result["seconds"]
        said = ", ".join(f"{name} {table.duration(times[name])}" for name in times)
        ratio = f"; {result['ratio']:.2f} times faster than {result['best_peer']}" if result["ratio"] else ""
        print(("\r\033[K" if self.moves else "") + f"[{self.done}/{self.total}] {result['case']['name']}: {said}{ratio}",
              file=sys.stderr, flush=True)
        for entry in result["entries"]:
            if entry.get("error"):
                print(f"    {entry['peer']} {entry['way']}: {entry['error']}", file=sys.stderr)


def shared_folder() -> pathlib.Path:
    memory = pathlib.Path("/dev/shm")
    return pathlib.Path(tempfile.mkdtemp(prefix="sow-race-", dir=memory if memory.is_dir() else None))


def start(names: list[str], threads: int, logs: pathlib.Path, device: str) -> list[Contender]:
    """All libraries are imported at once; those that are not there are left out."""
    for name in names:
        (logs / f"{name}.log").unlink(missing_ok=True)
    contenders = [Contender(name, threads, logs, device) for name in names]
    there = [contender for contender in contenders if contender.greet()]
    for contender in contenders:
        if contender not in there:
            print(f"{contender.name} does not take part: {contender.missing}", file=sys.stderr)
    return there


def race(options: argparse.Namespace) -> int:
    on_device = options.device == "cuda"
    cases = device_cases() if on_device else all_cases(options.quick, options.threads)
    if options.only:
        cases = [case for case in cases
                 if any(fnmatch.fnmatch(case.name, f"*{p}*") or fnmatch.fnmatch(case.group, f"*{p}*") for p in options.only)]
    if options.list:
        print("\n".join(f"{case.group:45}{case.name}" for case in cases))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    shared = shared_folder()
    about = machine.describe()
    names = [name for name in (PEERS if on_device else NAMES) if name in options.peers.split(",")]
    contenders = start(names, options.threads, options.out, options.device)
    if not contenders:
        print("nobody takes part", file=sys.stderr)
        return 1
    device = contenders[0].device_name
    results = []
    try:
        progress = Progress(len(cases))
        budget = DEVICE if on_device else QUICK if options.quick else FULL
        if options.seconds is not None:
            fewest = budget.fewest if options.seconds >= 2 else 3
            budget = dataclasses.replace(budget, seconds=options.seconds, fewest=fewest, compiled=options.seconds >= 2)
        runner = Race(contenders, options.threads, budget, shared, progress.say, device)
        for case in cases:
            results.append(runner.run(case))
            progress.finish(results[-1])
    except KeyboardInterrupt:
        print("\nstopped: what was measured is kept", file=sys.stderr)
    finally:
        for contender in contenders:
            contender.stop()
        shutil.rmtree(shared, ignore_errors=True)
    if not results:
        return 1
    run = {"machine": about, **({"device": device} if device else {}), "threads": options.threads, "versions": {c.name: c.version for c in contenders},
           "bandwidth": statistics.median(result["bandwidth"] for result in results), "results": results}
    report.write(run, options.out)
    table.show(results)
    goals = [result for result in results if result["goals"]]
    met = sum(all(goal["met"] for goal in result["goals"]) for result in goals)
    print(f"\n{met} of {len(goals)} goals met. Copies: {run['bandwidth'] / 1e9:.1f} GB/s. "
          f"Pictures and plans: {options.out / 'race.html'}")
    return 0


def run(options: argparse.Namespace) -> int:
    if options.document:
        report.document(json.loads((options.out / "race.json").read_text()), options.document)
        return 0
    return race(options)


def main(arguments: list[str] | None = None) -> int:
    return run(parse(arguments))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The command: sow bench, make bench, make bench-quick; or python -m race from bench/."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time
from typing import Any

from . import behind, look, machine, report, table
from .cases import Case, all_cases
from .contender import ISAS, Contender
from .device_cases import PEERS, SAMPLE_MOST, SAMPLED, device_cases, device_grid
from .grid import sample
from .peers import NAMES, TITLES
from .run import DEVICE, FULL, QUICK, Budget, Race, is_crossed

OTHERS = tuple(dict.fromkeys([*NAMES[1:], *PEERS[1:]]))
EXAMPLES = """examples:
  sow bench --quick                          the rows with goals, in two minutes
  sow bench --quick --only mask --list       what a pattern stands for
  sow bench --only 'rows*held' --peers torch sow beside PyTorch alone
  sow bench --device cuda                    on a GPU"""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="race", description="Race sow against every library that is installed.")
    add_arguments(parser)
    return parser.parse_args(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("--quick", action="store_true", help="the rows with goals, in less than two minutes")
    parser.add_argument("--seconds", type=float, metavar="S", help="of timing a case; torch.compile sits out below 2")
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[],
                        help="only cases whose name or group contains this; * and ? stand for anything; several are united; --list shows what is left")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the arrays lie")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many cases of the grid, the same on every machine")
    parser.add_argument("--grid", action="store_true", help=f"on a GPU the whole grid, and not {SAMPLED} cases of it")
    parser.add_argument("--isa", choices=tuple(ISAS), default="", help="hold every library to an instruction set")
    parser.add_argument("--peers", metavar="NAMES", default="",
                        help=f"who takes part beside sow, separated by commas (default: all of {', '.join(OTHERS)} that are installed)")
    parser.add_argument("--threads", type=int, default=machine.processors())
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"), help="where the page, the table and the numbers go")
    parser.add_argument("--document", type=pathlib.Path, metavar="PAGE", help="put the last run's table into this page")
    parser.add_argument("--list", action="store_true", help="print the cases and leave")


class Stopped(BaseException):
    """Somebody asked the race to end: what was measured is kept, everything else is cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


def stop_politely(number: int, _: Any) -> None:
    raise Stopped(number)


class Progress:
    """What happens now: a moving line in a terminal, one line a case elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()
        self.moves = sys.stderr.isatty()

    def say(self, words: str) -> None:
        if self.moves:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + f"[{self.done + 1}/{self.total}, {self.left()}] {words}"[:width], end="", file=sys.stderr, flush=True)

    def left(self) -> str:
        spent = time.monotonic() - self.began
        if not self.done:
            return look.seconds(spent)
        return f"{look.seconds(spent)}, about {look.seconds(spent / self.done * (self.total - self.done))} left"

    def finish(self, result: dict[str, Any]) -> None:
        self.done += 1
        times = result["seconds"]
        said = ", ".join(f"{name} {table.duration(times[name])}" for name in times)
        compared = look.paint(f"; {look.ratio(result['ratio'])} {TITLES[result['best_peer']]}",
                              "good" if result["ratio"] > 1 else "bad", sys.stderr) if result["ratio"] else ""
        look.note(("\r\033[K" if self.moves else "") + f"[{self.done}/{self.total}, {self.left()}] {result['case']['name']}: {said}{compared}")
        for entry in result["entries"]:
            if entry.get("error"):
                look.note(f"    {entry['peer']} {entry['way']}: {entry['error']}")


def shared_folder() -> pathlib.Path:
    memory = pathlib.Path("/dev/shm")
    return pathlib.Path(tempfile.mkdtemp(prefix=f"sow-race-{os.getpid()}-", dir=memory if memory.is_dir() else None))


def start(names: list[str], options: argparse.Namespace, contenders: list[Contender]) -> list[Contender]:
    """All libraries are imported at once; those that are not there are left out. Whoever was started is in `contenders`."""
    look.note(f"importing {', '.join(names)}")
    for name in names:
        (options.out / f"{name}.log").unlink(missing_ok=True)
        contenders.append(Contender(name, options.threads, options.out, options.device, options.isa))
    there = [contender for contender in contenders if contender.greet()]
    for contender in contenders:
        if contender not in there:
            look.note(f"{contender.name} does not take part: {contender.missing}")
    return there


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    on_device = options.device == "cuda"
    cases = device_cases() if on_device else all_cases(options.quick, options.threads)
    if on_device:
        whole = options.only or options.sample is not None or options.list or options.grid
        cases += device_grid() if whole else sample(list(device_grid()), SAMPLED, SAMPLE_MOST)
    if not options.only:
        return cases

    def matches(case: Case, pattern: str) -> bool:
        return fnmatch.fnmatch(case.name, f"*{pattern}*") or fnmatch.fnmatch(case.group, f"*{pattern}*")

    for pattern in options.only:
        if not any(matches(case, pattern) for case in cases):
            near = difflib.get_close_matches(pattern, [case.name for case in cases], 1, 0.3)
            raise ValueError(f"bench: no case's name or group contains '{pattern}'" + (f"; is it '{near[0]}'?" if near else "") +
                             f" (--list shows all {len(cases)}{', more without --quick' if options.quick else ''})")
    return [case for case in cases if any(matches(case, pattern) for pattern in options.only)]


def chosen_names(options: argparse.Namespace) -> list[str]:
    """Who races: sow always, and those that were asked for."""
    there = PEERS if options.device == "cuda" else NAMES
    asked = [name.strip() for name in options.peers.split(",") if name.strip()] or list(there)
    for name in asked:
        if name not in {*NAMES, *PEERS}:
            near = difflib.get_close_matches(name, OTHERS, 1)
            raise ValueError(f"bench: no library '{name}'" + (f"; is it '{near[0]}'?" if near else "") + f" (there are: {', '.join(OTHERS)})")
        if name not in there:
            look.note(f"{name} does not race on {options.device}")
    return [name for name in there if name == "sow" or name in asked]


def race(options: argparse.Namespace) -> int:
    cases, names = chosen_cases(options), chosen_names(options)
    if options.sample is not None:
        most = {"most": SAMPLE_MOST} if options.device == "cuda" else {}
        cases = sample([case for case in cases if is_crossed(case)], options.sample, **most)
    if options.list:
        print("\n".join(f"{case.group:45}{case.name}" for case in cases))
        return 0
    if options.only:
        look.note(f"{len(cases)} cases match --only {' '.join(options.only)}")
    options.out.mkdir(parents=True, exist_ok=True)
    about, results, status = machine.describe(), [], 0
    started: list[Contender] = []
    contenders: list[Contender] = []
    handlers = {number: signal.signal(number, stop_politely) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    shared = shared_folder()
    try:
        contenders = start(names, options, started)
        if not any(contender.name == "sow" for contender in contenders):
            raise RuntimeError(f"bench: sow itself could not be started; {options.out / 'sow.log'} says why")
        progress = Progress(len(cases))
        runner = Race(contenders, options.threads, budget_of(options), shared, progress.say, contenders[0].device_name)
        for case in cases:
            results.append(runner.run(case))
            progress.finish(results[-1])
    except Stopped as stopped:
        status = 128 + stopped.number
        look.note(f"\nstopped after {len(results)} of {len(cases)} cases" + ("; what was measured is kept" if results else ""))
    finally:
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts the cleaning up
        for contender in started:
            contender.stop()
        shutil.rmtree(shared, ignore_errors=True)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if results:
        tell(options, about, contenders, results)
    return status


def budget_of(options: argparse.Namespace) -> Budget:
    budget = DEVICE if options.device == "cuda" else QUICK if options.quick else FULL
    if options.seconds is None:
        return budget
    fewest = budget.fewest if options.seconds >= 2 else 3
    return dataclasses.replace(budget, seconds=options.seconds, fewest=fewest, compiled=options.seconds >= 2)


def tell(options: argparse.Namespace, about: dict[str, Any], contenders: list[Contender], results: list[dict[str, Any]]) -> None:
    device = contenders[0].device_name
    run = {"machine": about, **({"device": device} if device else {}), **({"isa": options.isa} if options.isa else {}),
           "threads": options.threads,
           "versions": {c.name: c.version for c in contenders},
           "bandwidth": statistics.median(result["bandwidth"] for result in results), "results": results}
    report.write(run, options.out)
    table.show([result for result in results if not result["case"]["group"].startswith("grid")])
    goals = [result for result in results if result["goals"]]
    met = sum(all(goal["met"] for goal in result["goals"]) for result in goals)
    raced = [result["ratio"] for result in results if result["ratio"]]
    print()
    look.rows([
        ("machine", f"{about['processor']}, {options.threads} threads" if not device else device),
        ("copies", f"{run['bandwidth'] / 1e9:.1f} GB/s, reads and writes counted"),
        *([("goals", f"{met} of {len(goals)} met")] if goals else []),
        *([("ahead", f"in {sum(ratio > 1 for ratio in raced)} of {len(raced)} cases, {look.ratio(statistics.geometric_mean(raced))} "
           "the best of the others (geometric mean)")] if raced else []),
        ("page", str(options.out / "race.html")),
    ])
    print(behind.write(run, options.out))


def run(options: argparse.Namespace) -> int:
    if options.document:
        last = json.loads((options.out / "race.json").read_text())
        if behind.of_grid(last["results"]):
            behind.document(last, options.document, report.machine_line(last))
            if last.get("device"):
                report.document_heat(last, options.document)
        of_table = any(not result["case"]["group"].startswith("grid") for result in last["results"])
        if of_table and report.has_marks(last, options.document):
            report.document(last, options.document)
        return 0
    return race(options)


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(parse(arguments))
    except (ValueError, RuntimeError) as error:
        print(f"race: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

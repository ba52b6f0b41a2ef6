# SPDX-License-Identifier: Apache-2.0
"""The command `sow`: info, explain, demo, bench, tune."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import sow


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "sow", *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=120)


def test_info():
    done = run("info")
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert done.returncode == 0 and lines["sow"] == sow.__version__
    assert lines["instructions"] in ("portable", "avx2", "avx512")
    assert float(lines["memory"].split()[0]) > 0 and "NumPy" in lines and int(lines["threads"]) >= 1


def test_info_shows_the_forced_instruction_set():
    assert "instructions  portable" in run("info", SOW_ISA="portable").stdout


def test_tune_writes_a_file_that_is_read(tmp_path):
    file = tmp_path / "folder" / "costs.txt"
    done = run("tune", "--out", str(file))
    assert done.returncode == 0 and str(file) in done.stdout
    lines = file.read_text().splitlines()
    assert lines[0].startswith("sow tuning 1 ") and len(lines) > 10
    assert all(float(line.split()[1]) > 0 for line in lines[1:])
    arguments = ("explain", "index_add_", "1000", "0", "1000", "1000")
    assert run(*arguments, SOW_TUNING=str(file)).stderr == run(*arguments, SOW_TUNING="").stderr


def test_a_bad_tuning_file_is_refused_or_left_out(tmp_path):
    call = "import numpy as np, sow; print(sow.index_add(np.zeros(3), 0, np.array([1]), np.ones(1)))"
    folder = tmp_path / "sow"
    folder.mkdir()
    level = "portable"
    file = folder / f"tuning-{level}.txt"
    file.write_text(f"sow tuning 1 {level}\ndirect 1\nspeed 7\n")

    def ask(**environment):
        own = {name: value for name, value in os.environ.items() if name != "SOW_TUNING"}
        return subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, timeout=120,
                              env={**own, "SOW_ISA": level, **environment})

    named = ask(SOW_TUNING=str(file))
    assert named.returncode == 1 and "line 3: there is no cost 'speed'" in named.stderr
    missing = ask(SOW_TUNING=str(tmp_path / "nothing.txt"))
    assert missing.returncode == 1 and "cannot be read" in missing.stderr
    found = ask(XDG_CONFIG_HOME=str(tmp_path))
    assert found.returncode == 0 and found.stdout == "[0. 1. 0.]\n" and "no cost 'speed'" in found.stderr
    assert ask(SOW_TUNING="").stderr == ""


def test_demo():
    done = run("demo")
    assert done.returncode == 0 and "masked_scatter" in done.stdout and "[ 1]" in done.stdout
    assert "= 2," in done.stdout and "strategy" in done.stdout and "\033" not in done.stdout
    one = run("demo", "scatter")
    assert one.stdout.split(":")[0].strip() == "scatter" and "[ 2][ 2]" in one.stdout
    assert run("demo", "nothing").returncode == 1


@pytest.mark.parametrize("arguments", [
    ["scatter_add", "1000", "5000"], ["index_add", "100x8", "700", "--dtype", "bfloat16"], ["gather", "10x10"],
    ["put_along_axis", "10x100", "10x10", "--axis", "1", "--reduce", "amax"], ["masked_scatter", "10x10"],
    ["diagonal_scatter", "5x5"], ["index_fill", "5x5"], ["index_select", "5x5", "9"], ["take_along_axis", "5x5"],
    ["index_reduce", "5x5", "--reduce", "mean"], ["masked_select", "9"], ["masked_fill", "9"], ["scatter", "9"],
    ["scatter_reduce", "9", "--reduce", "amin"], ["index_copy", "5x5", "2", "--axis", "1"]])
def test_explain(arguments):
    done = run("explain", *arguments)
    assert done.returncode == 0, done.stderr
    assert arguments[0] in done.stdout and "strategy" in done.stdout


def test_bench(tmp_path):
    listed = run("bench", "--quick", "--list")
    assert listed.returncode == 0 and "100 elements masked_scatter_" in listed.stdout
    done = run("bench", "--quick", "--only", "100 elements masked_scatter_", "--peers", "sow,numpy", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "race.json").read_text())["results"]
    assert results and all(result["seconds"]["sow"] > 0 for result in results)
    assert "100 elements" in (tmp_path / "race.html").read_text()


def test_bench_writes_what_is_behind(tmp_path):
    listed = run("bench", "--quick", "--only", "grid*", "--list")
    assert listed.returncode == 0 and listed.stdout == run("bench", "--quick", "--only", "grid*", "--list").stdout
    done = run("bench", "--only", "elements to half as many, 10^3: add *", "--only", "gathered elements, 10^2: * complex64",
               "--peers", "sow,numpy", "--seconds", "0.01", "--isa", "portable", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    run_of = json.loads((tmp_path / "race.json").read_text())
    raced = [result for result in run_of["results"] if result["ratio"]]
    assert len(raced) >= 6 and not any(entry.get("error") for result in raced for entry in result["entries"])
    assert f"| all |  | {len(raced)} |" in (tmp_path / "grid.md").read_text()
    behind = [result["case"]["name"] for result in raced if result["ratio"] < 1]
    assert all(name in (tmp_path / "behind.md").read_text() for name in behind) and "The grid on portable" in done.stdout


def test_bench_complains_of_unknown_names():
    done = run("bench", "--quick", "--peers", "sow,nunpy")
    assert done.returncode == 1 and "no library 'nunpy'; is it 'numpy'?" in done.stderr and "torch" in done.stderr
    done = run("bench", "--quick", "--only", "rows ad", "--only", "mascked_scatter_ 2^24")
    assert done.returncode == 1 and "'mascked_scatter_ 2^24'; is it 'masked_scatter_ 2^24, half true'?" in done.stderr
    assert "--list" in done.stderr and "Traceback" not in done.stderr


def test_bench_explains_only():
    words = " ".join(run("bench", "--help").stdout.split())
    assert "only cases whose name or group contains this; * and ? stand for anything; several are united" in words
    everything, some = run("bench", "--quick", "--list").stdout.splitlines(), run("bench", "--quick", "--list", "--only", "mask").stdout.splitlines()
    assert 0 < len(some) < len(everything) and all("mask" in line for line in some)


def test_bench_never_leaves_sow_out(tmp_path):
    done = run("bench", "--quick", "--only", "100 elements add in place", "--peers", "numpy", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "race.json").read_text())["results"][0]
    assert set(result["seconds"]) == {"sow", "numpy"}
    assert "importing sow, numpy" in done.stderr and "1 cases match --only" in done.stderr and "[1/1, " in done.stderr
    assert "times faster than NumPy" in done.stderr or "times slower than NumPy" in done.stderr or "as fast as" in done.stderr
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines() if line and not line.startswith(("case", "100")))
    assert {"machine", "copies", "ahead", "page"} <= set(lines)


def test_slower_is_called_slower():
    from sow._race import look

    assert look.ratio(1 / 7) == "7 times slower than" and look.ratio(2.5) == "2.5 times faster than" and look.ratio(1.0) == "as fast as"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_bench_stops_politely(tmp_path, number):
    """What was measured is kept; no shared memory and no process stays behind."""
    process = subprocess.Popen([sys.executable, "-m", "sow", "bench", "--quick", "--only", "100 elements", "--only", "2^23 to", "--peers", "numpy",
                                "--out", str(tmp_path)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("[1/"):
            break
    assert list(pathlib.Path("/dev/shm").glob(f"sow-race-{process.pid}-*"))
    process.send_signal(number)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said + rest
    assert "what was measured is kept" in rest and "page" in out
    results = json.loads((tmp_path / "race.json").read_text())["results"]
    assert 1 <= len(results) < 10 and (tmp_path / "race.html").exists()
    assert not list(pathlib.Path("/dev/shm").glob(f"sow-race-{process.pid}-*"))
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_commands_share_one_look():
    """Rows of a name in 14 columns and a value; colours only where a person reads."""
    info, plan = run("info").stdout, run("explain", "scatter_add", "1000", "5000").stdout
    for line in [*info.splitlines(), *[line for line in plan.splitlines() if not line.startswith("scatter_add:")]]:
        assert line[:14].strip() and line[13] == " " and line[14] != " ", line
    assert "\033" not in info + plan


def test_race_page_and_pictures(tmp_path):
    """Under 1 is never green, ticks have units, the page sorts and folds plans."""
    from sow._race import page, pictures

    assert pictures.colour(0.5) == pictures.BEHIND and pictures.colour(0.99) == pictures.EVEN and pictures.colour(1.2) == pictures.AHEAD
    assert page.style_of(0.14) == "behind"
    assert pictures.timed(2e-9) == "2 ns" and pictures.timed(1e-3) == "1 ms" and pictures.counted(1e5) == "100k"
    assert pictures.ticks_between(1e-9, 1e-6)[1] == 1e-8 and len(pictures.ticks_between(4e-10, 3e-9)) == 3  # 0.5, 1 and 2 ns
    case = {"name": "a <case>", "group": "table", "kind": "rows", "items": [5000], "shape": [9], "backward": False, "floor_bytes": 1 << 21}
    results = [{"case": case, "seconds": {"sow": 2e-3, "numpy": 1e-3}, "floor": 5e-4, "best_peer": "numpy", "ratio": 0.5, "goals": [],
                "explain": "a plan", "entries": []}]
    text = page.page("here", results, {})
    assert "<details><summary>a &lt;case&gt;</summary><pre>a plan</pre></details>" in text and 'class="behind"' in text
    assert 'name="viewport"' in text and "2 times slower than NumPy" in text and 'class="ahead"' not in text
    picture = pictures.ratio_picture(results)
    assert "var(--behind)" in picture and "<title>a &lt;case>: sow 2 ms, NumPy 1 ms, 0.50×" in picture and "prefers-color-scheme: dark" in picture
    grid = {**case, "name": "a cell", "group": "grid, rows of 7", "x": 1000, "reduce": "add", "dtype": "float32", "index": "uniform"}
    cells = [{**results[0], "case": grid}, {**results[0], "case": {**grid, "x": 10_000}, "ratio": 3.0}]
    heat = pictures.heat_picture(cells, lambda result: result["ratio"], "the others")
    assert heat.count("<title>a cell") == 2 and ">rows of 7<" in heat and ">10^3<" in heat
    behind = pictures.heat_picture(cells[:1], lambda result: result["ratio"], "the others")
    assert "var(--ahead)" in heat and "fill: var(--ahead)" not in behind and "var(--behind)" in behind
    series = {"sow": [(1.0, 2e-9), (2.0, 1e-9)], "floor": [(1.0, 1e-9), (2.0, 1e-9)]}
    grown = pictures.lines("rows", "threads", series)
    assert ">threads<" in grown and ">1 ns<" in grown and "1.41" not in grown


def test_wrong_commands():
    assert run().returncode == 2 and run("explain", "scatter_add", "many").returncode == 2
    done = run("explain", "scatter_reduce", "9", "--reduce", "average")
    assert done.returncode == 1 and "average" in done.stderr and "Traceback" not in done.stderr
    assert run("--version").stdout.strip() == f"sow {sow.__version__}"

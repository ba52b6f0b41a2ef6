"""The command `sow`: info, explain, demo, bench."""

import json
import os
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


def test_wrong_commands():
    assert run().returncode == 2 and run("explain", "scatter_add", "many").returncode == 2
    done = run("explain", "scatter_reduce", "9", "--reduce", "average")
    assert done.returncode == 1 and "average" in done.stderr and "Traceback" not in done.stderr
    assert run("--version").stdout.strip() == f"sow {sow.__version__}"

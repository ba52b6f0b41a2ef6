# SPDX-License-Identifier: Apache-2.0
"""Destinations cut over several processes have the bits of one: over gloo, MPI and JAX's devices."""

import ast
import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest
from conftest import LONG

import peers

FOLDER = pathlib.Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
PROBLEMS = 3 if LONG else 1
MPI = shutil.which("mpirun") is not None and not peers.left_out and importlib.util.find_spec("mpi4py") is not None


def run(*command, **environment):
    done = subprocess.run(command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.skipif(peers.torch is None, reason="no torch")
def test_gloo():
    """A third of the types and reductions for each number of processes; `make test-long` takes all, on up to 8."""
    sizes = (1, 2, 3, 4, 8) if LONG else (1, 2, 4)
    out = run(sys.executable, str(FOLDER / "ranks.py"), "--engine", "gloo", "--size", str(sizes[-1]),
              *(f"--of={size}" for size in sizes), "--port", str(free_port()), "--problems", str(PROBLEMS))
    for size in sizes:
        assert f"gloo, {size} ranks: equal bits" in out, out


@pytest.mark.skipif(not MPI, reason="no mpirun with mpi4py")
@pytest.mark.parametrize("size", (1, 2, 3, 4, 8) if LONG else (3,))
def test_mpi(size):
    out = run("mpirun", "-np", str(size), sys.executable, str(FOLDER / "ranks.py"), "--engine", "mpi", "--problems", str(PROBLEMS))
    assert f"mpi, {size} ranks: equal bits" in out, out


@pytest.mark.skipif(peers.torch is None, reason="no torch")
def test_a_rank_that_dies_is_the_engines_error():
    program = ("import os, sys, datetime, numpy as np, torch.distributed as dist, sow\n"
               "rank = int(sys.argv[1])\n"
               "dist.init_process_group('gloo', rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20))\n"
               "dist.barrier()\n"
               "if rank == 1: os._exit(0)\n"
               "x = np.zeros(2, 'f4')\n"
               "try: sow.distributed.index_add_(x, 0, np.array([0]), np.ones(1, 'f4'))\n"
               "except RuntimeError: assert not x.any(); print('the engine said so'); os._exit(0)\n"
               "os._exit(1)\n")
    environment = {**ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [subprocess.Popen([sys.executable, "-c", program, str(rank)], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for rank in range(2)]
    out, err = ranks[0].communicate(timeout=120)
    ranks[1].communicate(timeout=120)
    assert "the engine said so" in out, out + err


@pytest.mark.skipif(peers.jax is None, reason="no JAX")
def test_jax_devices():
    out = run(sys.executable, str(FOLDER / "jax_ranks.py"), *(["--all"] if LONG else []), JAX_PLATFORMS="cpu", JAX_ENABLE_X64="1",
              XLA_FLAGS=f"--xla_force_host_platform_device_count={8 if LONG else 4}")
    assert out.count("devices: equal bits") == (5 if LONG else 1), out


def test_merging_sends_less():
    """Bytes counted: many updates of few places travel as few, whatever their exponents."""
    if not MPI:
        pytest.skip("no mpirun with mpi4py")
    out = run("mpirun", "-np", "2", sys.executable, str(FOLDER / "ranks.py"), "--engine", "mpi", "--traffic")
    bytes_of = ast.literal_eval(out[out.index("{"):])
    for name, (merged, raw, reduced) in bytes_of.items():
        assert merged < raw / 2, (name, merged, raw)
        assert merged < reduced or not name.startswith("zipf"), (name, merged, reduced)

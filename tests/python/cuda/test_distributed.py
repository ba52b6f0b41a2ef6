# SPDX-License-Identifier: Apache-2.0
"""Destinations on GPUs that are cut over processes: nccl with a GPU for each rank, gloo with ranks that share one."""

import pathlib
import socket
import subprocess
import sys

import pytest

from gpu_device import needs_device, torch

RANKS = pathlib.Path(__file__).parent.parent / "distributed" / "ranks.py"


@needs_device
@pytest.mark.parametrize("engine", ["nccl", "gloo", "cpu:gloo,cuda:nccl"])
def test_equal_bits(engine):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    size = 2 if engine == "gloo" else torch.cuda.device_count()
    done = subprocess.run([sys.executable, str(RANKS), "--engine", engine, "--size", str(size), "--device", "cuda", "--port",
                           str(port)], capture_output=True, text=True, timeout=600)
    assert f"{engine}, {size} ranks on cuda: equal bits" in done.stdout, done.stdout + done.stderr

# SPDX-License-Identifier: Apache-2.0
"""The parent's end of a contender: starts its process, hands it turns, and starts it again if it dies."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
from typing import Any

# Waiting threads sleep: a spinning pool of one contender would take the cores of the next.
# What holds each library to an instruction set; the newest needs nothing.
ISAS: dict[str, dict[str, str]] = {
    "": {},
    "avx2": {"SOW_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
             "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    "portable": {"SOW_ISA": "portable", "ATEN_CPU_CAPABILITY": "default", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
                 "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
}

QUIET = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


class Contender:
    def __init__(self, name: str, threads: int, logs: pathlib.Path, device: str = "cpu", isa: str = "") -> None:
        self.name, self.threads, self.device, self.isa = name, threads, device, isa
        self.device_name = ""
        self.log = logs / f"{name}.log"
        self.version = ""
        self.missing = ""
        self.start()

    def start(self) -> None:
        root = pathlib.Path(__file__).parent
        package = __package__ or "race"
        environment = {**os.environ, **QUIET, **ISAS[self.isa]}
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = str(self.threads)
        if self.device == "cuda":
            environment.update({"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
        top = root.parents[package.count(".")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(top), environment.get("PYTHONPATH")]))
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{package}.worker", self.name, str(self.threads), self.device],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment)

    def greet(self) -> bool:
        """Waits for the library to be imported."""
        answer = self.read(180)
        self.version, self.device_name = answer.get("version", ""), answer.get("device", "")
        self.missing = answer.get("missing", answer.get("error", ""))
        return bool(self.version)

    def ask(self, timeout: float, **order: Any) -> dict[str, Any]:
        return self.read(timeout) if self.send(**order) else {"error": "its process ended"}

    def send(self, **order: Any) -> bool:
        """Hands out an order whose answer is read later; false if nobody took it."""
        if self.process.poll() is not None:
            self.start()
            if not self.greet():
                return False
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def read(self, timeout: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            return {"error": "its process ended" if ready else f"no answer in {timeout:.0f} s"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

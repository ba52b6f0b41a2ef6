# SPDX-License-Identifier: Apache-2.0
"""What a run was measured on."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any


def first_line(path: str, begins: str) -> str:
    try:
        with open(path) as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(begins)), "")
    except OSError:
        return ""


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "processor": first_line("/proc/cpuinfo", "model name") or platform.machine(),
        "processors": processors(),
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }

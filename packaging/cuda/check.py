# SPDX-License-Identifier: Apache-2.0
"""Asks an installed sow for its CUDA backend: it must be found, whether or not there is a device."""

import sow

status = sow.cuda.status()
assert not status.startswith("no CUDA backend"), status
print(f"sow {sow.__version__} finds its CUDA backend: {status}")

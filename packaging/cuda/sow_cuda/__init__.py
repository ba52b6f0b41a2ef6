# SPDX-License-Identifier: Apache-2.0
"""The CUDA backend of sow: a library that sow loads, and nothing to import."""

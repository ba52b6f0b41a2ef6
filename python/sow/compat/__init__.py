# SPDX-License-Identifier: Apache-2.0
"""Modules with the names and signatures of other packages, for programs that change one import."""

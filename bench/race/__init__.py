# SPDX-License-Identifier: Apache-2.0
"""The race: every case through every library that is installed, each in a process of its own."""

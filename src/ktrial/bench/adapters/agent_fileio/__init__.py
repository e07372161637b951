# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `fileio`, which measures reading and writing a file."""

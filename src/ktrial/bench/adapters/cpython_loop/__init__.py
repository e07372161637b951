# SPDX-License-Identifier: Apache-2.0
"""Benchmark `cpython-loop`: `adapter` runs a loop of pure Python, `output` parses what it prints."""

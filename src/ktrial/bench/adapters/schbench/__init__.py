# SPDX-License-Identifier: Apache-2.0
"""Benchmark with schbench: `adapter` runs the tool, `output` parses what it prints."""

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with hackbench: `adapter` runs the tool, `output` parses what it prints."""

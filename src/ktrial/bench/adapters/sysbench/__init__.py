# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with sysbench: `adapter` runs the tool, `output` parses what it prints."""

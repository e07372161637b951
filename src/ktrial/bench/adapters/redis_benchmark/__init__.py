# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of redis with redis-benchmark: `adapter` runs the tool, `output` parses what it prints."""

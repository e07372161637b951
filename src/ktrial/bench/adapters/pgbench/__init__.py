# SPDX-License-Identifier: Apache-2.0
"""Benchmark of PostgreSQL with pgbench: `adapter` runs the tool, `output` parses what it prints."""

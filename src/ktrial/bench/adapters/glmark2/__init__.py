# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with glmark2: `adapter` runs the tool, `output` parses what it prints."""

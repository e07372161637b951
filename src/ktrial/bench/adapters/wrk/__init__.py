# SPDX-License-Identifier: Apache-2.0
"""Benchmark of nginx with wrk: `adapter` runs the tool, `output` parses what it prints."""

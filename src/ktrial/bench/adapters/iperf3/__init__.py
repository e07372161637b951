# SPDX-License-Identifier: Apache-2.0
"""Benchmark with iperf3: `adapter` runs the tool, `output` parses what it prints."""

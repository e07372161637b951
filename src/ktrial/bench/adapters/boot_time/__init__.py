# SPDX-License-Identifier: Apache-2.0
"""Benchmark `boot-time`: `adapter` runs systemd-analyze, `output` parses what it prints."""

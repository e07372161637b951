# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with fio: `adapter` runs the tool, `output` and `terse` parse what it prints."""

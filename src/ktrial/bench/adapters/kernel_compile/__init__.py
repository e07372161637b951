# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that build a kernel."""

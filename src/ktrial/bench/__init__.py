# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: what they declare, how they run and what ktrial records."""

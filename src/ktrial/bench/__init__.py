# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: what they are, how they are run and what is recorded."""

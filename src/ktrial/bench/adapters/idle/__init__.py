# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a machine at rest: power, and how deeply the CPUs sleep."""

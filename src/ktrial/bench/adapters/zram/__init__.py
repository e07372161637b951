# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `zram`, which measures compressing memory."""

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `pressure`, which measures frames under memory pressure."""

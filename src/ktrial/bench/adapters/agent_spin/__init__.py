# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `spin`, which measures computing without pause."""

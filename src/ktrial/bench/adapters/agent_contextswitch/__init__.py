# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `contextswitch`, which measures how fast threads switch."""

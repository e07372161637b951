# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `wakeup`, which measures how late threads wake up."""

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `tcp`, which measures TCP over a simulated link."""

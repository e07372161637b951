# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `lock`, which measures contended locks."""

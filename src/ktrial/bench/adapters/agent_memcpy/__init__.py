# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `memcpy`, which measures copying memory."""

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `pagefault`, which measures how fast the kernel provides fresh memory."""

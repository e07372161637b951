# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `pagefault`, which measures getting fresh memory."""

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `requests`, which measures requests to servers at a fixed rate."""

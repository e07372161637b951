# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with the agent's load `messaging`, which measures passing messages between tasks."""

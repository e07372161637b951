# SPDX-License-Identifier: Apache-2.0
"""Adapter of the agent's load spin."""

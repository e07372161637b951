# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of ktrial itself, each side by side with a named peer in the same run."""

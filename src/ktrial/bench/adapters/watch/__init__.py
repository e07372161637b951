# SPDX-License-Identifier: Apache-2.0
"""Benchmark that records sessions like `ktrial watch`."""

# SPDX-License-Identifier: Apache-2.0
"""A loop of pure Python, and its adapter."""

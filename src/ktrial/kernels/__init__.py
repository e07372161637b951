# SPDX-License-Identifier: Apache-2.0
"""Kernels: where they come from, what they are."""

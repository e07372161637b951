# SPDX-License-Identifier: Apache-2.0
"""Kernels: source trees, compilers, builds and guests."""

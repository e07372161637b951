# SPDX-License-Identifier: Apache-2.0
"""Kernel configurations: fragments, Kconfig files, and the tree's own Kconfig run on them."""

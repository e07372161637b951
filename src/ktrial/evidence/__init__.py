# SPDX-License-Identifier: Apache-2.0
"""Bundles of evidence, and checking them again."""

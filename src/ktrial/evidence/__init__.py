# SPDX-License-Identifier: Apache-2.0
"""Bundles of evidence: pack, unpack and recheck them."""

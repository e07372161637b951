# SPDX-License-Identifier: Apache-2.0
"""Trials whose next blocks the machine carries out by itself."""

# SPDX-License-Identifier: Apache-2.0
"""Adapter that records sessions like `ktrial watch`."""

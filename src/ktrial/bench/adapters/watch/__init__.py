# SPDX-License-Identifier: Apache-2.0
"""Adapter for sessions that are recorded like those of `ktrial watch`."""

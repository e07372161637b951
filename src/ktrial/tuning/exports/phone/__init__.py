# SPDX-License-Identifier: Apache-2.0
"""Modules for rooted phones: their settings, scripts, page and log."""

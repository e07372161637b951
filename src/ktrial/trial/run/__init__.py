# SPDX-License-Identifier: Apache-2.0
"""Carrying a trial out."""

# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of recordings: stutters, their causes, and proposals."""

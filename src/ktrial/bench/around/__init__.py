# SPDX-License-Identifier: Apache-2.0
"""Preparations, checks and readings around a run."""

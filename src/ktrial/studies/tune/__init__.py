# SPDX-License-Identifier: Apache-2.0
"""Tries the candidates of a goal, and keeps those that a trial proves to help."""

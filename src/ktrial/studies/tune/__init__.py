# SPDX-License-Identifier: Apache-2.0
"""Trying the candidates of a goal."""

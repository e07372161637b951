# SPDX-License-Identifier: Apache-2.0
"""Adapter of kernel builds."""

# SPDX-License-Identifier: Apache-2.0
"""Readers of formats that several packages need."""

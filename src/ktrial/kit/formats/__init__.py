# SPDX-License-Identifier: Apache-2.0
"""Readers of file formats that several packages share."""

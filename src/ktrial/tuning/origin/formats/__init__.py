# SPDX-License-Identifier: Apache-2.0
"""Readers for files that set kernel values, one module per format."""

# SPDX-License-Identifier: Apache-2.0
"""The sources of live work's numbers, one module for each kind."""

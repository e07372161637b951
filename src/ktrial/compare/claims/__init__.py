# SPDX-License-Identifier: Apache-2.0
"""Claims of other people, checked against data."""

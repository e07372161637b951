# SPDX-License-Identifier: Apache-2.0
"""Results of trials, and how to show them."""

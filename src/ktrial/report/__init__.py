# SPDX-License-Identifier: Apache-2.0
"""Domain values in, text out; pure."""

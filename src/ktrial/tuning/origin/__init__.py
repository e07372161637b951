# SPDX-License-Identifier: Apache-2.0
"""Where a value comes from, and reading other people's settings."""

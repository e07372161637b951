# SPDX-License-Identifier: Apache-2.0
"""Where values come from, and the import of other people's settings."""

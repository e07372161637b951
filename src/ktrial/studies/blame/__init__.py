# SPDX-License-Identifier: Apache-2.0
"""Finding the setting of many that made a difference."""

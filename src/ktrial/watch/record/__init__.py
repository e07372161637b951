# SPDX-License-Identifier: Apache-2.0
"""Making a recording."""

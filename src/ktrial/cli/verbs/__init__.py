# SPDX-License-Identifier: Apache-2.0
"""The verbs. Each module in this package defines one verb as `command`."""

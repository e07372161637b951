# SPDX-License-Identifier: Apache-2.0
"""The verbs: each module in this package defines one as `command`, so a new verb is one new file."""

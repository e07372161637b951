# SPDX-License-Identifier: Apache-2.0
"""One boot attempt: its entry beside the default one, the obstacles, and how it ended."""

# SPDX-License-Identifier: Apache-2.0
"""Foreign texts in, typed records out; pure."""

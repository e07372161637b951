# SPDX-License-Identifier: Apache-2.0
"""Reading recordings, ours and those of other programs."""

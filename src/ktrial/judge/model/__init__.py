# SPDX-License-Identifier: Apache-2.0
"""What the judge reads and what it answers."""

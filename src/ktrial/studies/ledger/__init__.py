# SPDX-License-Identifier: Apache-2.0
"""What was proven on this machine, and when to prove it again."""

# SPDX-License-Identifier: Apache-2.0
"""Frame logs of games, and their statistics."""

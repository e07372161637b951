# SPDX-License-Identifier: Apache-2.0
"""Trial boots: their entries, the obstacles to them, and how they ended."""

# SPDX-License-Identifier: Apache-2.0
"""One trial over many machines: its order and waves, its stopping rules, and its results."""

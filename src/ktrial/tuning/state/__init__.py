# SPDX-License-Identifier: Apache-2.0
"""The state of a machine: save, compare and lock it."""

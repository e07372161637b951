# SPDX-License-Identifier: Apache-2.0
"""Readers of foreign formats: bytes or text in, typed records out. No reader touches a file, a clock or a process."""

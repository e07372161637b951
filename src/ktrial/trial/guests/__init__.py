# SPDX-License-Identifier: Apache-2.0
"""Trials that run in guests: each visit is the boot of a virtual machine."""

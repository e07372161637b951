# SPDX-License-Identifier: Apache-2.0
"""The agent (the Rust helper) as the Python head sees it: its binary, its sessions, its clock."""

# SPDX-License-Identifier: Apache-2.0
"""The subcommands of `ktrial kernel`, one file each."""

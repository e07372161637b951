# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel`: kernels for this machine, and what they are."""

from __future__ import annotations

import click

from ktrial.cli import kernel
from ktrial.cli.group import FolderGroup


class KernelCommands(FolderGroup):
    """The files of `cli/kernel/`."""

    package = kernel


@click.command(cls=KernelCommands, short_help="Inspect, configure, build, compare and boot kernels.")
def command() -> None:
    """Build kernels for this machine, prove what was built, and compare kernels."""

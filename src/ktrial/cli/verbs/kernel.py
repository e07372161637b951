# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel`: inspect, configure, build, compare and boot kernels."""

from __future__ import annotations

import click

from ktrial.cli import kernel
from ktrial.cli.group import FolderGroup


@click.command(cls=FolderGroup, package=kernel, short_help="Inspect, configure, build, boot and try kernels.")
def command() -> None:
    """Inspect, configure, build, boot and try kernels."""

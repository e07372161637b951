# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch`: compile kernels for a certain CPU. Its subcommands are the files of this folder."""

from __future__ import annotations

import sys

import click

from ktrial.cli.group import FolderGroup


@click.command(
    cls=FolderGroup, package=sys.modules[__name__], short_help="Patch a kernel tree for an x86-64 level or CPU family."
)
def command() -> None:
    """Patch a kernel tree for an x86-64 level or a microarchitecture (CPU family), and check the result."""

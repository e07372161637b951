# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch`: what a kernel is compiled for. Its subcommands are the files of this folder."""

from __future__ import annotations

import sys

import click

from ktrial.cli.group import FolderGroup


class UarchCommands(FolderGroup):
    """The files of this folder."""

    package = sys.modules[__name__]


@click.command(cls=UarchCommands, short_help="Compile kernels for an x86-64 level or a microarchitecture.")
def command() -> None:
    """Compile kernels for a level of x86-64 or for a microarchitecture, and prove it."""

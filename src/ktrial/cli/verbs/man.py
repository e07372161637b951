# SPDX-License-Identifier: Apache-2.0
"""`ktrial man`: print the manual page."""

from __future__ import annotations

import click


@click.command(short_help="Print the manual page.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print the manual page as roff.

    \b
    ktrial man | man -l -
    ktrial man | install -Dm644 /dev/stdin ~/.local/share/man/man1/ktrial.1
    """
    from ktrial import __version__
    from ktrial.cli.manpage import manual_page

    click.echo(manual_page(ctx.find_root().command, "ktrial", __version__), nl=False)

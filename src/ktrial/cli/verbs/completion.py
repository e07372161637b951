# SPDX-License-Identifier: Apache-2.0
"""`ktrial completion`: print a shell completion script."""

from __future__ import annotations

import sys

import click


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    mkdir -p ~/.local/share/bash-completion/completions
    ktrial completion bash > ~/.local/share/bash-completion/completions/ktrial
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(ctx.find_root().command, {}, "ktrial", "_KTRIAL_COMPLETE").source() + "\n")

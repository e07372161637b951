# SPDX-License-Identifier: Apache-2.0
"""Options and questions that verbs about kernels share."""

from __future__ import annotations

import click

from ktrial.cli.app import App

ARCHITECTURES = ("x86_64", "arm64")

arch_option = click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    default=ARCHITECTURES[0],
    show_default=True,
    help="The architecture of the kernel, as its build calls it.",
)


def cpu_level(app: App) -> int | None:
    """The x86-64 level of the CPU; None where it could not be told."""
    level = app.user_session.facts(("cpu.level",)).value("cpu.level")
    return level if isinstance(level, int) else None

# SPDX-License-Identifier: Apache-2.0
"""Options that verbs about kernels share."""

from __future__ import annotations

import click

ARCHITECTURES = ("x86_64", "arm64")

arch_option = click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    default=ARCHITECTURES[0],
    show_default=True,
    help="The architecture of the kernel, as its build calls it.",
)

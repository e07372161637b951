# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch list`: what a kernel can be compiled for."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import arch_option, json_option, write_json


@click.command(short_help="What a kernel can be compiled for, and what is accepted here.")
@click.option("--cc", "names", multiple=True, metavar="PROGRAM", help="Compiler to query. Repeatable.")
@arch_option
@json_option
@click.pass_obj
def command(app: App, names: tuple[str, ...], arch: str, as_json: bool) -> None:
    """List the targets: -march, Kconfig symbol, the first compilers with it, and which of those here accept it.

    With --arch arm64: the -mcpu values, and which compilers here accept them.
    """
    from ktrial.kit.tables import columns

    asked = app.kernels.compilers_for(arch)
    compilers, rustc = asked.find(names), asked.rustc()
    if arch == "arm64":
        from ktrial.kernels.uarch.kernel_cpu_targets import cpu_targets_json, cpu_targets_text
        from ktrial.kernels.uarch.target_files import load_cpu_targets

        if as_json:
            write_json(cpu_targets_json(load_cpu_targets(), compilers, rustc))
        else:
            sys.stdout.write(cpu_targets_text(load_cpu_targets(), compilers, rustc, width=columns()))
        return
    from ktrial.kernels.uarch.target_files import load_targets
    from ktrial.kernels.uarch.targets_text import targets_json, targets_text

    if as_json:
        write_json(targets_json(load_targets(), compilers, rustc))
    else:
        sys.stdout.write(targets_text(load_targets(), compilers, rustc, width=columns()))

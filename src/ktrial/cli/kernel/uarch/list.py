# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch list`: list the targets that a kernel can be compiled for."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import arch_option, json_option, write_answer


@click.command(short_help="List compile targets, and which compilers here accept them.")
@click.option(
    "--cc",
    "names",
    multiple=True,
    metavar="PROGRAM",
    help="Compiler to query. Repeatable.  [each gcc and clang in PATH]",
)
@arch_option
@json_option
@click.pass_obj
def command(app: App, names: tuple[str, ...], arch: str, as_json: bool) -> None:
    """List each target with its -march, its Kconfig symbol, and the compilers that know and accept the target.

    With --arch arm64 ktrial lists the -mcpu values, and which compilers here accept them.
    """
    toolbox = app.kernels.compilers_for(arch)
    compilers, rustc = toolbox.find(names), toolbox.rustc()
    if arch == "arm64":
        from ktrial.kernels.uarch.target_files import load_cpu_targets
        from ktrial.kernels.uarch.targets_text import cpu_targets_json, cpu_targets_text

        write_answer(
            as_json,
            lambda: cpu_targets_json(load_cpu_targets(), compilers, rustc),
            lambda width: cpu_targets_text(load_cpu_targets(), compilers, rustc, width=width),
        )
        return
    from ktrial.kernels.uarch.target_files import load_targets
    from ktrial.kernels.uarch.targets_text import targets_json, targets_text

    write_answer(
        as_json,
        lambda: targets_json(load_targets(), compilers, rustc),
        lambda width: targets_text(load_targets(), compilers, rustc, width=width),
    )

# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel cpu`: what this CPU is to the compilers of this machine."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import arch_option, json_option, write_json


@click.command(short_help="Show what this CPU is to compilers, and what they accept.")
@click.option("--cc", "names", multiple=True, metavar="PROGRAM", help="Compiler to query. Repeatable.")
@arch_option
@json_option
@click.pass_obj
def command(app: App, names: tuple[str, ...], arch: str, as_json: bool) -> None:
    """Show the x86-64 level of this CPU, what gcc, clang and rustc call it, and which targets they accept.

    ktrial tries each target by compiling an empty unit, once per compiler binary. It also shows what remains of a
    target in kernel code, which may not use vector registers, from the compiler's own macros.

    With --arch arm64: the compilers that build for arm64, and the -mcpu values that they accept.
    """
    from ktrial.kit.tables import columns

    asked = app.kernels.compilers_for(arch)
    compilers, rustc = asked.find(names), asked.rustc()
    if arch == "arm64":
        from ktrial.kernels.uarch.kernel_cpu_targets import arm_cpu_json, arm_cpu_text
        from ktrial.kernels.uarch.target_files import load_cpu_targets

        if as_json:
            write_json(arm_cpu_json(compilers, rustc))
        else:
            sys.stdout.write(arm_cpu_text(load_cpu_targets(), compilers, rustc, width=columns()))
        return
    from ktrial.kernels.uarch.cpu_text import cpu_json, cpu_text
    from ktrial.kernels.uarch.target_files import load_targets

    facts = app.user_session.facts(("cpu.model", "cpu.level"))
    if as_json:
        write_json(cpu_json(facts, compilers, rustc))
    else:
        sys.stdout.write(cpu_text(facts, load_targets(), compilers, rustc, width=columns()))

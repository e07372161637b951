# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel cpu`: show what compilers call this CPU, and which targets they accept."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import arch_option, json_option, write_answer


@click.command(short_help="Show what compilers call this CPU, and what they accept.")
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
    """Show the x86-64 level of this CPU, its name in gcc, clang and rustc, and the targets that these compilers accept.

    To find the targets that gcc and clang accept, ktrial compiles an empty file for each target; rustc lists its own.
    Kernel code may not use vector registers. ktrial therefore also shows which of a target's features kernel code can
    use, according to the compiler's macros.

    With --arch arm64, ktrial shows the compilers that build for arm64, and the -mcpu values that they accept.
    """
    toolbox = app.kernels.compilers_for(arch)
    compilers, rustc = toolbox.find(names), toolbox.rustc()
    if arch == "arm64":
        from ktrial.kernels.uarch.cpu_text import arm_cpu_json, arm_cpu_text
        from ktrial.kernels.uarch.target_files import load_cpu_targets

        write_answer(
            as_json,
            lambda: arm_cpu_json(compilers, rustc),
            lambda width: arm_cpu_text(load_cpu_targets(), compilers, rustc, width=width),
        )
        return
    from ktrial.kernels.uarch.cpu_text import cpu_json, cpu_text
    from ktrial.kernels.uarch.target_files import load_targets

    facts = app.user_session.facts(("cpu.model", "cpu.level"))
    write_answer(
        as_json,
        lambda: cpu_json(facts, compilers, rustc),
        lambda width: cpu_text(facts, load_targets(), compilers, rustc, width=width),
    )

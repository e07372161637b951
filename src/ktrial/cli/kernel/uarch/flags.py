# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch flags`: print the compiler flags of a target, for a tree without the patch."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import arch_option, cpu_level, json_option, write_json
from ktrial.kit.errors import BadInput

_ARM_COMPILER = "aarch64-linux-gnu-gcc"


@click.command(short_help="Print the compiler flags of a target.")
@click.argument("target", metavar="TARGET")
@click.option(
    "--tune", metavar="CPU", help="CPU to optimise for (x86_64 only); the kernel still runs on each CPU of TARGET."
)
@click.option("--cc", metavar="PROGRAM", help=f"Compiler that must accept the flags.  [gcc; {_ARM_COMPILER} for arm64]")
@arch_option
@json_option
@click.pass_obj
def command(app: App, target: str, tune: str | None, cc: str | None, arch: str, as_json: bool) -> int:
    """Print the compiler flags of a target as shell commands, for use with an unchanged kernel tree.

    \b
    eval "$(ktrial kernel uarch flags x86-64-v3 --tune znver3)"
    make bzImage
    eval "$(ktrial kernel uarch flags native)"
    eval "$(ktrial kernel uarch flags --arch arm64 --cc clang neoverse-n1)"

    ktrial replaces `native` with the compiler's name for this CPU.

    The kernel's build appends these flags to its own, and later flags take precedence. The .config does not show them.
    """
    fields, flags = _of_cpu(app, target, tune, cc) if arch == "arm64" else _of_march(app, target, tune, cc)
    if as_json:
        write_json({"schema": "ktrial.kernel-flags/1", "architecture": arch, **fields, "make": flags})
    else:
        sys.stdout.write("".join(f"export {name}='{' '.join(words)}'\n" for name, words in flags.items()))
    return 0


TargetFlags = tuple[dict[str, str | None], dict[str, tuple[str, ...]]]


def _of_march(app: App, word: str, tune: str | None, cc: str | None) -> TargetFlags:
    from ktrial.kernels.uarch.target_files import load_targets
    from ktrial.kernels.uarch.targets import build_flags, find_target, native_target, native_words
    from ktrial.kernels.uarch.verify import check_accepted

    targets = load_targets()
    native = word == "native"
    found = None if native else find_target(word, targets)
    tuned = None if tune is None else find_target(tune, targets)
    (compiler,) = app.kernels.compilers.find([cc or "gcc"])
    chosen = found or native_target(compiler, cpu_level(app), targets)
    if native:
        app.say(native_words(compiler, chosen))
    for one in filter(None, (chosen, tuned)):
        check_accepted(one, compiler)
    names = {"target": chosen.name, "tune": None if tuned is None else tuned.name}
    return {**names, "compiler": f"{compiler.kind} {compiler.version}"}, build_flags(chosen, tuned)


def _of_cpu(app: App, word: str, tune: str | None, cc: str | None) -> TargetFlags:
    from ktrial.kernels.uarch.arm_targets import cpu_flags, find_cpu_target
    from ktrial.kernels.uarch.target_files import load_cpu_targets
    from ktrial.kernels.uarch.verify import check_cpu_accepted

    if tune is not None:
        raise BadInput(
            "--tune requires --arch x86_64", hint="leave out --tune, because -mcpu already includes the tuning"
        )
    chosen = find_cpu_target(word, load_cpu_targets())
    (compiler,) = app.kernels.compilers_for("arm64").find([cc or _ARM_COMPILER])
    check_cpu_accepted(chosen, compiler)
    return {"target": chosen.name, "tune": None, "compiler": f"{compiler.kind} {compiler.version}"}, cpu_flags(chosen)

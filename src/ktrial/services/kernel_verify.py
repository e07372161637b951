# SPDX-License-Identifier: Apache-2.0
"""Prove that a kernel tree builds for a target: asked of Kconfig, read back, compiled, and the command read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.domain.errors import KtrialError, Refused
from ktrial.domain.uarch import Compiler, KernelTree, Target, Verified, version_text
from ktrial.formats.kbuild_log import marches, read_compile

#: A short file that every kernel compiles and that few things have to be made for.
OBJECT = "lib/ctype.o"
_NATIVE = "X86_NATIVE_CPU"


class Build(Protocol):
    """Configures and compiles a tree."""

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        """The configuration that comes of the base, without the symbols of `drop`, and the fragment."""

    def compile(self, target: str) -> bytes:
        """What a verbose build of one object prints."""


def verify_target(
    target: Target, targets: Sequence[Target], tree: KernelTree, compiler: Compiler, build: Build, level: int | None
) -> Verified:
    """Raises Refused where the tree or the compiler cannot, and KtrialError where the tree does something else."""
    check_accepted(target, compiler)
    missing = [symbol for symbol in target.wanted if symbol not in tree.symbols]
    if missing:
        raise Refused(
            f"Linux {tree.version} in this tree has no {missing[0]}",
            hint="`ktrial kernel uarch patch TREE --apply` brings it; `ktrial kernel uarch flags` needs no patch",
        )
    drop = frozenset({_NATIVE, "X86_64_VERSION", *(one.symbol for one in targets)})
    fragment = "".join(f"CONFIG_{name}={value}\n" for name, value in target.wanted.items())
    config = build.configure(f"CONFIG_64BIT=y\n# CONFIG_{_NATIVE} is not set\n{fragment}", drop)
    held = {name: config.get(name, "n") for name in target.wanted}
    if held != target.wanted:
        raise Refused(_why_not(target, compiler, config, held, targets), hint=_hint(target))
    command = read_compile(build.compile(OBJECT), OBJECT)
    found = marches(command)
    if found != (target.c_flags[0],):
        shown = " ".join(found) or "no -march at all"
        raise KtrialError(f"{OBJECT} was compiled with {shown}, not with {target.c_flags[0]} alone")
    return Verified(
        target=target.name,
        kernel=tree.version,
        compiler=f"{compiler.kind} {compiler.version}",
        symbols=held,
        object=OBJECT,
        march=found[0],
        command=command,
        rust=config.get("RUST") == "y",
        runs_here=None if level is None else level >= target.level,
    )


def check_accepted(target: Target, compiler: Compiler) -> None:
    """Raise Refused where the compiler does not know the target."""
    if target.name not in compiler.accepted:
        said = compiler.refused.get(target.name, "")
        raise Refused(
            f"{compiler.path} ({compiler.kind} {compiler.version}) does not take -march={target.name}"
            + (f": it says {said!r}" if said else ""),
            hint=_hint(target),
        )


def _hint(target: Target) -> str:
    until = f" before {target.gcc_until}" if target.gcc_until is not None else ""
    return f"{target.name} needs gcc {target.gcc} or newer{until}, or clang {target.clang} or newer"


def _why_not(
    target: Target, compiler: Compiler, config: Mapping[str, str], held: Mapping[str, str], targets: Sequence[Target]
) -> str:
    """What the configuration became, and the gate that stood in the way."""
    wanted = " ".join(f"{name}={value}" for name, value in target.wanted.items())
    chosen = [one.symbol for one in targets if config.get(one.symbol) == "y"]
    became = f"; the kernel would have been one for {chosen[0]}" if chosen and held[target.symbol] != "y" else ""
    head = f"{wanted} does not hold in this tree{became}"
    if not target.accepted_by_version(compiler.kind, compiler.number):
        return f"{head}: {compiler.kind} {version_text(compiler.number)} is not let pass by the gate of {target.symbol}"
    return f"{head}: the dependencies of {target.symbol} in arch/x86/Kconfig.cpu are not met"

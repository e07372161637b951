# SPDX-License-Identifier: Apache-2.0
"""Proves that a tree builds for a target: sets the symbol, reads it back, compiles an object and reads the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.kernels.build.kbuild_log import marches, read_compile, read_rust_compile, rust_cpus
from ktrial.kernels.uarch.arm_targets import CpuTarget
from ktrial.kernels.uarch.targets import NATIVE, Compiler, KernelTree, Target, VerifiedTarget, version_text
from ktrial.kit.errors import KtrialError, Refused
from ktrial.kit.formats.tool_output import with_hint

#: A short file that every kernel compiles and that depends on few others.
OBJECT = "lib/ctype.o"
#: Rust's core library, which a kernel with Rust compiles first.
RUST_OBJECT = "rust/core.o"
_NATIVE = "X86_NATIVE_CPU"
_RUST = "RUST"
_BEHIND = "X86_64_TARGET_NOT_IN_RUSTC"


class VerifyBuild(Protocol):
    """Configures and compiles a tree."""

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        """Remove the symbols in `drop` from the base, add `fragment`, and return the resulting configuration."""

    def compile(self, target: str) -> bytes:
        """Build one object, after Rust's libraries if Rust is on, and return the verbose output."""

    def why_no_rust(self) -> str | None:
        """Return why the tree rejects Rust with the installed tools; None if it accepts them."""


def verify_target(
    target: Target,
    targets: Sequence[Target],
    tree: KernelTree,
    compiler: Compiler,
    build: VerifyBuild,
    level: int | None,
    *,
    rust: bool = False,
) -> VerifiedTarget:
    """Configure the tree for a target and compile one object; with `rust` also one Rust object.

    Raise Refused if the tree or the compiler does not support the target, and KtrialError if the result differs.
    """
    check_accepted(target, compiler)
    if rust and target.c_only:
        raise Refused(
            f"rustc does not support everything that a kernel for {target.name} needs", hint="leave out --rust"
        )
    missing = [symbol for symbol in target.wanted if symbol not in tree.symbols]
    if missing:
        raise Refused(
            f"this tree (Linux {tree.version}) has no symbol {missing[0]}",
            hint="add the symbol with `ktrial kernel uarch patch TREE --apply`, or use `ktrial kernel uarch flags`",
        )
    drop = frozenset({_NATIVE, "X86_64_VERSION", *(one.symbol for one in (*targets, *NATIVE))})
    fragment = "" if _NATIVE in target.wanted else f"# CONFIG_{_NATIVE} is not set\n"
    fragment += "".join(f"CONFIG_{name}={value}\n" for name, value in target.wanted.items())
    fragment += f"CONFIG_{_RUST}=y\n" if rust else ""
    config = build.configure(f"CONFIG_64BIT=y\n{fragment}", drop)
    held = {name: config.get(name, "n") for name in target.wanted}
    if held != target.wanted:
        raise Refused(_why_not(target, compiler, config, held, targets), hint=_hint_if_unset(target, compiler))
    if rust and config.get(_RUST) != "y":
        raise _no_rust(target, config, build)
    printed = build.compile(OBJECT)
    with with_hint(f"check what `make V=1 {OBJECT}` prints in this tree"):
        command = read_compile(printed, OBJECT)
    found = marches(command)
    if found != (target.c_flags[0],):
        shown = " ".join(found) or "no -march"
        raise KtrialError(
            f"expected only {target.c_flags[0]} in the command for {OBJECT}, got {shown}",
            hint="check where the tree's Makefiles set -march",
        )
    return VerifiedTarget(
        target=target.name,
        kernel=tree.version,
        compiler=f"{compiler.kind} {compiler.version}",
        symbols=held,
        object=OBJECT,
        march=found[0],
        command=command,
        rust=config.get("RUST") == "y",
        runs_here=None if level is None else level >= target.level,
        rust_object=RUST_OBJECT if config.get(_RUST) == "y" else None,
        rust_cpu=_proven_in_rust(target, printed) if config.get(_RUST) == "y" else None,
    )


def _proven_in_rust(target: Target, printed: bytes) -> str:
    with with_hint(f"check what `make V=1 {RUST_OBJECT}` prints in this tree"):
        found = rust_cpus(read_rust_compile(printed, RUST_OBJECT))
    if found != (target.rust_cpu,):
        shown = " ".join(f"-Ctarget-cpu={name}" for name in found) or "no target-cpu"
        raise KtrialError(
            f"expected only -Ctarget-cpu={target.rust_cpu} in the command for {RUST_OBJECT}, got {shown}",
            hint="check where the tree's Makefiles set target-cpu",
        )
    return found[0]


def _no_rust(target: Target, config: Mapping[str, str], build: VerifyBuild) -> Refused:
    if config.get(_BEHIND) == "y":
        why = f"the LLVM in rustc does not know {target.rust_cpu}"
        hint = "install a newer rustc, or leave out --rust"
    elif (lacking := build.why_no_rust()) is not None:
        why = lacking
        hint = "install rustc, bindgen and rust-src, as Documentation/rust/quick-start.rst in the tree says"
    else:
        why = "a dependency of RUST in init/Kconfig is not met (MODVERSIONS and RANDSTRUCT exclude it)"
        hint = "start from another --config, or leave out --rust"
    return Refused(f"cannot enable CONFIG_RUST in this tree: {why}", hint=hint)


def check_accepted(target: Target, compiler: Compiler) -> None:
    if target.name == NATIVE[0].name and compiler.native is not None:
        return
    if target.name not in compiler.accepted:
        said = compiler.refused.get(target.name, "")
        raise Refused(
            f"{compiler.path} ({compiler.kind} {compiler.version}) does not accept -march={target.name}"
            + (f": {said}" if said else ""),
            hint=_hint(target),
        )


def check_cpu_accepted(target: CpuTarget, compiler: Compiler) -> None:
    if target.name not in compiler.accepted:
        raise Refused(
            f"{compiler.path} ({compiler.kind} {compiler.version}) does not accept -mcpu={target.name}: "
            f"{compiler.refused.get(target.name, 'no message')}",
            hint=f"run `ktrial kernel uarch list --arch arm64` to find a compiler that accepts {target.name}",
        )


def _hint_if_unset(target: Target, compiler: Compiler) -> str:
    if not target.accepted_by_version(compiler.kind, compiler.number):
        return _hint(target)
    return f"run `ktrial kernel config TREE --config defconfig --set {target.symbol}=y -o FOLDER` to see the reason"


def _hint(target: Target) -> str:
    until = f" before {target.gcc_until}" if target.gcc_until is not None else ""
    return f"use gcc {target.gcc} or newer{until}, or clang {target.clang} or newer, which {target.name} needs"


def _why_not(
    target: Target, compiler: Compiler, config: Mapping[str, str], held: Mapping[str, str], targets: Sequence[Target]
) -> str:
    """Return why the target cannot be set, and which target the kernel would be built for instead."""
    wanted = " ".join(f"{name}={value}" for name, value in target.wanted.items())
    chosen = [one.symbol for one in targets if config.get(one.symbol) == "y"]
    became = f"; the kernel would be built for {chosen[0]}" if chosen and held[target.symbol] != "y" else ""
    head = f"cannot set {wanted} in this tree"
    if not target.accepted_by_version(compiler.kind, compiler.number):
        version = f"{compiler.kind} {version_text(compiler.number)}"
        return f"{head}: {version} fails the version check of {target.symbol}{became}"
    return f"{head}: the dependencies of {target.symbol} in arch/x86/Kconfig.cpu are not met{became}"

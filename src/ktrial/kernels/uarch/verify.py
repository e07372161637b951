# SPDX-License-Identifier: Apache-2.0
"""Prove that a kernel tree builds for a target: asked of Kconfig, read back, compiled, and the command read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ktrial.kernels.build.kbuild_log import marches, read_compile, read_rust_compile, rust_cpus
from ktrial.kernels.uarch.arm_targets import CpuTarget
from ktrial.kernels.uarch.targets import NATIVE, Compiler, KernelTree, Target, VerifiedTarget, version_text
from ktrial.kit.errors import KtrialError, Refused

#: A short file that every kernel compiles and that few things have to be made for.
OBJECT = "lib/ctype.o"
#: Rust's own library, which a kernel with Rust compiles first.
RUST_OBJECT = "rust/core.o"
_NATIVE = "X86_NATIVE_CPU"
_RUST = "RUST"
_BEHIND = "X86_64_TARGET_NOT_IN_RUSTC"


class VerifyBuild(Protocol):
    """Configures and compiles a tree."""

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        """Return the configuration that comes of the base, without the symbols of `drop`, and the fragment."""

    def compile(self, target: str) -> bytes:
        """Return what a verbose build of one object prints; with Rust on, that of Rust's libraries before it."""

    def why_no_rust(self) -> str | None:
        """Return what the tree itself says against Rust with what is installed here; None if nothing."""


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
    """With `rust` a kernel with Rust, and one object of it too.

    Raises Refused if the tree or the compiler cannot, and KtrialError where the tree does something else.
    """
    check_accepted(target, compiler)
    if rust and target.c_only:
        raise Refused(f"rustc cannot be told all that a kernel for {target.name} needs", hint="verify it without Rust")
    missing = [symbol for symbol in target.wanted if symbol not in tree.symbols]
    if missing:
        raise Refused(
            f"Linux {tree.version} in this tree has no {missing[0]}",
            hint="`ktrial kernel uarch patch TREE --apply` brings it; `ktrial kernel uarch flags` needs no patch",
        )
    drop = frozenset({_NATIVE, "X86_64_VERSION", *(one.symbol for one in (*targets, *NATIVE))})
    fragment = "" if _NATIVE in target.wanted else f"# CONFIG_{_NATIVE} is not set\n"
    fragment += "".join(f"CONFIG_{name}={value}\n" for name, value in target.wanted.items())
    fragment += f"CONFIG_{_RUST}=y\n" if rust else ""
    config = build.configure(f"CONFIG_64BIT=y\n{fragment}", drop)
    held = {name: config.get(name, "n") for name in target.wanted}
    if held != target.wanted:
        raise Refused(_why_not(target, compiler, config, held, targets), hint=_hint(target))
    if rust and config.get(_RUST) != "y":
        raise _no_rust(target, config, build)
    printed = build.compile(OBJECT)
    command = read_compile(printed, OBJECT)
    found = marches(command)
    if found != (target.c_flags[0],):
        shown = " ".join(found) or "no -march at all"
        raise KtrialError(f"{OBJECT} was compiled with {shown}, not with {target.c_flags[0]} alone")
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
    found = rust_cpus(read_rust_compile(printed, RUST_OBJECT))
    if found != (target.rust_cpu,):
        shown = " ".join(f"-Ctarget-cpu={name}" for name in found) or "no target-cpu at all"
        raise KtrialError(f"{RUST_OBJECT} was compiled with {shown}, not with -Ctarget-cpu={target.rust_cpu} alone")
    return found[0]


def _no_rust(target: Target, config: Mapping[str, str], build: VerifyBuild) -> Refused:
    """Return why a kernel that was to have Rust has none."""
    if config.get(_BEHIND) == "y":
        why = f"the LLVM in rustc does not know {target.rust_cpu}"
    else:
        why = (
            build.why_no_rust()
            or "a dependency of RUST in init/Kconfig is not met (MODVERSIONS and RANDSTRUCT exclude it)"
        )
    return Refused(
        f"CONFIG_RUST=y does not hold in this tree: {why}",
        hint="it needs rustc, bindgen and the sources of Rust's core: Documentation/rust/quick-start.rst in the tree",
    )


def check_accepted(target: Target, compiler: Compiler) -> None:
    """Raise Refused if the compiler does not know the target."""
    if target.name == NATIVE[0].name and compiler.native is not None:
        return
    if target.name not in compiler.accepted:
        said = compiler.refused.get(target.name, "")
        raise Refused(
            f"{compiler.path} ({compiler.kind} {compiler.version}) does not take -march={target.name}"
            + (f": it says {said!r}" if said else ""),
            hint=_hint(target),
        )


def check_cpu_accepted(target: CpuTarget, compiler: Compiler) -> None:
    """Raise Refused if the compiler does not know the CPU."""
    if target.name not in compiler.accepted:
        raise Refused(
            f"{compiler.path} ({compiler.kind} {compiler.version}) does not take -mcpu={target.name}: "
            f"it says {compiler.refused.get(target.name, 'nothing')!r}",
            hint="`ktrial kernel uarch list --arch arm64` shows which compilers here do",
        )


def _hint(target: Target) -> str:
    until = f" before {target.gcc_until}" if target.gcc_until is not None else ""
    return f"{target.name} needs gcc {target.gcc} or newer{until}, or clang {target.clang} or newer"


def _why_not(
    target: Target, compiler: Compiler, config: Mapping[str, str], held: Mapping[str, str], targets: Sequence[Target]
) -> str:
    """Return what the configuration became, and the gate that stood in the way."""
    wanted = " ".join(f"{name}={value}" for name, value in target.wanted.items())
    chosen = [one.symbol for one in targets if config.get(one.symbol) == "y"]
    became = f"; the kernel would have been one for {chosen[0]}" if chosen and held[target.symbol] != "y" else ""
    head = f"{wanted} does not hold in this tree{became}"
    if not target.accepted_by_version(compiler.kind, compiler.number):
        return f"{head}: {compiler.kind} {version_text(compiler.number)} is not let pass by the gate of {target.symbol}"
    return f"{head}: the dependencies of {target.symbol} in arch/x86/Kconfig.cpu are not met"

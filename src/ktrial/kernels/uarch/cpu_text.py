# SPDX-License-Identifier: Apache-2.0
"""How compilers see this CPU, and what compilers for arm64 accept, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktrial.kernels.uarch import arm_targets
from ktrial.kernels.uarch.targets import BASE, KERNEL_FLAGS, Compiler, RustCompiler, Target
from ktrial.kit.tables import labelled, paragraph, table
from ktrial.machine.facts import FactBook
from ktrial.machine.facts_text import fact_words

_LABEL_COLUMNS = 16


def cpu_json(facts: FactBook, compilers: Sequence[Compiler], rustc: RustCompiler | None) -> dict[str, Any]:
    return {
        "schema": "ktrial.kernel-cpu/1",
        "architecture": "x86_64",
        "model": facts.value("cpu.model"),
        "level": facts.value("cpu.level"),
        "kernel_flags": KERNEL_FLAGS,
        "compilers": compilers,
        "rustc": rustc,
    }


def cpu_text(
    facts: FactBook, targets: Sequence[Target], compilers: Sequence[Compiler], rustc: RustCompiler | None, *, width: int
) -> str:
    """Return text about the CPU, its name in each compiler, each compiler's targets, and features for kernel code."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    level = facts.value("cpu.level")
    text = line("CPU", fact_words(facts["cpu.model"]))
    text += line("level", f"x86-64-v{level}" if isinstance(level, int) else fact_words(facts["cpu.level"]))
    for compiler in compilers:
        text += "\n" + line(f"{compiler.kind} {compiler.version}", compiler.path)
        text += line("  this CPU", _native(compiler, level))
        text += line("  accepts", accepted_words(compiler.accepted, targets))
        text += line("  rejects", " ".join(compiler.refused) or "nothing")
    if rustc is not None:
        text += "\n" + line(f"rustc {rustc.version}", rustc.path)
        text += line("  this CPU", rustc.native or "unknown to it")
        text += line("  accepts", accepted_words(rustc.accepted, targets))
    if not compilers:
        text += "\n" + paragraph("PATH contains no gcc or clang for x86-64.", width=width) + "\n"
    return text + _kept_text(targets, compilers, width)


def _native(compiler: Compiler, level: object) -> str:
    if compiler.native is None:
        return "unknown to it"
    if compiler.native == BASE and level != 1:
        return f"{BASE}: this compiler does not know the CPU"
    return compiler.native


def accepted_words(names: Sequence[str], targets: Sequence[object]) -> str:
    if len(names) == len(targets):
        return f"all {len(targets)} targets"
    return f"{len(names)} of {len(targets)} targets"


def _kept_text(targets: Sequence[Target], compilers: Sequence[Compiler], width: int) -> str:
    """Return which features of the levels and of this CPU remain under the kernel's flags, from compiler macros."""
    rows = []
    for compiler in compilers:
        levels = [target.name for target in targets if target.generic_level is not None]
        for name in dict.fromkeys((*levels, compiler.native)):
            if name is None or name not in compiler.kept or name == BASE:
                continue
            kept = compiler.kept[name]
            lost = [extension for extension in compiler.extensions[name] if extension not in kept]
            rows.append((f"{compiler.kind} {compiler.version}", name, _words(kept), _words(lost)))
    if not rows:
        return ""
    head = paragraph(f"In kernel code ({' '.join(KERNEL_FLAGS)}), beyond x86-64:", width=width)
    return f"\n{head}\n{table(('compiler', 'target', 'usable', 'disabled'), rows, width=width, whole=2)}\n"


def _words(names: Sequence[str]) -> str:
    return " ".join(name.lower() for name in names) or "nothing"


def arm_cpu_json(compilers: Sequence[Compiler], rustc: RustCompiler | None) -> dict[str, Any]:
    return {
        "schema": "ktrial.kernel-cpu/1",
        "architecture": "arm64",
        "kernel_flags": arm_targets.KERNEL_FLAGS,
        "compilers": compilers,
        "rustc": rustc,
    }


def arm_cpu_text(
    targets: Sequence[arm_targets.CpuTarget], compilers: Sequence[Compiler], rustc: RustCompiler | None, *, width: int
) -> str:
    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    parts = []
    for compiler in compilers:
        text = line(f"{compiler.kind} {compiler.version}", compiler.path)
        text += line("  accepts", accepted_words(compiler.accepted, targets))
        parts.append(text + line("  rejects", " ".join(compiler.refused) or "nothing"))
    if rustc is not None:
        text = line(f"rustc {rustc.version}", rustc.path)
        parts.append(text + line("  accepts", accepted_words(rustc.accepted, targets)))
    return "\n".join(parts) + no_arm_compiler_text(compilers, width)


def no_arm_compiler_text(compilers: Sequence[Compiler], width: int) -> str:
    if compilers:
        return ""
    hint = "PATH contains no gcc or clang for arm64 (Debian: install gcc-aarch64-linux-gnu or clang)."
    return "\n" + paragraph(hint, width=width) + "\n"

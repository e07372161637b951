# SPDX-License-Identifier: Apache-2.0
"""What this CPU is to compilers, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktrial.kernels.uarch.targets import BASE, KERNEL_FLAGS, Compiler, RustCompiler, Target
from ktrial.kit.tables import labelled, paragraph, table
from ktrial.machine.facts import FactBook
from ktrial.machine.facts_text import fact_words

_LABEL_COLUMNS = 16


def cpu_json(facts: FactBook, compilers: Sequence[Compiler], rustc: RustCompiler | None) -> dict[str, Any]:
    """`ktrial.kernel-cpu/1`."""
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
    """Return the CPU, what each compiler calls it, what each accepts, and what is left of it in kernel code."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    level = facts.value("cpu.level")
    text = line("CPU", fact_words(facts["cpu.model"]))
    text += line("level", f"x86-64-v{level}" if isinstance(level, int) else fact_words(facts["cpu.level"]))
    for compiler in compilers:
        text += "\n" + line(f"{compiler.kind} {compiler.version}", compiler.path)
        text += line("  this CPU", _native(compiler, level))
        text += line("  accepts", accepted_words(compiler.accepted, targets))
        text += line("  not", " ".join(compiler.refused) or "nothing")
    if rustc is not None:
        text += "\n" + line(f"rustc {rustc.version}", rustc.path)
        text += line("  this CPU", rustc.native or "it does not say")
        text += line("  accepts", accepted_words(rustc.accepted, targets))
    if not compilers:
        text += "\n" + paragraph("No gcc or clang for x86-64 is in PATH.", width=width) + "\n"
    return text + _kept_text(targets, compilers, width)


def _native(compiler: Compiler, level: object) -> str:
    if compiler.native is None:
        return "it cannot tell"
    if compiler.native == BASE and level != 1:
        return f"{BASE}: a CPU that it does not know"
    return compiler.native


def accepted_words(names: Sequence[str], targets: Sequence[object]) -> str:
    """Return how many of the targets are accepted."""
    if len(names) == len(targets):
        return f"all {len(targets)} targets"
    return f"{len(names)} of {len(targets)} targets"


def _kept_text(targets: Sequence[Target], compilers: Sequence[Compiler], width: int) -> str:
    """Return what is left of the levels and of this CPU under the kernel's flags, as each compiler's macros say."""
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
    return f"\n{head}\n{table(('compiler', 'target', 'stays', 'goes'), rows, width=width, whole=2)}\n"


def _words(names: Sequence[str]) -> str:
    return " ".join(name.lower() for name in names) or "nothing"

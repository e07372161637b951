# SPDX-License-Identifier: Apache-2.0
"""The CPUs that a kernel for arm64 can be compiled for, and what compilers accept, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from ktrial.kernels.uarch.arm_targets import KERNEL_FLAGS, CpuTarget
from ktrial.kernels.uarch.cpu_text import accepted_words
from ktrial.kernels.uarch.targets import Compiler, RustCompiler
from ktrial.kernels.uarch.targets_text import accepting, here
from ktrial.kit.tables import labelled, paragraph, table

_LABEL_COLUMNS = 16
_NO_SYMBOL = (
    "Kernels for arm64 have no Kconfig symbol for these: `ktrial kernel uarch flags --arch arm64 TARGET` gives the "
    "flags, and .config does not tell of them."
)


def cpu_targets_json(
    targets: Sequence[CpuTarget], compilers: Sequence[Compiler], rustc: RustCompiler | None
) -> dict[str, Any]:
    """`ktrial.kernel-targets/1`."""
    listed = [{**msgspec.to_builtins(target), "accepted_by": accepting(target, compilers, rustc)} for target in targets]
    return {"schema": "ktrial.kernel-targets/1", "architecture": "arm64", "targets": listed}


def cpu_targets_text(
    targets: Sequence[CpuTarget], compilers: Sequence[Compiler], rustc: RustCompiler | None, *, width: int
) -> str:
    """Return a table; the last column tells which compilers of this machine accept a target."""
    rows = []
    for family, members in groupby(targets, key=lambda target: target.family):
        rows.append((f"{family}:", "", ""))
        rows += [(one.name, one.prompt, here(one, compilers, rustc)) for one in members]
    listed = table(("-mcpu", "CPU", "accepted here by"), rows, width=width, whole=1)
    return f"{listed}\n\n{paragraph(_NO_SYMBOL, width=width)}\n{_none_text(compilers, width)}"


def arm_cpu_json(compilers: Sequence[Compiler], rustc: RustCompiler | None) -> dict[str, Any]:
    """`ktrial.kernel-cpu/1`, of compilers for arm64."""
    return {
        "schema": "ktrial.kernel-cpu/1",
        "architecture": "arm64",
        "kernel_flags": KERNEL_FLAGS,
        "compilers": compilers,
        "rustc": rustc,
    }


def arm_cpu_text(
    targets: Sequence[CpuTarget], compilers: Sequence[Compiler], rustc: RustCompiler | None, *, width: int
) -> str:
    """Return what each compiler for arm64 accepts, and what it does not."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    parts = []
    for compiler in compilers:
        text = line(f"{compiler.kind} {compiler.version}", compiler.path)
        text += line("  accepts", accepted_words(compiler.accepted, targets))
        parts.append(text + line("  not", " ".join(compiler.refused) or "nothing"))
    if rustc is not None:
        text = line(f"rustc {rustc.version}", rustc.path)
        parts.append(text + line("  accepts", accepted_words(rustc.accepted, targets)))
    return "\n".join(parts) + _none_text(compilers, width)


def _none_text(compilers: Sequence[Compiler], width: int) -> str:
    if compilers:
        return ""
    hint = (
        "No gcc or clang for arm64 is in PATH (Debian: gcc-aarch64-linux-gnu, or clang, which builds for it as it is)."
    )
    return "\n" + paragraph(hint, width=width) + "\n"

# SPDX-License-Identifier: Apache-2.0
"""What a distribution's own packaging made, as text."""

from __future__ import annotations

from ktrial.bench.text import duration
from ktrial.kernels.kernel_package import KernelPackaged
from ktrial.kit.tables import labelled


def packaged_text(made: KernelPackaged, *, width: int) -> str:
    """A line for each thing."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width) + "\n"

    text = line("sources", f"{made.place}{f', SHA-256 {made.sha256[:12]}…' if made.sha256 else ''}")
    for patch in made.patches:
        text += line("patch", f"{patch.name} ({patch.files} files), SHA-256 {patch.sha256[:12]}…")
    text += line("command", " ".join(made.command))
    text += line("took", f"{duration(made.cost.wall_s)}, {duration(made.cost.cpu_s)} of CPU")
    for package in made.packages:
        text += line("package", package.path)
        if package.identity is not None:
            identity = package.identity
            text += line("kernel", f"{identity.release}, {identity.compiler or 'compiler not told'}")
    return text

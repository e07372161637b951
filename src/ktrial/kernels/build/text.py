# SPDX-License-Identifier: Apache-2.0
"""A built kernel with its cost, and the list of all built kernels, as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.bench.text import duration
from ktrial.kernels.build_record import KernelMade
from ktrial.kit.tables import labelled, table

_LABEL_COLUMNS = 15


def made_text(made: KernelMade, before: KernelMade | None, *, width: int) -> str:
    """Return the properties of a built kernel as text; `before` is an earlier build of the same sources, if any."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    source, identity = made.source, made.identity
    text = line("kernel", made.image)
    text += line("release", f"{identity.release}, {made.architecture}, build id {identity.build_id or 'unknown'}")
    text += line(
        "sources", f"{source.place}, Linux {source.version}{f', commit {source.commit[:12]}' if source.commit else ''}"
    )
    if source.changes:
        text += line("local changes", ", ".join(source.changes))
    for patch in source.patches:
        shifted = f", {patch.shifted} hunks at an offset" if patch.shifted else ""
        text += line("patch", f"{patch.name} ({patch.files} files{shifted}), SHA-256 {patch.sha256[:12]}…")
    if source.families:
        text += line("patch sets", ", ".join(map(str, source.families)))
    text += line("configuration", f"{made.base}, {', '.join(made.fragments) or 'no fragment'}")
    flags = made.flags
    if flags is not None:
        options = f" -O{flags.optimise}" if flags.optimise else ""
        options += f" -march={flags.march}" if flags.march else ", no -march"
        text += line("compiled with", f"{flags.compiler}{options} ({flags.object})")
    for tool in made.tools:
        least = f", at least {tool.minimum}" if tool.minimum else ""
        text += line(tool.role, f"{tool.said}{least}")
    text += line("took", cost_text(made))
    if before is not None:
        text += line("earlier build", cost_text(before)) + line("in", before.folder)
    for package in made.packages:
        text += line("package", package.path)
    return text


def cost_text(made: KernelMade) -> str:
    cost = made.cost
    launcher = made.make.get("CC", "").rpartition(" ")[0]
    cached = f"{launcher} gave no statistics" if launcher in ("ccache", "sccache") else "no cache"
    if cost.hits is not None:
        cached = f"{cost.hits} of {cost.hits + (cost.misses or 0)} from the cache"
    return f"{duration(cost.wall_s)}, {_cpu_text(made, launcher)}, {cost.objects} objects, {cached}"


def _cpu_text(made: KernelMade, launcher: str) -> str:
    """Return the CPU time of the build's own processes, which excludes compilers in servers and on other machines."""
    spread = launcher == "distcc" or made.environment.get("CCACHE_PREFIX") == "distcc"
    elsewhere = "sccache's server" if launcher == "sccache" else "distcc's machines" if spread else None
    without = f" (without {elsewhere})" if elsewhere else ""
    return f"{duration(made.cost.cpu_s)} of CPU{without}"


def built_table(kernels: Sequence[KernelMade], *, width: int) -> str:
    rows = [
        (
            made.identity.release,
            f"{made.tools[0].program if made.tools else ''} -O{made.flags.optimise if made.flags else '?'}",
            ", ".join((*map(str, made.source.families), *made.fragments)) or "-",
            made.folder,
        )
        for made in kernels
    ]
    return table(("built here", "compiler", "with", "folder"), rows, width=width, whole=1)

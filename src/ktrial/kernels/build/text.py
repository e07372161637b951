# SPDX-License-Identifier: Apache-2.0
"""A kernel that was built: what it is and what it cost, and the list of all, as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.bench.text import duration
from ktrial.kernels.build_record import KernelMade
from ktrial.kernels.source import PatchSet
from ktrial.kit.tables import labelled, table

_LABEL_COLUMNS = 15


def made_text(made: KernelMade, before: KernelMade | None, *, width: int) -> str:
    """Return a line for each thing; `before` is an earlier build of the same sources, which filled the cache."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    source, identity = made.source, made.identity
    text = line("kernel", made.image)
    text += line("release", f"{identity.release}, {made.architecture}, build id {identity.build_id or 'not told'}")
    text += line(
        "sources", f"{source.place}, Linux {source.version}{f', commit {source.commit[:12]}' if source.commit else ''}"
    )
    if source.changes:
        text += line("local changes", ", ".join(source.changes))
    for patch in source.patches:
        shifted = f", {patch.shifted} hunks on other lines" if patch.shifted else ""
        text += line("patch", f"{patch.name} ({patch.files} files{shifted}), SHA-256 {patch.sha256[:12]}…")
    if source.families:
        text += line("carries", ", ".join(map(patch_set, source.families)))
    text += line("configuration", f"{made.base}, {', '.join(made.fragments) or 'no fragment'}")
    flags = made.flags
    if flags is not None:
        told = f" -O{flags.optimise}" if flags.optimise else ""
        told += f" -march={flags.march}" if flags.march else ", no -march"
        text += line("compiled with", f"{flags.compiler}{told} ({flags.object})")
    for tool in made.tools:
        least = f", at least {tool.minimum}" if tool.minimum else ""
        text += line(tool.role, f"{tool.said}{least}")
    text += line("took", cost_text(made))
    if before is not None:
        text += line("before took", cost_text(before)) + line("in", before.folder)
    for package in made.packages:
        text += line("package", package.path)
    return text


def cost_text(made: KernelMade) -> str:
    """Time, objects, and what came of the cache."""
    cost = made.cost
    launcher = made.make.get("CC", "").rpartition(" ")[0]
    cached = f"{launcher} told nothing" if launcher in ("ccache", "sccache") else "no cache"
    if cost.hits is not None:
        cached = f"{cost.hits} of {cost.hits + (cost.misses or 0)} from the cache"
    return f"{duration(cost.wall_s)}, {_cpu_text(made, launcher)}, {cost.objects} objects, {cached}"


def _cpu_text(made: KernelMade, launcher: str) -> str:
    """CPU time of the build's own processes: compilers of others are none of them."""
    spread = launcher == "distcc" or made.environment.get("CCACHE_PREFIX") == "distcc"
    elsewhere = "sccache's server" if launcher == "sccache" else "distcc's machines" if spread else None
    without = f" without that of {elsewhere}" if elsewhere else ""
    return f"{duration(made.cost.cpu_s)} of CPU{without}"


def patch_set(one: PatchSet) -> str:
    return one.name if one.version is None else f"{one.name} {one.version}"


def built_table(kernels: Sequence[KernelMade], *, width: int) -> str:
    rows = [
        (
            made.identity.release,
            f"{made.tools[0].program if made.tools else ''} -O{made.flags.optimise if made.flags else '?'}",
            ", ".join((*map(patch_set, made.source.families), *made.fragments)) or "-",
            made.folder,
        )
        for made in kernels
    ]
    return table(("built here", "compiler", "with", "folder"), rows, width=width, whole=1)

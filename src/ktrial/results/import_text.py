# SPDX-License-Identifier: Apache-2.0
"""What was brought in from files of other tools."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import clean, paragraph, table
from ktrial.results.foreign import BroughtFile, BroughtSession

_SHOWN_BENCHMARKS = 3


def imported_text(files: Sequence[BroughtFile], *, dry_run: bool, width: int) -> str:
    """Return each file with its sessions and what is to be said of it."""
    return "\n".join(_one(file, dry_run, width) for file in files)


def _one(file: BroughtFile, dry_run: bool, width: int) -> str:
    does = "would become" if dry_run else "became"
    count = len(file.sessions)
    head = f"{clean(file.file)} ({file.format}) {does} {count} session{'s'[: count != 1]}:"
    rows = [
        (
            "-" if dry_run else one.session,
            clean(one.label),
            clean(_benchmarks(one)),
            f"{one.runs} ({one.failed} failed)" if one.failed else str(one.runs),
            str(one.measurements),
        )
        for one in file.sessions
    ]
    lines = [head, table(("session", "label", "benchmarks", "runs", "values"), rows, width=width)]
    lines += [paragraph(f"note: {clean(note)}", width=width) for note in file.notes]
    return "\n".join(lines) + "\n"


def _benchmarks(one: BroughtSession) -> str:
    names = list(one.benchmarks[:_SHOWN_BENCHMARKS])
    more = len(one.benchmarks) - len(names)
    return ", ".join([*names, f"{more} more"] if more else names)

# SPDX-License-Identifier: Apache-2.0
"""Shows the candidates of `ktrial suggest` as text."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence

from ktrial.kit.tables import labelled, paragraph
from ktrial.studies.goals import Candidate
from ktrial.studies.ledger.model import LedgerEntry
from ktrial.studies.ledger.others import OthersVerdict
from ktrial.studies.ledger.others_text import short_line
from ktrial.tuning.catalog.model import CatalogSource

_CLAIMS = 2
_OTHERS = 2
#: A candidate, what was tried on this machine, and other people's verdicts about it.
Suggested = tuple[Candidate, LedgerEntry | None, Sequence[OthersVerdict]]


def suggestions_text(
    found: Sequence[Suggested],
    sources: Mapping[str, CatalogSource],
    not_here: Mapping[str, str],
    inert: Mapping[str, str],
    *,
    width: int,
) -> str:
    """Return each candidate with its price, its evidence, and the command that tests it."""
    lines = []
    for goal in dict.fromkeys(one.goal for one, _, _ in found):
        own = [row for row in found if row[0].goal == goal]
        title = f"{goal}: {len(own)} candidates (unproven on this machine unless a verdict follows `here`)"
        lines += [paragraph(title, width=width), ""]
        for row in own:
            lines += [*_candidate(row, sources, width), ""]
    if not found:
        lines += ["No candidates: every proposed setting is in force already or does not apply here.", ""]
    for why in dict.fromkeys(inert.values()):
        names = ", ".join(name for name, reason in inert.items() if reason == why)
        lines.append(paragraph(f"no effect here: {names}: {why}", width=width))
    lines += [paragraph(f"not for this machine: {name}: {why}", width=width) for name, why in not_here.items()]
    return "\n".join(lines).rstrip("\n") + "\n"


def _candidate(row: Suggested, sources: Mapping[str, CatalogSource], width: int) -> list[str]:
    one, entry, others = row

    def add(label: str, text: str) -> str:
        return labelled(f"  {label}", text, width=width, label_columns=12)

    changes = ", ".join(f"{address}: {one.now[address] or '?'} to {value}" for address, value in one.settings.items())
    lines = [paragraph(changes, width=width)]
    lines += [add("why", " ".join(one.why))] if one.why else []
    lines.append(add("price", f"{one.price}{'' if one.risk == 'safe' else f' ({one.risk})'}"))
    for claim in one.evidence[:_CLAIMS]:
        title = sources[claim.source].title if claim.source in sources else claim.source
        lines.append(add(claim.status, f"{claim.claim} [{title}]"))
    if not one.evidence:
        lines.append(add("evidence", "none"))
    lines.append(add("from", ", ".join(one.sources)))
    if entry is not None:
        when = time.strftime("%Y-%m-%d", time.gmtime(entry.started_unix_ms / 1000))
        lines.append(add("here", f"{entry.verdict or 'open'} on {when}: {entry.trial}"))
    lines += [add("elsewhere", short_line(verdict)) for verdict in others[:_OTHERS]]
    lines.append(f"  {shlex.join(one.try_line)}")
    return lines

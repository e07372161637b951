# SPDX-License-Identifier: Apache-2.0
"""What a measurement that is kept leaves doubtful, from its records again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktrial.bench.doubts import session_findings
from ktrial.bench.record import RunRecord, Session
from ktrial.kit.finding import Finding
from ktrial.results.model import StoredRun, StoredSession


def kept_findings(session: StoredSession, runs: Iterable[StoredRun]) -> tuple[Finding, ...]:
    """As `bench` told them at its end; none of what was measured elsewhere, or recorded in another form."""
    if session.origin != "bench":
        return ()
    documents = [{**run.document, "session": session.document} for run in runs if run.document is not None]
    try:
        made = msgspec.convert(session.document, Session)
        records = msgspec.convert(documents, list[RunRecord])
    except msgspec.ValidationError:
        return ()
    return session_findings(records, made.gates, made.label or "this session")

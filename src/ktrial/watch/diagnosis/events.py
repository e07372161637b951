# SPDX-License-Identifier: Apache-2.0
"""How many events of each kind a recording holds, the longest one, and whom they hit."""

from __future__ import annotations

from collections import Counter

from ktrial.recordings.model import Event, Recording
from ktrial.watch.diagnosis.model import EventsFound

#: So many threads are named.
_THREADS = 3


def events(recording: Recording) -> tuple[EventsFound, ...]:
    """Each kind that was listened for and met, the most frequent first."""
    by_kind: dict[str, list[Event]] = {}
    for event in recording.events:
        by_kind.setdefault(event.kind, []).append(event)
    found = [_found(kind, of_kind, recording) for kind, of_kind in by_kind.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.kind)))


def _found(kind: str, of_kind: list[Event], recording: Recording) -> EventsFound:
    ended = [(event.duration_s, event.begin_s) for event in of_kind if event.duration_s is not None]
    longest = max(ended, key=lambda one: one[0], default=None)
    sources = {event.source for event in of_kind}
    threads = Counter(event.thread for event in of_kind if event.thread)
    return EventsFound(
        kind=kind,
        count=len(of_kind),
        longest_s=None if longest is None else longest[0],
        longest_at_s=None if longest is None else longest[1],
        together_s=sum(took_s for took_s, _ in ended) if ended else None,
        lost=sum(source.lost for source in recording.sources if source.name in sources),
        threads=dict(threads.most_common(_THREADS)),
    )

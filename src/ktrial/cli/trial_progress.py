# SPDX-License-Identifier: Apache-2.0
"""How a trial shows that it goes on: a line per block, as good in a log file as on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from ktrial.cli.trying import Prepared
    from ktrial.domain.trial_log import Protocol
    from ktrial.services.trial_events import TrialEvent


class TrialProgress:
    """Talks on stderr; with `as_json` also writes every event on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def announce(self, ready: Prepared, protocol: Protocol) -> None:
        """What is about to be done, what it costs and what it can see."""
        from ktrial.report.terminal import columns
        from ktrial.report.trial import announcement

        self._say(announcement(protocol, ready.arms, ready.idle, ready.settle_s, width=columns()))

    def __call__(self, event: TrialEvent) -> None:
        """Show one event."""
        from ktrial.report.terminal import columns
        from ktrial.report.trial import block_line
        from ktrial.services import trial_events as events

        if isinstance(event, events.VisitWaits):
            self._say(f"{event.waiting}\n")
        elif isinstance(event, events.VisitEnded) and (event.failure or event.void):
            self._say(f"a run gave nothing: {event.void or event.failure}\n")
        elif isinstance(event, events.BlockEnded):
            self._say(block_line(event.judgement, width=columns()))
        if self._as_json:
            sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
            sys.stdout.flush()

    @staticmethod
    def _say(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

# SPDX-License-Identifier: Apache-2.0
"""What a trial tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.domain.judgement import Judgement
from ktrial.domain.run import RunRecord
from ktrial.domain.trial_log import Protocol


class TrialBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="trial-began"):
    """The trial begins, or goes on after `done` blocks. `visit_s` is about what one visit takes, null when unknown."""

    trial: str
    protocol: Protocol
    protocol_sha256: str
    session: str
    where: str
    done: int
    visit_s: float | None


class VisitBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit-began"):
    """A visit begins. Which arm it is of is not told before it is over: nobody can act on it."""

    block: int | None
    visit: int
    visits: int
    left_s: float | None


class VisitWaits(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit-waits"):
    """The visit waits for the machine; `waiting` says for what."""

    waiting: str


class VisitEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit"):
    """A visit is over. `failure` is why it gave no measurement, `void` why its block does not count."""

    block: int | None
    record: RunRecord
    name: str
    failure: str | None
    void: str | None


class BlockEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="block-ended"):
    """A block is over, and what the judge says so far."""

    block: int
    judgement: Judgement


class TrialEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="trial-ended"):
    """No further run is made now. An interrupted trial can be gone on with."""

    trial: str
    judgement: Judgement
    interrupted: bool


TrialEvent = TrialBegan | VisitBegan | VisitWaits | VisitEnded | BlockEnded | TrialEnded
TrialListener = Callable[[TrialEvent], None]

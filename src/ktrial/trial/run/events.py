# SPDX-License-Identifier: Apache-2.0
"""What a trial tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Protocol
from ktrial.trial.protocol.forecast import TrialForecast
from ktrial.trial.protocol.limits import SafetyLimits
from ktrial.trial.record import ArmSettings


class NoiseBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="noise-began"):
    """What follows are blocks of two equal arms, for the noise profile."""

    blocks: int


class TrialAnnounced(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="trial-announced"):
    """What is about to be done, and by which rules. `forecast` is null where no noise profile tells."""

    protocol: Protocol
    arms: Mapping[str, ArmSettings]
    placebos: tuple[str, ...]
    settle_s: float
    limits: SafetyLimits
    forecast: TrialForecast | None


class VisitBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit-began"):
    """A visit begins. Which arm it is of is not told before it is over: nobody can act on it.

    `left_s` is about how long the trial takes to its cap; null before anything is known.
    """

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


TrialEvent = NoiseBegan | TrialAnnounced | VisitBegan | VisitWaits | VisitEnded | BlockEnded | TrialEnded
TrialListener = Callable[[TrialEvent], None]

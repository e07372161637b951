# SPDX-License-Identifier: Apache-2.0
"""Events that a trial reports while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Protocol
from ktrial.trial.protocol.file import SafetyLimits
from ktrial.trial.protocol.forecast import TrialForecast
from ktrial.trial.record import ArmSettings


class NoiseBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="noise-began"):
    """The measurement of a noise profile begins: blocks of two equal arms.

    `done` blocks are over already. `expected_s` estimates the time of the other blocks; null if there is no estimate
    yet. A trial of at most `trial_visits` visits comes afterwards.
    """

    blocks: int
    done: int = 0
    expected_s: float | None = None
    trial_visits: int = 0


class PilotBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="pilot-began"):
    """The pilot of a live trial begins: ktrial switches the arms `switches` times and watches."""

    expected_s: float
    switches: int


class PilotEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="pilot"):
    """The plan from the pilot of a live trial, with reasons. The trial finds `smallest_effect` in 9 of 10 cases."""

    period_s: float
    washout_s: float
    blocks: int
    smallest_effect: float
    why: tuple[str, ...]


class TrialAnnounced(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="trial-announced"):
    """The plan of the trial, and its rules. `forecast` is null without a noise profile.

    `cap_s` is the maximum time of the trial; null if there is no estimate yet.
    """

    protocol: Protocol
    arms: Mapping[str, ArmSettings]
    placebos: tuple[str, ...]
    settle_s: float
    limits: SafetyLimits
    forecast: TrialForecast | None
    cap_s: float | None = None


class VisitBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit-began"):
    """A visit begins.

    Its arm stays hidden until the visit is over, so that nobody can act on it. `left_s` estimates the time to the cap,
    `visit_s` the time of a visit; null if there is no estimate yet.
    """

    block: int | None
    visit: int
    visits: int
    left_s: float | None
    visit_s: float | None = None


class ArmInForce(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="arm-in-force"):
    """An arm has come into force for a visit. The arm stays hidden from people during the visit."""

    block: int | None
    arm: str


class VisitWaits(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit-waits"):
    """The visit waits for the machine; `waiting` states the reason."""

    waiting: str


class VisitEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visit"):
    """A visit is over. `failure` states why the visit gave no measurement, `void` why its block does not count."""

    block: int | None
    record: RunRecord
    name: str
    failure: str | None
    void: str | None


class PeriodPhase(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="period"):
    """A part of a period of live work begins: the washout after the switch, the watched part, or the rating.

    `arm` is the arm in force, null if the trial is blind. `until_unix_ms` is the end of the part, null if a person
    ends it.
    """

    block: int
    phase: Literal["washout", "watch", "rate"]
    arm: str | None
    until_unix_ms: int | None


class BlockEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="block-ended"):
    """A block is over; `judgement` is the judgement so far."""

    block: int
    judgement: Judgement


class TrialEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="trial-ended"):
    """The trial stops here. An interrupted trial can be resumed."""

    trial: str
    judgement: Judgement
    interrupted: bool


TrialEvent = (
    NoiseBegan
    | PilotBegan
    | PilotEnded
    | TrialAnnounced
    | ArmInForce
    | VisitBegan
    | VisitWaits
    | PeriodPhase
    | VisitEnded
    | BlockEnded
    | TrialEnded
)
TrialListener = Callable[[TrialEvent], None]

# SPDX-License-Identifier: Apache-2.0
"""The log of a plan that the agent carried out by itself, `ktrial.unattended-log/1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.json_strict import decode_as

#: Why a plan ended.
EndReason = Literal["done", "stopped", "deadline", "limit", "failed", "knob", "reading", "suspend"]


class LogMoment(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a log line; `slept_ms` is how long the machine has been suspended since boot."""

    at_ns: int
    at_unix_ms: int
    slept_ms: int


class PlanBegun(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="begun"):
    """The plan begins."""

    schema: Literal["ktrial.unattended-log/1"]
    plan: str
    sha256: str
    token: int
    boot_id: str
    agent: str


class VisitMade(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="visit"):
    """A visit begins; `visit` is its index in the plan."""

    visit: int
    block: int
    arm: str


class CommandRun(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """One command begins. Readings, the command itself and further readings follow."""

    visit: int
    run: int
    command: str


class PlanAnswer(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="answer", rename={"by": "as"}):
    """An answer to a request. `fields` are the fields of the request if the request only reads."""

    by: Literal["root", "user", "sampler"]
    do: str
    began_ns: int
    began_unix_ms: int
    fields: Mapping[str, Any] = {}
    ok: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class VisitVoid(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="void"):
    """The visit's block does not count."""

    visit: int
    cause: Literal["knob", "reading", "suspend"]
    reason: str


class VisitOver(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="visit-ended"):
    """The visit is over, and its arm is reverted."""

    visit: int


class PlanEnded(LogMoment, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """The plan is over; its arms are reverted."""

    reason: EndReason
    message: str


Line: TypeAlias = PlanBegun | VisitMade | CommandRun | PlanAnswer | VisitVoid | VisitOver | PlanEnded
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class MadeVisit(NamedTuple):
    """A visit that is over. `before`, `runs` and `after` are the answers before, during and after its runs."""

    begun: PlanBegun
    visit: VisitMade
    before: Sequence[PlanAnswer]
    runs: Sequence[Sequence[PlanAnswer]]
    after: Sequence[PlanAnswer]
    void: VisitVoid | None


def lines_of(data: bytes) -> list[Line]:
    """Return the lines of a log, without an incomplete last line, which a killed agent leaves.

    Raise BadInput for any other malformed line.
    """
    lines: list[Line] = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            lines.append(decode_as(line, _LINE))
        except msgspec.DecodeError as error:
            raise BadInput(
                f"cannot read line {number} of the log of an unattended plan: {error}",
                hint="start a new trial, without --unattended",
            ) from None
    return lines


def made_visits(lines: Sequence[Line]) -> Iterator[MadeVisit]:
    """Yield the visits that are over, in order. Leave out a visit that was cut off; ktrial makes it again."""
    begun = next((line for line in lines if isinstance(line, PlanBegun)), None)
    part: list[Line] = []
    for line in lines:
        if isinstance(line, VisitMade):
            part = []
        part.append(line)
        if isinstance(line, VisitOver) and begun is not None and isinstance(part[0], VisitMade):
            yield _visit_of(begun, part[0], part)


def _visit_of(begun: PlanBegun, visit: VisitMade, part: Sequence[Line]) -> MadeVisit:
    before: list[PlanAnswer] = []
    runs: list[list[PlanAnswer]] = []
    after: list[PlanAnswer] = []
    into, number = before, None
    for line in part:
        if isinstance(line, CommandRun) and line.run != number:
            number = line.run
            runs.append([])
            into = runs[-1]
        elif isinstance(line, PlanAnswer):
            (after if line.do == "revert" else into).append(line)
    void = next((line for line in part if isinstance(line, VisitVoid)), None)
    return MadeVisit(begun, visit, before, runs, after, void)


def ended_in(lines: Sequence[Line]) -> PlanEnded | None:
    """Return how the plan ended; None if it was cut off."""
    return next((line for line in reversed(lines) if isinstance(line, PlanEnded)), None)

# SPDX-License-Identifier: Apache-2.0
"""A trial as an append-only log of events, `ktrial.trial-log/1`: the protocol first, then what happened, in order.

Nothing that was written is ever changed. The verdict is a pure function of these events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ktrial.judge.model.comparison import Role
from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.kit.json_strict import decode_as
from ktrial.kit.outcome import Direction
from ktrial.machine.gates import GateLimits, Reading

SCHEMA = "ktrial.trial-log/1"
#: A counter is not looked at before the end, and needs so many blocks.
FEWEST_COUNTER_BLOCKS = 20

Questions = Literal["control", "ladder"]


class Screen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial that asks which of its settings did it: each block runs a configuration of them, and its complement.

    `known` is what all of them together are to the control; with `either` each is looked for on both sides.
    """

    settings: tuple[str, ...]
    known: Literal["better", "worse", "either"] = "either"


class TrialArm(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. A placebo is the control under another name, and is not counted among the comparisons."""

    name: str
    placebo: bool = False


class OutcomeRule(msgspec.Struct, frozen=True, kw_only=True):
    """How one outcome is judged. `margin` is relative; of a guard it is what the arm may be worse at most.

    On the scale `log` values must be above zero; `count` is for counters that may be zero, per unit of work.
    `resolution` is the step of the tool in the outcome's unit, `quantile` the percentile that it is (0.99), if one.
    """

    direction: Direction
    role: Role
    margin: float = 0.02
    scale: Literal["log", "count"] = "log"
    resolution: float | None = None
    quantile: float | None = None


class Protocol(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="protocol"):
    """What was fixed before the first run. The order of `arms` is that of the ladder, the control first there.

    `questions`: each arm against the control, or of a ladder each tier against the one before and the control.
    `cap` null: it is planned from the first seven blocks, up to `budget`. `profile` holds differences of A/A blocks by
    outcome. `varies` are identities that the arms may change (the kernel). `until_all_decided` goes on for
    secondaries and guards, `extend` allows to go on after the cap at the price of half the error, `pooled` is part of
    several machines' trial. With `screen` the arms are configurations of its settings, and nothing is compared.
    """

    schema: Literal["ktrial.trial-log/1"] = "ktrial.trial-log/1"
    name: str
    arms: tuple[TrialArm, ...]
    control: str
    outcomes: Mapping[str, OutcomeRule]
    cap: int | None
    budget: int = 20
    detect: float = 0.05
    alpha: float = 0.05
    seed: int
    replicate: Literal["run", "boot", "build"] = "run"
    runs_per_visit: int = 1
    questions: Questions = "control"
    profile: Mapping[str, tuple[float, ...]] = {}
    gates: Mapping[str, GateLimits] = {}
    varies: tuple[str, ...] = ()
    until_all_decided: bool = False
    extend: bool = False
    pooled: bool = False
    screen: Screen | None = None

    @property
    def primary(self) -> str:
        """The outcome that alone decides when to stop."""
        return next(name for name, rule in self.outcomes.items() if rule.role == "primary")

    def of_role(self, role: Role) -> tuple[str, ...]:
        """Return outcomes of one role, in their order."""
        return tuple(name for name, rule in self.outcomes.items() if rule.role == role)

    @property
    def contrasts(self) -> tuple[tuple[str, str], ...]:
        """(arm, against) of every question; placebos are last."""
        placebos = [(arm.name, self.control) for arm in self.arms if arm.placebo and arm.name != self.control]
        pairs = [(arm, self.control) for arm in self._tried]
        return (*pairs, *(step for step in self.steps if step not in pairs), *placebos)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Of a ladder, each tier with the one before it; that of the first one is the control."""
        tiers = self._tried if self.questions == "ladder" else ()
        return tuple(zip(tiers, (self.control, *tiers), strict=False))

    @property
    def _tried(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms if not arm.placebo and arm.name != self.control)

    @property
    def comparisons(self) -> int:
        """How many questions share the error: placebos do not count, unless there is nothing else."""
        placebos = {arm.name for arm in self.arms if arm.placebo}
        return sum(arm not in placebos for arm, _ in self.contrasts) or len(self.contrasts)


class BlockDrawn(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="block"):
    """The order of the arms in one block, as it was drawn. `repeats` is the voided block that it stands in for."""

    block: int
    order: tuple[str, ...]
    repeats: int | None = None


class ArmFound(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="found"):
    """An arm that a person brings about was in force at the beginning of a visit.

    `by` says who found it so: the facts that the protocol names, or a person where they tell nothing. `facts` are those
    that were looked at; of a list of words the ones that were looked for.
    """

    block: int
    arm: str
    by: Literal["facts", "person"]
    facts: Mapping[str, str] = {}


class ArmBuilt(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="built"):
    """What a visit measures was made anew for it: the file and the SHA-256 of its bytes."""

    block: int
    arm: str
    artefact: str
    sha256: str


class ReadingsTaken(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="readings"):
    """What was read of the machine before a run."""

    block: int
    arm: str
    readings: Mapping[str, Reading]


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """One run: its measurements in base units, or why there are none. `block` is null of a warm-up.

    `events` are how many single events a percentile rests on, by outcome; `identity` what must be equal in all runs.
    """

    run: int
    block: int | None
    arm: str
    measurements: Mapping[str, float] = {}
    failure: str | None = None
    events: Mapping[str, int] = {}
    identity: Mapping[str, str] = {}


class BlockVoided(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="void"):
    """A block that does not count, by a rule that looked at no measurement. `arm` is whose turn it was."""

    block: int
    arm: str
    cause: Literal["reading", "knob", "suspend", "boot", "build"]
    reason: str


class Looked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="look"):
    """What the judge said of the primary outcome after so many blocks, by `arm:against`; null where it was open."""

    blocks: int
    verdicts: Mapping[str, str | None]


class TrialEnd(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """Nothing follows but an extension. What was open then stays inconclusive."""

    reason: str


class Extended(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="extend"):
    """The trial goes on up to so many blocks in all, as its protocol declared: the e-value decides from here on."""

    blocks: int


Event: TypeAlias = (
    Protocol | BlockDrawn | ArmFound | ArmBuilt | ReadingsTaken | RunEnded | BlockVoided | Looked | TrialEnd | Extended
)
TrialLog: TypeAlias = Sequence[Event]

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(log: Iterable[Event]) -> bytes:
    return b"".join(_ENCODER.encode(event) + b"\n" for event in log)


def decode(data: bytes, file: str) -> tuple[Event, ...]:
    """Return the events of a log. A last line without its end was cut off while it was written and never happened."""
    lines = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            events.append(decode_as(line, _DECODER))
        except msgspec.DecodeError as error:
            hint = f"every line is an event of {SCHEMA}"
            raise BadInput(f"no event of a trial: {error}", file=file, line=number, hint=hint) from None
        if isinstance(events[-1], Protocol) != (number == 1):
            raise BadInput("the protocol is the first event, and there is one", file=file, line=number)
    if not events:
        raise BadInput("a trial without a protocol", file=file, hint="its log is empty")
    return tuple(events)


def protocol_in(log: Sequence[Event]) -> Protocol:
    """Return the protocol, which is the first event of every log."""
    first = log[0]
    assert isinstance(first, Protocol), "a log begins with its protocol"
    return first


def block_order(seed: int, block: int, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the order of arms in a block: an independent fair draw that seed and block number alone decide."""
    import numpy as np

    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, block))))
    return tuple(arms[place] for place in generator.permutation(len(arms)).tolist())


def check_protocol(protocol: Protocol) -> None:
    """Raise BadInput for a protocol that says nothing that can be judged."""
    names = [arm.name for arm in protocol.arms]
    if len(set(names)) != len(names):
        raise Contradiction(f"two arms have one name: {', '.join(sorted(names))}")
    if protocol.control not in names:
        raise UnknownName("arm", protocol.control, names, hint=f"arms are {', '.join(names) or 'none'}")
    if len(names) < 2:
        raise BadInput("a trial has two arms at least", hint="add a placebo to look at the noise alone")
    if len(protocol.of_role("primary")) != 1:
        raise BadInput("one outcome is primary, neither none nor several", hint="it alone decides when to stop")
    for name, rule in protocol.outcomes.items():
        if not math.isfinite(rule.margin) or rule.margin < 0:
            raise BadInput(f"margin of {name}: {rule.margin:g} is none", hint='for example "2%"')
    if not protocol.detect > 0 or protocol.seed < 0 or protocol.runs_per_visit < 1:
        raise BadInput("detect is above 0, the seed not negative, runs per visit 1 or more")
    if protocol.outcomes[protocol.primary].scale == "count":
        _check_counter(protocol)


def _check_counter(protocol: Protocol) -> None:
    if protocol.cap is None or protocol.cap < FEWEST_COUNTER_BLOCKS:
        raise BadInput(
            f"{protocol.primary} is a count and needs at least {FEWEST_COUNTER_BLOCKS} blocks",
            hint=f"--budget {FEWEST_COUNTER_BLOCKS}, or cap = {FEWEST_COUNTER_BLOCKS} in the protocol",
        )
    if protocol.extend:
        raise Contradiction("a counter as primary cannot be extended: it is looked at once")

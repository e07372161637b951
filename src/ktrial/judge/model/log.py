# SPDX-License-Identifier: Apache-2.0
"""A trial as an append-only log of events, `ktrial.trial-log/1`: the protocol first, then what happened, in order.

No event is ever changed. The verdict is a pure function of these events.
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
#: A counter is looked at only once, at the end, and needs at least this many blocks.
FEWEST_COUNTER_BLOCKS = 20

Questions = Literal["control", "ladder"]


class Screen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A screening, which searches for the responsible setting: each block runs a configuration and its complement.

    `known` says how all settings together compare with the control; `either` searches for effects in both directions.
    """

    settings: tuple[str, ...]
    known: Literal["better", "worse", "either"] = "either"


class Race(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A race, which chooses from many configurations those that deserve more runs, and gives no verdict.

    After each block only the best challengers stay; `keep` is their share. Arms in `stay` stay to the end.
    """

    keep: float = 0.34
    stay: tuple[str, ...] = ()


class TrialArm(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. A placebo is the control under another name and does not count as a comparison."""

    name: str
    placebo: bool = False


class OutcomeRule(msgspec.Struct, frozen=True, kw_only=True):
    """How one outcome is judged. `margin` is relative; for a guard it is how much worse the arm may be.

    With the scale `log`, values must be above zero. The scale `count` is for counters, which may be zero.
    `resolution` is the smallest step in which the tool reports values, in the outcome's unit. `quantile` is 0.99 for
    a p99.
    """

    direction: Direction
    role: Role
    margin: float = 0.02
    scale: Literal["log", "count"] = "log"
    resolution: float | None = None
    quantile: float | None = None


class Protocol(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="protocol"):
    """Everything fixed before the first run. In a ladder `arms` are in the order of the tiers, the control first.

    `questions` says what is compared: each arm with the control or, in a ladder, each tier with the tier before it and
    with the control. If `cap` is null, ktrial plans it after seven blocks, up to `budget`. `profile` holds differences
    of A/A blocks (both arms the same) by outcome. `varies` are identities that arms may change, such as the kernel.
    With `until_all_decided` the trial continues until secondary outcomes and guards are decided too. `extend` allows
    more blocks after the cap, at the price of half the error rate. `pooled` marks one machine's part of a trial on
    several machines. With `screen` arms are configurations of its settings. A `race` gives estimates only. A `fixed`
    trial makes all blocks up to its cap, even after its verdicts are clear. With `adjust`, verdicts hold at equal
    values of these covariates.
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
    # Absent by default, so that earlier protocols keep their bytes.
    fixed: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    race: Race | msgspec.UnsetType = msgspec.UNSET
    adjust: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def primary(self) -> str:
        """Return the outcome that decides the trial."""
        return next(name for name, rule in self.outcomes.items() if rule.role == "primary")

    def of_role(self, role: Role) -> tuple[str, ...]:
        return tuple(name for name, rule in self.outcomes.items() if rule.role == role)

    @property
    def contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return every comparison as (arm, against); placebos are last."""
        placebos = [(arm.name, self.control) for arm in self.arms if arm.placebo and arm.name != self.control]
        pairs = [(arm, self.control) for arm in self._tried]
        return (*pairs, *(step for step in self.steps if step not in pairs), *placebos)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Return each tier of a ladder with the tier before it, the first tier with the control."""
        tiers = self._tried if self.questions == "ladder" else ()
        return tuple(zip(tiers, (self.control, *tiers), strict=False))

    @property
    def _tried(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms if not arm.placebo and arm.name != self.control)

    @property
    def comparisons(self) -> int:
        """Return the number of comparisons that share the error rate; placebos count only if all arms are placebos."""
        placebos = {arm.name for arm in self.arms if arm.placebo}
        return sum(arm not in placebos for arm, _ in self.contrasts) or len(self.contrasts)


class BlockDrawn(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="block"):
    """The drawn order of the arms in one block. `repeats` is the void block that this block replaces."""

    block: int
    order: tuple[str, ...]
    repeats: int | None = None


class ArmFound(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="found"):
    """A person set up an arm, and ktrial recognised it at the beginning of a visit.

    `by` says what confirmed it: the facts that the protocol names or, if these are not enough, a person. `facts` are
    the facts that ktrial read. If a fact is a list of words, it holds only the words that the protocol names.
    """

    block: int
    arm: str
    by: Literal["facts", "person"]
    facts: Mapping[str, str] = {}


class ArmBuilt(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="built"):
    """The file that was built for a visit, and the SHA-256 of its bytes."""

    block: int
    arm: str
    artefact: str
    sha256: str


class ReadingsTaken(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="readings"):
    """Readings of the machine before a run."""

    block: int
    arm: str
    readings: Mapping[str, Reading]


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """One run: its measurements in base units, or why there are none. `block` is null for a warm-up.

    `events` holds how many single events a percentile rests on, by outcome; `identity` must be equal in all runs,
    except for what the protocol lets vary.
    `covariates` were measured during a period of live work, and explain noise.
    """

    run: int
    block: int | None
    arm: str
    measurements: Mapping[str, float] = {}
    failure: str | None = None
    events: Mapping[str, int] = {}
    identity: Mapping[str, str] = {}
    covariates: Mapping[str, float] | msgspec.UnsetType = msgspec.UNSET


class BlockVoided(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="void"):
    """A block that doesn't count, by a rule that never looks at measurements.

    The rule applied while `arm` was measured. `period` stands for the rules of live trials: values are missing,
    another version runs, or the clock stepped. `pause` means that the user paused or interrupted a live trial.
    """

    block: int
    arm: str
    cause: Literal["reading", "knob", "suspend", "boot", "build", "period", "pause"]
    reason: str


class Looked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="look"):
    """The verdicts on the primary outcome after this many blocks, by `arm:against`; null if open."""

    blocks: int
    verdicts: Mapping[str, str | None]


class TrialEnd(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """The end of a trial. Verdicts that are still open become inconclusive; only an extension may follow."""

    reason: str


class Extended(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="extend"):
    """An extension of the trial to this many blocks in all, which its protocol allowed.

    From here on the e-value decides.
    """

    blocks: int


Event: TypeAlias = (
    Protocol | BlockDrawn | ArmFound | ArmBuilt | ReadingsTaken | RunEnded | BlockVoided | Looked | TrialEnd | Extended
)
TrialLog: TypeAlias = Sequence[Event]

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
#: What to do if a stored log is damaged.
OTHER_STORE = "import an intact bundle of the trial into another store: ktrial --store FILE import BUNDLE"


def encode(log: Iterable[Event]) -> bytes:
    return b"".join(_ENCODER.encode(event) + b"\n" for event in log)


def decode(data: bytes, file: str) -> tuple[Event, ...]:
    """Return the events of a log, without a last line that lacks its newline because writing it was interrupted.

    Raise BadInput for an unreadable event, or if the protocol is not the first event.
    """
    lines = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            events.append(decode_as(line, _DECODER))
        except msgspec.DecodeError as error:
            why = f"cannot read an event of a trial: {error}"
            raise BadInput(why, file=file, line=number, hint=OTHER_STORE) from None
        if isinstance(events[-1], Protocol) != (number == 1):
            raise BadInput(
                "expected one protocol, as the first event",
                file=file,
                line=number,
                hint=OTHER_STORE,
            )
    if not events:
        raise BadInput("the log of the trial is empty", file=file, hint=OTHER_STORE)
    return tuple(events)


def protocol_in(log: Sequence[Event]) -> Protocol:
    first = log[0]
    assert isinstance(first, Protocol), "a log begins with its protocol"
    return first


def block_order(seed: int, block: int, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the order of arms in a block: an independent fair draw that depends only on seed and block number."""
    import numpy as np

    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, block))))
    return tuple(arms[place] for place in generator.permutation(len(arms)).tolist())


def check_protocol(protocol: Protocol) -> None:
    """Raise BadInput for a protocol that cannot be judged."""
    names = [arm.name for arm in protocol.arms]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Contradiction(f"two arms have the same name, {twice}", hint="rename one arm")
    if protocol.control not in names:
        raise UnknownName("arm", protocol.control, names, hint=f"use one of: {', '.join(names)}" if names else None)
    if len(names) < 2:
        raise BadInput("a trial needs at least two arms", hint="add an arm; a placebo is enough to measure the noise")
    if (primaries := len(protocol.of_role("primary"))) != 1:
        raise BadInput(f"expected one primary outcome, got {primaries}", hint="make exactly one outcome primary")
    for name, rule in protocol.outcomes.items():
        if not math.isfinite(rule.margin) or rule.margin < 0:
            raise BadInput(
                f"margin of {name}: expected 0 or more, got {rule.margin:g}", hint='for example  margin = "2%"'
            )
    _check_numbers(protocol)
    if protocol.outcomes[protocol.primary].scale == "count" and not protocol.race:
        _check_counter(protocol)
    if protocol.adjust and (protocol.extend or protocol.outcomes[protocol.primary].scale == "count"):
        what = "the trial may be extended" if protocol.extend else "the primary outcome is a counter"
        raise Contradiction(f"cannot judge at equal covariates: {what}", hint="remove `adjust`")


def _check_numbers(protocol: Protocol) -> None:
    for name, is_right, wanted in (
        ("detect", protocol.detect > 0, "a value above 0"),
        ("seed", protocol.seed >= 0, "0 or more"),
        ("runs_per_visit", protocol.runs_per_visit >= 1, "1 or more"),
    ):
        if not is_right:
            raise BadInput(
                f"{name}: expected {wanted}, got {getattr(protocol, name)}", hint=f"correct {name} in the protocol"
            )


def _check_counter(protocol: Protocol) -> None:
    if protocol.cap is None or protocol.cap < FEWEST_COUNTER_BLOCKS:
        raise BadInput(
            f"{protocol.primary} is a count and needs at least {FEWEST_COUNTER_BLOCKS} blocks",
            hint=f"use --budget {FEWEST_COUNTER_BLOCKS}, or cap = {FEWEST_COUNTER_BLOCKS} in the protocol",
        )
    if protocol.extend:
        raise Contradiction(
            f"cannot combine `extend` with the counter {protocol.primary} as primary outcome: counters are judged once",
            hint="remove `extend`, or choose another primary outcome",
        )

# SPDX-License-Identifier: Apache-2.0
"""The question of a search, its steps, and its answer, `ktrial.search/1`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.studies.search.boots import boot_words, changes_at_boot, kernel_change
from ktrial.studies.search.space import Point, Scalar, Space, fill, plain
from ktrial.trial.protocol.file import ArmFile, TrialFile

Sampler = Literal["tpe", "gp", "random"]
#: How a search ended.
Ending = Literal["confirmed", "nothing found", "budget too small", "nothing could be tried"]
#: A mean with the ends of its interval.
Interval = tuple[float, float, float]
#: What became of a point of the front; `unconfirmed` points were not in the trial.
FrontState = Literal["confirmed", "not confirmed", "breaks a guard", "unconfirmed"]
StepKind = Literal["screen", "race", "confirm", "remove", "fewest", "front"]


class SearchQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What to search, in which space, and for how long.

    `trial` says what is measured; its arms are not used, and its command has the placeholders of the space. `files` are
    the templates of configuration files by placeholder, which ktrial writes below `folder`. `visit_s` is how long a
    visit takes, if earlier runs show it; in guests that includes the boot. `kernels` maps values of the dimension
    `kernel` to paths. `also` are outcomes to improve besides the primary one; they are among the trial's secondary
    outcomes too. With `fleet`, all machines of a fleet measure the best points and confirm the winner.
    """

    name: str
    space: Space
    trial: TrialFile
    seed: int
    budget_s: float
    sampler: Sampler = "tpe"
    files: Mapping[str, str] = {}
    folder: str = ""
    visit_s: float | None = None
    kernels: Mapping[str, str] = {}
    also: tuple[str, ...] = ()
    fleet: bool = False

    @property
    def outcomes(self) -> int:
        """The number of outcomes to improve."""
        return 1 + len(self.also)

    def fill_word(self, text: str, point: Point) -> str:
        """Return `text`, a word of the command, with the values of this point in place of placeholders."""
        values = {**self.space.settled(point), **self.paths(point)}
        return fill(text, values)

    def paths(self, point: Point) -> dict[str, str]:
        """Return the path of each configuration file by placeholder; equal contents have equal paths."""
        return {name: path for name, (path, _) in self.config_files(point).items()}

    def config_files(self, point: Point) -> dict[str, tuple[str, str]]:
        """Return path and content of each configuration file, by placeholder, with the values of this point."""
        settled = self.space.settled(point)
        found = {}
        for name, template in self.files.items():
            text = fill(template, settled)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            found[name] = (f"{self.folder}/{name}-{digest}", text)
        return found

    def arm(self, point: Point) -> ArmFile:
        """Return the point as an arm: its changes and, if the space has placeholders, the command with their values."""
        settled, changes = self.space.settled(point), self.space.changes(point)
        kinds = {one.name: one.kind for one in self.space.dimensions}
        has_own = "placeholder" in kinds.values()
        return ArmFile(
            set={name: _kernel_value(value) for name, value in changes.items() if kinds[name] == "knob"},
            environment={name: plain(value) for name, value in changes.items() if kinds[name] == "environment"},
            command=self._command(point) if has_own else msgspec.UNSET,
            prepare=self._prepare(point) if has_own and self.trial.prepare else msgspec.UNSET,
            boot=boot_words(self.space.dimensions, settled),
            kernel=kernel_change(self.space.dimensions, settled, self.kernels),
        )

    def _command(self, point: Point) -> tuple[str, ...]:
        return tuple(self.fill_word(word, point) for word in self.trial.command)

    def _prepare(self, point: Point) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self.fill_word(word, point) for word in step) for step in self.trial.prepare or ())

    @property
    def control_trial(self) -> TrialFile:
        """The trial with the control's values in its command."""
        control = self.space.control
        prepare = self._prepare(control) if self.trial.prepare else msgspec.UNSET
        return msgspec.structs.replace(self.trial, command=self._command(control), prepare=prepare)


def _kernel_value(value: Scalar) -> Scalar:
    return plain(value) if isinstance(value, float | bool) else value


class SearchPart(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a search: its judgement, its scores by outcome, block and arm, and the seconds that it took.

    `failed` counts the failed runs of each arm that has any. `scales` and `margins` are by outcome. `machines` is how
    many machines measured at the same time.
    """

    trial: str
    judgement: Judgement
    scores: Mapping[str, Mapping[int, Mapping[str, float]]]
    visits: int
    seconds: float
    failed: Mapping[str, int] = {}
    directions: Mapping[str, Literal["lower", "higher"]] = {}
    scales: Mapping[str, Literal["log", "count"]] = {}
    margins: Mapping[str, float] = {}
    machines: int = 1


class ProbeRequest(NamedTuple):
    """Points to set once on this machine, before anything is measured."""

    points: tuple[Point, ...]


class ProbeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a probe. `refused` says why each point was refused, null for an accepted point.

    `clamped` has the values that the kernel took instead, for each point.
    `crashed` says of a refused point whether its guest failed. `seconds` is the time of boots and builds for the probe.
    """

    refused: tuple[str | None, ...]
    clamped: tuple[Mapping[str, Scalar], ...]
    crashed: tuple[bool, ...] = ()
    seconds: float = 0.0


class SearchStep(NamedTuple):
    """A trial to run: its protocol, the point of each arm, and whether it runs on all machines of the fleet."""

    kind: StepKind
    file: TrialFile
    points: Mapping[str, Point]
    is_everywhere: bool = False


Request = ProbeRequest | SearchStep
Reply = ProbeReply | SearchPart


class TriedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the history: what it changes, in which order it came, and the search's estimate with a 95 % interval.

    `state` says whether the point was measured, was refused, failed or breaks a guard, and `reason` says why. `others`
    has the estimates for the other outcomes to improve, with their intervals.
    """

    number: int
    changes: Mapping[str, Scalar]
    visits: int
    estimate: float | None
    low: float | None
    high: float | None
    state: Literal["measured", "refused", "failed", "breaks a guard"] = "measured"
    reason: str | None = None
    others: Mapping[str, Interval] = {}


class FrontPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point that no other one beats in all outcomes, by the search's estimates.

    `number` is its place in the history, `arm` its name in the confirming trial, null if that trial left it out.
    `estimates` come from the search, `effects` and `verdicts` from the trial; all map outcomes to values. A point is
    `confirmed` if the trial finds it better in at least one outcome and it breaks no guard. `reason` says why a point
    is not confirmed.
    """

    number: int
    arm: str | None
    changes: Mapping[str, Scalar]
    state: FrontState
    reason: str | None
    estimates: Mapping[str, Interval]
    effects: Mapping[str, Effect | None] = {}
    verdicts: Mapping[str, Verdict | None] = {}

    @property
    def name(self) -> str:
        """The point's name in reports."""
        return self.arm or f"point {self.number}"


class Importance(msgspec.Struct, frozen=True, kw_only=True):
    """How far a dimension alone moves the score, with a 90 % interval.

    A row of `slice` has a value of the dimension, its effect, and the ends of the effect's 95 % interval.
    """

    dimension: str
    range: float
    low: float
    high: float
    slice: tuple[tuple[Scalar, float, float, float], ...]


class CrashRegion(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the space in which every point failed: values of one dimension, from `low` to `high` or listed."""

    dimension: str
    failures: int
    low: float | int | None = None
    high: float | int | None = None
    values: tuple[Scalar, ...] = ()

    def holds(self, value: Scalar) -> bool:
        if self.values:
            return value in self.values
        if not isinstance(value, int | float):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def text(self) -> str:
        if self.values:
            return f"{self.dimension} = {', '.join(map(plain, self.values))}"
        ends = [f"from {plain(self.low)}" if self.low is not None else ""]
        ends.append(f"up to {plain(self.high)}" if self.high is not None else "")
        return f"{self.dimension} {' '.join(one for one in ends if one)}"


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of the winner without the setting of one dimension.

    `verdict` compares the rest with the whole winner, and `removed` says whether the search left the setting out.
    """

    dimension: str
    verdict: Verdict | None
    removed: bool


class SearchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search is after a trial. `best` has the settings of the best point so far, which nothing has confirmed.

    `estimate` is the effect of that point on the score, with a 95 % interval. With several outcomes there is no best
    point; then `front` counts the points that no other point beats.
    """

    event: Literal["search-progress"] = "search-progress"
    trial: str
    points: int
    visits: int
    spent_s: float
    budget_s: float
    direction: Literal["lower", "higher"] | None
    best: Mapping[str, Scalar] = {}
    estimate: Interval | None = None
    front: int = 0


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a search.

    `winner` has the settings to use, empty if nothing was confirmed. `effect` and `verdict` are those of the trial
    `confirmed_by`; `estimate` is what the search itself had estimated for the candidate, with its 95 % interval.
    Effects are in the score, where higher is better. `detectable` is the relative effect that the confirmation would
    have found in 90 % of searches. With several outcomes, `front` has the points to choose from, and `candidate` and
    `winner` are empty; `directions` has the outcomes, the primary one first.
    `needed_s` is the budget that a search needs at least, set only if this one was too small. `machines` counts the
    machines of each trial that a fleet measured.
    """

    schema: Literal["ktrial.search/1"] = "ktrial.search/1"
    name: str
    space: str
    outcome: str | None
    direction: Literal["lower", "higher"] | None
    ending: Ending
    reason: str
    candidate: Mapping[str, Scalar]
    winner: Mapping[str, Scalar]
    kinds: Mapping[str, str]
    estimate: tuple[float, float, float] | None
    effect: Effect | None
    verdict: Verdict | None
    confirmed_by: str | None
    detectable: float | None
    removals: tuple[Removal, ...] = ()
    history: tuple[TriedPoint, ...] = ()
    importance: tuple[Importance, ...] = ()
    crashes: tuple[CrashRegion, ...] = ()
    refused: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    trials: tuple[str, ...] = ()
    runs: int = 0
    seconds: float = 0.0
    needed_s: float | None = None
    in_guests: bool = False
    machines: Mapping[str, int] = {}
    directions: Mapping[str, Literal["lower", "higher"]] = {}
    front: tuple[FrontPoint, ...] = ()

    @property
    def boot_words(self) -> tuple[str, ...]:
        """The winner's kernel arguments as words of `ktrial boot try`."""
        return changes_at_boot(self.winner)

    @property
    def words(self) -> tuple[str, ...]:
        """The winner's knobs as words of `ktrial apply`."""
        return self.words_of(self.winner)

    def words_of(self, changes: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Return the knobs of a point as words of `ktrial apply`."""
        return tuple(f"{name}={plain(value)}" for name, value in changes.items() if self.kinds[name] == "knob")


class SearchState(msgspec.Struct, frozen=True, kw_only=True):
    """A search as it is stored to be resumed, `ktrial.search-state/1`.

    `asked` identifies the command, `kernel` the kernel on which the search began. `probes` are the replies to
    probes; the trials are in the store. `seconds` is how long each trial in guests or on a fleet took, with all boots.
    """

    schema: Literal["ktrial.search-state/1"] = "ktrial.search-state/1"
    question: SearchQuestion
    asked: str
    kernel: str
    probes: tuple[ProbeReply, ...] = ()
    seconds: Mapping[str, float] = {}
    over: bool = False


def crash_regions(space: Space, failed: Sequence[Point], fine: Sequence[Point]) -> tuple[CrashRegion, ...]:
    """Return the parts of the space in which every point failed, unless that may be a coincidence.

    `failed` are the points that failed, and `fine` those that did not. Each failure counts only for
    the part that is least likely to be a coincidence.
    """
    left = list(failed)
    found: dict[str, list[CrashRegion]] = {}
    while True:
        chances = [(_chance(one.failures, len(left), len(fine)), one) for one in _all_failed(space, left, fine)]
        chance, region = min(chances, key=lambda one: one[0], default=(1.0, None))
        if region is None or chance > _COINCIDENCE:
            break
        found.setdefault(region.dimension, []).append(region)
        left = [point for point in left if not region.holds(point[region.dimension])]
    return tuple(region for regions in found.values() for region in _merged(regions))


def _all_failed(space: Space, failed: Sequence[Point], fine: Sequence[Point]) -> Iterator[CrashRegion]:
    """Yield the values, and the ends of ranges, at which several points failed and none worked."""
    for one in space.dimensions:
        bad, good = [point[one.name] for point in failed], [point[one.name] for point in fine]
        if not one.is_range:
            for value in one.values:
                if bad.count(value) >= _CRASHES and value not in good:
                    yield CrashRegion(dimension=one.name, failures=bad.count(value), values=(value,))
            continue
        numbers = [value for value in good if isinstance(value, int | float)]
        if not numbers:
            continue
        above = [value for value in bad if isinstance(value, int | float) and value > max(numbers)]
        below = [value for value in bad if isinstance(value, int | float) and value < min(numbers)]
        if len(above) >= _CRASHES:
            yield CrashRegion(dimension=one.name, failures=len(above), low=min(above))
        if len(below) >= _CRASHES:
            yield CrashRegion(dimension=one.name, failures=len(below), high=max(below))


def _chance(inside: int, failed: int, fine: int) -> float:
    """Return the chance that this many points all failed, if it made no difference where they lie."""
    return math.comb(failed, inside) / math.comb(failed + fine, inside)


def _merged(regions: Sequence[CrashRegion]) -> Iterator[CrashRegion]:
    """Yield the regions of one dimension; listed values are one region."""
    listed = [one for one in regions if one.values]
    yield from (one for one in regions if not one.values)
    if listed:
        values = tuple(value for one in listed for value in one.values)
        failures = sum(one.failures for one in listed)
        yield CrashRegion(dimension=listed[0].dimension, failures=failures, values=values)


#: Failures that make a region at least, and the largest chance that they are a coincidence.
_CRASHES, _COINCIDENCE = 3, 0.05

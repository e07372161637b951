# SPDX-License-Identifier: Apache-2.0
"""A comparison of arms, `ktrial.comparison/1`: what the data support, with everything needed to check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.judge.model.query import AskedComparison
from ktrial.judge.model.trial_summary import ToldTrial
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction, Unit

Role = Literal["primary", "secondary", "guard", "exploratory"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. `place` is its run's place in the order of all runs, from 1, or null if the order is unknown.

    `run` names the run for `ktrial show`, or the file that it was read from and its number there. `conditions` holds
    the known readings of the run by name.
    """

    value: float
    run: str
    place: int | None = None
    block: str | None = None
    temperature_c: float | None = None
    conditions: Mapping[str, float] = {}


class ArmValues(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome in one arm, in the outcome's base unit.

    `sd` and `cv` are null for a single value, `cv` also if the mean is zero.
    """

    arm: str
    n: int
    mean: float
    median: float
    sd: float | None
    cv: float | None
    minimum: float
    maximum: float
    points: tuple[Point, ...]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A tested assumption; `holds` is null if the data cannot decide."""

    name: str
    holds: bool | None
    value: float | None
    sentence: str


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """A named test, and the smallest p that this layout can reach (`floor`).

    `p_adjusted` and `floor_adjusted` are corrected for the number of comparisons.
    """

    name: str
    statistic: str
    value: float
    p: float
    floor: float
    p_adjusted: float | None = None
    floor_adjusted: float | None = None
    checks: tuple[Check, ...] = ()


class MachineEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on one machine. If it cannot be computed, the machine is not pooled, and `why` gives the reason."""

    machine: str
    blocks: int
    effect: Effect | None = None
    why: str | None = None


class Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """The effects on several machines, and the bounds within which the effect on one more machine is expected.

    `tau` is the spread between machines (a standard deviation of logarithms), `i_squared` its share of the scatter.
    All are null if the machines are shown side by side and not pooled.
    """

    machines: tuple[MachineEffect, ...]
    predicted_low: float | None = None
    predicted_high: float | None = None
    tau: float | None = None
    i_squared: float | None = None

    @property
    def together(self) -> tuple[MachineEffect, ...]:
        return tuple(one for one in self.machines if one.effect is not None) if self.tau is not None else ()


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the control in one outcome. `why` gives the reason for the verdict in a few words.

    `pooled` is set for comparisons over several machines; `effect` is then the mean over the machines.
    """

    arm: str
    control: str
    verdict: Verdict
    why: str
    effect: Effect | None
    worth: WorthIt | None
    n_arm: int
    n_control: int
    blocks: int | None
    test: TestResult | None
    cross_checks: tuple[TestResult, ...] = ()
    adjusted: Effect | None = None
    adjusted_for: str | None = None
    sentence: str
    findings: tuple[Finding, ...] = ()
    pooled: Pooled | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of arms in a pairwise comparison; `effect` is the effect of `second` relative to `first`."""

    first: str
    second: str
    effect: Effect
    statistic: float
    p_adjusted: float
    differs: bool


class Pairwise(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of arms, compared by one method (Tukey HSD, Games-Howell, Dunnett)."""

    method: str
    statistic: str
    pairs: tuple[Pair, ...]


class AnovaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One source of variation in an analysis of variance; `f` and `p` are null for the residual and without noise."""

    source: str
    df: float
    sum_of_squares: float
    mean_square: float
    f: float | None
    p: float | None


class Anova(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis of variance on the scale of the effects."""

    name: str
    rows: tuple[AnovaRow, ...]
    note: str | None = None


class OutcomeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of one benchmark. `margin` is the smallest relative difference that matters (0.02 is 2 %).

    `direction` is null if it is unknown which way is better; differences then get no verdict.
    `steps` compare each tier with the tier before it, the first tier with the control.
    `same_as` names outcomes with the same information (a reciprocal, a fixed multiple), which are not shown.
    `better`, `worse` and `blind_spots` are the catalog's sentences on the outcome, empty if there are none.
    `at_equal` names the covariates for which the effects and verdicts are adjusted.
    """

    benchmark: str
    outcome: str
    unit: Unit
    direction: Direction | None
    role: Role
    margin: float
    arms: tuple[ArmValues, ...]
    contrasts: tuple[Contrast, ...]
    anova: tuple[Anova, ...] = ()
    pairwise: tuple[Pairwise, ...] = ()
    steps: tuple[Contrast, ...] = ()
    same_as: tuple[str, ...] = ()
    better: str = ""
    worse: str = ""
    blind_spots: str = ""
    findings: tuple[Finding, ...] = ()
    # Absent by default, so that earlier comparisons keep their bytes.
    at_equal: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def rules(self) -> str:
        """Return how the outcome was judged: the better direction, the margin, and the covariates taken as equal."""
        way = "nobody said which way is better" if self.direction is None else f"{self.direction} is better"
        equal = f"; judged at equal {' and '.join(self.at_equal)}" if self.at_equal else ""
        return f"{way}; differences below {100 * self.margin:g} % do not matter{equal}"

    @property
    def name(self) -> str:
        return f"{self.benchmark}.{self.outcome}"

    @property
    def judged(self) -> tuple[Contrast, ...]:
        """Return every contrast once, including each tier against the tier before it."""
        return (*self.contrasts, *(step for step in self.steps if step not in self.contrasts))


class ArmSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runs of an arm come from, and known facts by name: kernel, machine, tool, start conditions.

    `missing` holds requested benchmarks that have no value in this arm, and why.
    """

    arm: str
    sources: tuple[str, ...]
    runs: int
    failed: int
    void: int
    boots: int | None
    machines: int | None
    known: Mapping[str, str] = {}
    missing: Mapping[str, str] = {}


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference in tunable state between the control and an arm; `declared` names its declaration, if any."""

    arm: str
    name: str
    control_value: str | None
    arm_value: str | None
    declared: str | None


class Exclusion(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that were excluded after their values were known.

    `changed` names the outcomes whose verdict depends on the exclusion, `moved` the outcomes whose interval depends on
    it.
    """

    what: str
    reason: str
    runs: tuple[str, ...]
    changed: tuple[str, ...]
    moved: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A whole comparison.

    `answer` is the sentence that a careful person would sign, `scope` how far the result holds. `accepted` is the
    user's reason for comparing despite a refusal. `without` is the same comparison without exclusions, null if nothing
    was excluded. `reproduce` are commands that compute the comparison again. `protocol` is what was fixed before the
    first run, `protocol_sha256` its hash; both are empty without a protocol. `asked` is the question, with its digest,
    that `ktrial recheck` asks again. `trial` holds the details of a trial, null for other data. `writer` is the digest
    of the code that wrote the sentences.
    """

    schema: Literal["ktrial.comparison/1"] = "ktrial.comparison/1"
    title: str
    answer: str
    scope: str
    control: str
    arms: tuple[ArmSource, ...]
    outcomes: tuple[OutcomeComparison, ...]
    findings: tuple[Finding, ...]
    state_changes: tuple[StateChange, ...] = ()
    accepted: str | None = None
    exclusions: tuple[Exclusion, ...] = ()
    without: Comparison | None = None
    reproduce: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    protocol: Mapping[str, Any] = {}
    protocol_sha256: str | None = None
    asked: AskedComparison | None = None
    asked_sha256: str | None = None
    trial: ToldTrial | None = None
    writer: str | None = None

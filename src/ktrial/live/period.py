# SPDX-License-Identifier: Apache-2.0
"""A period of live work as a run: the observations of its sources, its record, and how its numbers are read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ktrial.bench.benchmark import Invocation, ParsedRun, Probe, RawOutput
from ktrial.bench.outcomes import outcome
from ktrial.judge.model.log import OTHER_STORE
from ktrial.kit.errors import BadRun, in_lower_case
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.live.model import Sample, StretchReading
from ktrial.machine.facts import FactBook
from ktrial.trial.protocol.live import LIVE, RATING

#: The file in a period's raw output with the observations of the sources.
PERIOD_FILE = "period.json"
#: The file beside the first period with the usual values of the control: samples by metric.
USUAL_FILE = "usual.json"
WORST, BEST = 1, 5
RATED = outcome(
    RATING,
    "score",
    "score",
    "The person rated it [better|worse].",
    "One person's impression, from 1 to 5.",
    (WORST, BEST),
    direction="higher",
)


class SeenMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric in one period: its value over the watched stretch, and every sample since the switch."""

    outcome: Outcome
    reading: StretchReading
    samples: tuple[Sample, ...] = ()
    covariate: bool = False


class SeenPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A whole period from `switched_unix_ms`, and the stretch in it that ktrial watched.

    `is_switch` is true if the arm changed at the beginning of the period.
    """

    is_switch: bool
    switched_unix_ms: int
    begin_unix_ms: int
    end_unix_ms: int
    metrics: Mapping[str, SeenMetric]
    rating: int | None = None


def measurements_in(seen: SeenPeriod) -> tuple[Measurement, ...]:
    """Return the measurements of a period; a metric without a value has none."""
    found = [
        Measurement(outcome=one.outcome.name, value=one.reading.value, original=repr(one.reading.value))
        for one in seen.metrics.values()
        if not one.covariate and one.reading.value is not None
    ]
    if seen.rating is not None:
        found.append(Measurement(outcome=RATING, value=float(seen.rating), original=str(seen.rating)))
    return tuple(found)


def details_of(seen: SeenPeriod) -> dict[str, Any]:
    """Return what the record of a period stores besides its measurements."""
    covariates = {name: one.reading.value for name, one in seen.metrics.items() if one.covariate}
    missing = {name: one.reading.why or "" for name, one in seen.metrics.items() if one.reading.value is None}
    bounds = {
        one.outcome.name: [one.reading.low, one.reading.high]
        for one in seen.metrics.values()
        if one.reading.low is not None or one.reading.high is not None
    }
    found: dict[str, Any] = {
        "begin_unix_ms": seen.begin_unix_ms,
        "end_unix_ms": seen.end_unix_ms,
        "is_switch": seen.is_switch,
        "readings": {name: one.reading.samples for name, one in seen.metrics.items()},
        "events": {
            one.outcome.name: one.reading.samples
            for one in seen.metrics.values()
            if one.outcome.kind == "latency-quantile" and not one.covariate
        },
    }
    versions = {name: one.reading.version for name, one in seen.metrics.items() if one.reading.version is not None}
    more = {"covariates": covariates, "missing": missing, "bounds": bounds, "versions": versions}
    return found | {name: value for name, value in more.items() if value}


class LiveBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a live trial, as the benchmark of its runs; implements `Benchmark`."""

    outcomes: tuple[Outcome, ...]

    name: ClassVar[str] = LIVE
    what: ClassVar[str] = "Live work, watched for a period."
    needs: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[Mapping[str, str]] = {}
    root_reason: ClassVar[str | None] = None
    user_reason: ClassVar[str | None] = None
    least_cpus: ClassVar[int] = 1
    probe: ClassVar[Probe | None] = None
    parameters: ClassVar[Mapping[str, Any]] = {}

    def invocation(self, parameters: Mapping[str, Any], facts: FactBook) -> Invocation:
        return Invocation(limit_s=0.0)

    def version_invocation(self) -> Invocation | None:
        return None

    def parse_version(self, raw: RawOutput) -> str | None:
        return None

    def parse(self, raw: RawOutput, parameters: Mapping[str, Any]) -> ParsedRun:
        """Return the measurements of a stored period."""
        seen = read_period(raw.files)
        return ParsedRun(measurements=measurements_in(seen), details=details_of(seen))


def live_benchmark(outcomes: Sequence[Outcome], *, rated: bool) -> LiveBenchmark:
    """Return the benchmark with these outcomes and, if `rated`, a rating; the first outcome is the headline."""
    every = (*outcomes, RATED) if rated else tuple(outcomes)
    return LiveBenchmark(outcomes=(msgspec.structs.replace(every[0], headline=True), *every[1:]))


def read_period(files: Mapping[str, bytes]) -> SeenPeriod:
    """Return the period in the raw output of a run. Raise BadRun if there is none."""
    if PERIOD_FILE not in files:
        raise BadRun("the run has no readings of its period", hint=OTHER_STORE)
    try:
        return msgspec.json.decode(files[PERIOD_FILE], type=SeenPeriod)
    except msgspec.DecodeError as error:
        why = in_lower_case(str(error))
        raise BadRun(f"cannot read the stored period of this run: {why}", hint=OTHER_STORE) from None


def read_usual(raw: bytes) -> dict[str, list[Sample]]:
    """Return the control's samples from before the first block, by metric. Raise BadRun if they cannot be read."""
    try:
        return msgspec.json.decode(raw, type=dict[str, list[Sample]])
    except msgspec.DecodeError as error:
        raise BadRun(
            f"cannot read the control's values from before the first block: {in_lower_case(str(error))}",
            hint=OTHER_STORE,
        ) from None


def outcomes_seen(seen: SeenPeriod) -> dict[str, Outcome]:
    """Return the outcomes of a stored period by name."""
    found = {one.outcome.name: one.outcome for one in seen.metrics.values() if not one.covariate}
    return found if seen.rating is None else {**found, RATING: RATED}

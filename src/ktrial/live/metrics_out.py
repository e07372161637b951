# SPDX-License-Identifier: Apache-2.0
"""The metrics of a running trial for a monitoring system, as OpenMetrics or in Prometheus's text format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from ktrial.judge.model.judgement import Guard, Judgement, OutcomeJudgement
from ktrial.judge.model.log import Protocol
from ktrial.judge.model.verdict import Verdict
from ktrial.kit.plain_text import plain
from ktrial.trial.run.events import ArmInForce, BlockEnded, TrialEnded, TrialEvent, VisitBegan, VisitEnded, VisitWaits

OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: `ended`: no visit follows. `failed`: an error stopped the trial.
TrialState = Literal["running", "waiting", "ended", "interrupted", "failed"]
_STATES: tuple[TrialState, ...] = get_args(TrialState)
_GUARDS: tuple[Guard, ...] = get_args(Guard)
#: Verdicts of randomised trials; `open` until there is one.
_VERDICTS: tuple[Verdict | Literal["open"], ...] = (
    "open",
    "better",
    "worse",
    "equivalent",
    "inconclusive",
    "not comparable",
)
#: The factor of a larger logarithm would overflow.
_LARGEST = 700.0


class TrialFigures:
    """The state of one trial, updated by the trial's events. With `blind`, no arm is named until the trial is over."""

    def __init__(
        self, trial: str, protocol: Protocol, now_s: float, judgement: Judgement | None = None, *, blind: bool = False
    ) -> None:
        self.trial = trial
        self.protocol = protocol
        self.judgement = judgement
        self.state: TrialState = "running"
        self.arm: str | None = None
        self.runs = self.failed_runs = self.void_runs = 0
        self.changed_s = now_s
        self._is_blind = blind

    def take(self, event: TrialEvent, now_s: float) -> None:
        self.changed_s = now_s
        if isinstance(event, ArmInForce):
            self.arm = event.arm
        elif isinstance(event, VisitWaits):
            self.state = "waiting"
        elif isinstance(event, VisitBegan):
            self.state = "running"
        elif isinstance(event, VisitEnded):
            self.state = "running"
            self.runs += 1
            self.failed_runs += event.failure is not None
            self.void_runs += event.void is not None
        elif isinstance(event, BlockEnded):
            self.judgement = event.judgement
        elif isinstance(event, TrialEnded):
            self.end("interrupted" if event.interrupted else "ended", now_s)
            self.judgement = event.judgement

    def end(self, state: TrialState, now_s: float) -> None:
        """Record `state`, and that no arm of the trial is in force any more."""
        self.state, self.arm, self.changed_s = state, None, now_s

    @property
    def hides_arms(self) -> bool:
        return self._is_blind and self.state != "ended"


class MetricFamily(NamedTuple):
    """One metric: its name, its OpenMetrics type, its help text, and its samples with their labels."""

    name: str
    kind: Literal["gauge", "info", "stateset"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]

    def lines(self, *, open_metrics: bool) -> Iterator[str]:
        """Yield the metric's lines. Prometheus's own format has neither infos nor statesets; both become gauges."""
        sample = f"{self.name}_info" if self.kind == "info" else self.name
        header = self.name if open_metrics else sample
        yield f"# HELP {header} {self.help}"
        yield f"# TYPE {header} {self.kind if open_metrics else 'gauge'}"
        for labels, value in self.samples:
            written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{sample}{{{written}}} {_number(value)}"


def metrics_text(figures: TrialFigures | None, *, open_metrics: bool = True) -> str:
    """Return all metrics as OpenMetrics, or in the older text format that node_exporter's collector reads."""
    lines = [
        line
        for family in (() if figures is None else families(figures))
        if family.samples
        for line in family.lines(open_metrics=open_metrics)
    ]
    return "".join(f"{line}\n" for line in (*lines, *(("# EOF",) if open_metrics else ())))


def families(figures: TrialFigures) -> Iterator[MetricFamily]:
    """Yield the metrics of a trial. While the arms must stay hidden, leave out all metrics about arms.

    A metric with an unknown value has no sample.
    """
    own = {"trial": figures.trial}
    protocol, judgement = figures.protocol, figures.judgement
    about = {**own, "name": protocol.name, "primary": protocol.primary, "control": protocol.control}
    yield MetricFamily("ktrial_trial", "info", "The trial that ktrial runs.", [(about, 1)])
    states = _set(own, "ktrial_trial_state", _STATES, figures.state)
    yield MetricFamily("ktrial_trial_state", "stateset", "What the trial does now.", states)
    if not figures.hides_arms:
        arms = [({**own, "arm": arm.name}, float(arm.name == figures.arm)) for arm in protocol.arms]
        yield MetricFamily("ktrial_trial_arm_in_force", "gauge", "Whether this arm is in force now.", arms)
    blocks = 0 if judgement is None else judgement.blocks
    voided = 0 if judgement is None else judgement.voided
    cap = protocol.cap if judgement is None else judgement.cap
    yield MetricFamily("ktrial_trial_blocks", "gauge", "Complete blocks.", [(own, blocks)])
    yield MetricFamily("ktrial_trial_void_blocks", "gauge", "Blocks that do not count.", [(own, voided)])
    most = [] if cap is None else [(own, float(cap))]
    yield MetricFamily("ktrial_trial_most_blocks", "gauge", "Blocks after which the trial ends at the latest.", most)
    runs = [
        ({**own, "result": "good"}, figures.runs - figures.failed_runs - figures.void_runs),
        ({**own, "result": "failed"}, figures.failed_runs),
        ({**own, "result": "void"}, figures.void_runs),
    ]
    yield MetricFamily("ktrial_trial_runs", "gauge", "Runs or periods since this process began.", runs)
    if judgement is not None and not figures.hides_arms:
        yield from _outcomes(own, [one for one in judgement.judged if one.role != "exploratory"])
    changed = [(own, figures.changed_s)]
    yield MetricFamily("ktrial_trial_changed_timestamp_seconds", "gauge", "When these figures last changed.", changed)


def effect_of(judged: OutcomeJudgement) -> tuple[float, float | None, float | None] | None:
    """Return the effect and its interval as a share, or in the outcome's unit; above zero if the arm is better.

    Return None if there is no effect yet.
    """
    effect = judged.effect
    if effect is None:
        return None
    if effect.scale != "log":
        return effect.estimate, effect.low, effect.high
    low, high = (None if end is None else _share(end) for end in (effect.low, effect.high))
    return _share(effect.estimate), low, high


def _outcomes(own: Mapping[str, str], judged: Iterable[OutcomeJudgement]) -> Iterator[MetricFamily]:
    effects, lows, highs, verdicts, guards = [], [], [], [], []
    for one in judged:
        about = {**own, "outcome": one.outcome, "role": one.role, "arm": one.arm, "against": one.against}
        verdicts += _set(about, "ktrial_trial_verdict", _VERDICTS, one.verdict or "open")
        if one.guard is not None:
            guards += _set(about, "ktrial_trial_guard", _GUARDS, one.guard)
        found = effect_of(one)
        if found is None or one.effect is None:
            continue
        about = {**about, "scale": "share" if one.effect.scale == "log" else "difference"}
        effects.append((about, found[0]))
        lows += [] if found[1] is None else [(about, found[1])]
        highs += [] if found[2] is None else [(about, found[2])]
    better = "above zero is better; a share, or the outcome's unit if scale is difference."
    yield MetricFamily("ktrial_trial_effect", "gauge", f"How much better the arm is: {better}", effects)
    yield MetricFamily("ktrial_trial_effect_low", "gauge", f"Lower end of the effect's interval: {better}", lows)
    yield MetricFamily("ktrial_trial_effect_high", "gauge", f"Upper end of the effect's interval: {better}", highs)
    yield MetricFamily("ktrial_trial_verdict", "stateset", "The verdict of this arm and outcome.", verdicts)
    yield MetricFamily("ktrial_trial_guard", "stateset", "Whether the arm is worse than this guard allows.", guards)


def _set(
    labels: Mapping[str, str], name: str, words: Sequence[str], current: str
) -> list[tuple[Mapping[str, str], float]]:
    """Return the samples of a stateset: one for each word, under the label `name`. The current word has the value 1."""
    return [({**labels, name: word}, float(word == current)) for word in words]


def _share(log_ratio: float) -> float:
    return math.expm1(min(log_ratio, _LARGEST))


def _number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

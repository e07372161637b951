# SPDX-License-Identifier: Apache-2.0
"""What a live trial tells beside its verdicts."""

from __future__ import annotations

import random

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.judge import judge
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.live.account import with_account
from ktrial.live.model import LiveMetric
from ktrial.live.period import PERIOD_FILE, SeenPeriod, read_period
from ktrial.live.sampling import WatchedMetric
from ktrial.trial.protocol.live import LiveFile
from ktrial.trial.run.records import contradicted
from tests.support.live_trials import LATENCY, LiveTrial, ToldSource


def told(trial: LiveTrial, live: LiveFile) -> Comparison:
    """The comparison of a trial that has run, with nothing but its primary outcome."""
    (judged,) = judge(trial.log).judged
    contrast = Contrast(
        arm="case",
        control="control",
        verdict=judged.verdict or "inconclusive",
        why="",
        effect=judged.effect,
        worth=None,
        n_arm=9,
        n_control=9,
        blocks=9,
        test=None,
        sentence="",
    )
    outcome = OutcomeComparison(
        benchmark="live",
        outcome="latency",
        unit="s",
        direction="lower",
        role="primary",
        margin=0.02,
        arms=(),
        contrasts=(contrast,),
    )
    bare = Comparison(title="", answer="", scope="", control="control", arms=(), outcomes=(outcome,), findings=())
    return with_account(bare, live, trial.log, seen_of(trial))


def seen_of(trial: LiveTrial) -> dict[int, SeenPeriod]:
    stored: list[tuple[RunRecord, bytes]] = [
        (record, parts[f"files/{PERIOD_FILE}"])
        for record, parts in zip(trial.store.records, trial.store.parts, strict=True)
    ]
    return {record.run: read_period({PERIOD_FILE: raw}) for record, raw in stored if not record.void}


def test_an_effect_that_stays_after_undo_is_named() -> None:
    noise = random.Random(3)
    last = {"value": 60, "before": 60, "at": 0.0}

    def lasting(now_s: float, swappiness: int) -> float:
        """The case is a fifth faster, and for 12 s after it half of that stays."""
        if swappiness != last["value"]:
            last.update(before=last["value"], value=swappiness, at=now_s)
        stays = 0.9 if last["before"] == 10 and now_s - last["at"] < 12 else 1.0
        return (0.8 if swappiness == 10 else stays) * noise.lognormvariate(0, 0.01)

    trial = LiveTrial(lasting, cap=20)
    trial.protocol = msgspec.structs.replace(trial.protocol, fixed=True)
    trial.logs.events[0] = trial.protocol
    trial.run()
    (contrast,) = told(trial, LiveFile(washout="2s")).outcomes[0].contrasts
    assert "effect-after-undo" in {one.kind for one in contrast.findings}


def test_the_effect_at_equal_load_stands_beside_the_raw_one() -> None:
    noise = random.Random(5)
    load = {"now": 100.0, "until": 0.0}

    def busy(now_s: float, swappiness: int) -> float:
        """The latency follows the load, which changes every 12 s."""
        if now_s >= load["until"]:
            load.update(now=100 + 40 * noise.random(), until=now_s + 12)
        return (0.9 if swappiness == 10 else 1.0) * (load["now"] / 100) * noise.lognormvariate(0, 0.002)

    trial = LiveTrial(busy, cap=20)
    trial.protocol = msgspec.structs.replace(trial.protocol, fixed=True)
    trial.logs.events[0] = trial.protocol
    rps = WatchedMetric(
        LiveMetric("rps", "higher", "told:"), ToldSource(trial.clock, lambda: load["now"], "rps"), covariate=True
    )
    trial.covariates = [rps]
    trial.run()
    (contrast,) = told(trial, LiveFile(washout="2s")).outcomes[0].contrasts
    assert contrast.adjusted_for == "rps"
    assert contrast.adjusted is not None
    assert contrast.effect is not None
    assert abs(contrast.adjusted.estimate - 0.105) < 0.02
    widths = [(one.high or 0.0) - (one.low or 0.0) for one in (contrast.adjusted, contrast.effect)]
    assert widths[0] < widths[1] / 3
    assert LATENCY in trial.runs[0].measurements
    assert "live.rps" not in trial.runs[0].measurements
    assert set(trial.runs[0].covariates or {}) == {"rps"}

    assert list(contradicted(trial.log, trial.store.records, "f" * 64)) == []
    forged = msgspec.structs.replace(trial.runs[0], covariates={"rps": 1.0})
    log = [forged if one == trial.runs[0] else one for one in trial.log]
    told_of = list(contradicted(log, trial.store.records, "f" * 64))
    assert told_of == [(forged.run, "the covariates in the log differ from those in the record")]

    judged_at_equal = LiveFile(washout="2s", covariates=("rps:higher=told:",), adjust=True)
    trial.logs.events[0] = msgspec.structs.replace(trial.protocol, adjust=("rps",))
    (outcome,) = told(trial, judged_at_equal).outcomes
    assert outcome.rules.endswith("; judged at equal rps")
    (contrast,) = outcome.contrasts
    assert contrast.adjusted is None
    (note,) = (one for one in contrast.findings if one.kind == "equal-covariates")
    assert note.sentence.startswith("the verdict is at equal rps; as measured, the change of case is ")


def test_what_a_switch_itself_costs_is_told_if_it_was_asked() -> None:
    last = {"value": 60, "at": -9.0}

    def stalls(now_s: float, swappiness: int) -> float:
        if swappiness != last["value"]:
            last.update(value=swappiness, at=now_s)
        return 3.0 if now_s - last["at"] < 0.9 else 1.0

    trial = LiveTrial(stalls)
    trial.run()
    assert told(trial, LiveFile(washout="2s")).findings == ()
    (cost,) = told(trial, LiveFile(washout="2s", disturbing=True)).findings
    assert cost.kind == "switch-cost"
    assert "% worse" in cost.sentence

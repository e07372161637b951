# SPDX-License-Identifier: Apache-2.0
"""Periods of live work as the visits of a trial: what is switched, watched, dropped and void."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import msgspec
import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.judge.model.log import Event, TrialEnd
from ktrial.kit.errors import KtrialError, LimitPassed
from ktrial.live.guard import Guard, GuardWatch
from ktrial.live.model import LiveMetric, Sample
from ktrial.live.period import live_benchmark
from ktrial.live.sampling import WatchedMetric
from ktrial.trial.protocol.live import parse_quiet
from ktrial.trial.run.events import PeriodPhase, VisitWaits
from tests.support.live_trials import LiveTrial, ToldSource, in_utc
from tests.support.trial_course import FOUND, SWAPPINESS, Killed, Logs


def better(now_s: float, swappiness: int) -> float:
    """A fifth faster with the setting, with noise that the time alone decides."""
    return (1.0 if swappiness == 60 else 0.8) * (1 + (int(now_s) * 37 % 7) / 1000)


def test_an_effect_is_found_and_everything_is_restored() -> None:
    trial = LiveTrial(better)
    judgement = trial.run()
    (judged,) = judgement.judged
    assert judged.verdict == "better"
    assert trial.machine.files == FOUND
    assert not trial.source.is_open
    assert trial.noted[-1].startswith("restored")


def test_an_arm_stays_in_force_between_two_periods_of_the_same_arm() -> None:
    trial = LiveTrial(better)
    trial.run()
    arms = [run.arm for run in trial.runs]
    switches = sum(one != other for one, other in zip(["control", *arms], arms, strict=False))
    assert any(one == other for one, other in itertools.pairwise(arms))
    # Each switch to the case is one transaction, and its end another.
    assert len(trial.machine.history) == switches + (arms[-1] == "case")


def test_an_arm_that_stays_is_switched_once_and_its_periods_begin_with_slots_of_the_clock() -> None:
    trial = LiveTrial(better, stays="case")
    trial.clock.offset_ms += 4_321
    trial.run()
    assert {run.arm for run in trial.runs} == {"control", "case"}
    assert all(run.measurements["live.latency"] < 0.81 for run in trial.runs)
    assert len(trial.machine.history) == 2
    assert trial.machine.files == FOUND
    begins = [record.details["begin_unix_ms"] for record in trial.store.records]
    assert all((one + 1) % 11_000 <= 1 for one in begins)
    assert {round((after - before) / 1000) for before, after in itertools.pairwise(begins)} == {11}
    # The washout follows the only switch.
    assert begins[0] - trial.store.records[0].started_unix_ms >= 2_000


def test_what_comes_within_the_washout_is_dropped() -> None:
    switched: dict[str, float] = {"at": 0.0, "to": 60}

    def slow_to_settle(now_s: float, swappiness: int) -> float:
        if swappiness != switched["to"]:
            switched.update(at=now_s, to=swappiness)
        return 1.0 + (50.0 if now_s - switched["at"] < 0.9 else 0.0) + int(now_s) % 3 / 1000

    trial = LiveTrial(slow_to_settle)
    trial.run()
    assert all(run.measurements["live.latency"] < 1.01 for run in trial.runs)


class SeeingLogs(Logs):
    """Also keeps the value that was in force at each event."""

    def __init__(self, trial: LiveTrial) -> None:
        super().__init__(trial.protocol)
        self._trial = trial
        self.seen: list[int] = []

    def append(self, trial: str, events: Sequence[Event]) -> None:
        self.seen.append(self._trial.swappiness)
        super().append(trial, events)


def test_a_limit_ends_the_trial_within_a_sample_and_restores_first() -> None:
    trial = LiveTrial(lambda now_s, swappiness: 1.0 if swappiness == 60 else 9.0, limits={"latency_s": 5.0})
    trial.logs = logs = SeeingLogs(trial)
    with pytest.raises(LimitPassed, match=r"latency_s is 9 \(limit 5\)"):
        trial.run()
    assert logs.seen[-1] == 60
    assert isinstance(trial.log[-1], TrialEnd)
    assert "latency_s" in trial.log[-1].reason
    assert trial.clock.now_s < 14


class Trip:
    sentence = "latency_s is surely worse"


class OnThird:
    """Trips at the third batch of samples of the case."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.settling: set[bool] = set()
        self.periods: list[str] = []

    def begin_period(self, arm: str) -> None:
        self.periods.append(arm)

    def take(self, metric: str, arm: str, samples: Sequence[Sample], *, settling: bool = False) -> Trip | None:
        assert arm == self.periods[-1]
        self.taken.append(arm)
        self.settling.add(settling)
        return Trip() if self.taken.count("case") == 3 else None

    def end_block(self) -> None:
        raise AssertionError("the first block is not over")

    def drop_block(self) -> None:
        raise AssertionError("no block is void")


def test_a_guard_looks_at_every_sample_and_ends_the_trial() -> None:
    trial = LiveTrial(better)
    trial.guard = guard = OnThird()
    with pytest.raises(LimitPassed, match="surely worse"):
        trial.run()
    assert trial.machine.files == FOUND
    assert trial.log[-1] == TrialEnd(reason="stopped: latency_s is surely worse")
    assert guard.settling == {True, False}


def slow_loss(now_s: float, swappiness: int) -> float:
    """A tenth slower with the setting, which only whole blocks show."""
    return (1.0 if swappiness == 60 else 1.1) * (1 + (int(now_s) * 37 % 7) / 50)


def guarded(value: Callable[[float, int], float]) -> LiveTrial:
    """A trial of enough blocks whose guard allows a loss of 5 %."""
    trial = LiveTrial(value, cap=50)
    trial.logs.events[0] = trial.protocol = msgspec.structs.replace(trial.protocol, fixed=True)
    watch_anew(trial)
    return trial


def watch_anew(trial: LiveTrial) -> None:
    """Begin with guards that know nothing, as another process does."""
    guard = Guard(metric="latency_s", direction="lower", margin=0.05)
    trial.guard = GuardWatch([guard], ["control", "case"], "control", blocks=50, samples=10)


@pytest.mark.parametrize("killed_at_s, voids", [(199.0, 0), (209.0, 1)])
def test_guards_know_after_a_kill_what_they_knew_before(killed_at_s: float, voids: int) -> None:
    whole = guarded(slow_loss)
    with pytest.raises(LimitPassed, match=r"worse by .* over [0-9]+ blocks") as at_once:
        whole.run()
    trial = guarded(slow_loss)

    def die() -> None:
        trial.logs.life.last = trial.store.life.last = trial.machine.life.last = 0

    trial.clock.at(killed_at_s, die)
    with pytest.raises(Killed):
        trial.run()
    for one in (trial.logs, trial.store, trial.machine):
        one.life.last = None
    trial.machine.files.update(FOUND)
    watch_anew(trial)
    with pytest.raises(LimitPassed) as later:
        trial.run()
    assert trial.voids == ["the trial was interrupted within the block"] * voids
    counted = re.compile(r"over ([0-9]+) blocks")
    blocks = [int(found[1]) for one in (at_once, later) if (found := counted.search(one.value.message))]
    assert 8 < blocks[0] <= blocks[1] <= blocks[0] + 2
    assert trial.swappiness == 60


def test_silence_for_most_of_a_period_voids_the_block_and_is_not_zero() -> None:
    trial = LiveTrial(lambda now_s, swappiness: None if 5 < now_s < 13 else better(now_s, swappiness))
    trial.run()
    assert trial.voids == ["latency_s is missing: it gave no value for 7 s of 10 s"]
    assert all(run.measurements["live.latency"] > 0.7 for run in trial.runs)


@pytest.mark.parametrize("adjusts", [False, True])
def test_a_covariate_that_is_judged_by_must_have_a_value(adjusts: bool) -> None:
    trial = LiveTrial(better, adjusts=adjusts)
    load = ToldSource(trial.clock, lambda: None if 5 < trial.clock.now_s < 13 else 7.0, "load")
    trial.covariates = [WatchedMetric(LiveMetric("load", "lower", "told:"), load, covariate=True)]
    trial.run()
    assert trial.voids == ["load is missing: it gave no value for 7 s of 10 s"] * adjusts


def test_no_block_begins_while_nobody_produces_values() -> None:
    trial = LiveTrial(lambda now_s, swappiness: None if now_s < 3600 else better(now_s, swappiness))
    trial.run()
    assert trial.voids == []
    assert [one.waiting for one in trial.told if isinstance(one, VisitWaits)] == ["waiting for values of latency_s"]
    assert trial.store.records[0].started_unix_ms - trial.clock.offset_ms >= 3_600_000


@pytest.mark.parametrize(
    "happens, reason",
    [
        ("version", "the version changed from 1 to 2"),
        ("clock", "the clock stepped by +30.0 s"),
        ("sleep", "the machine slept for 40.0 s"),
        ("knob", "vm.swappiness"),
    ],
)
def test_what_happens_to_the_machine_voids_the_block(happens: str, reason: str) -> None:
    trial = LiveTrial(better)
    versions = ["1"]
    trial.source.version = lambda: versions[-1]

    def happen() -> None:
        if happens == "version":
            versions.append("2")
        elif happens == "clock":
            trial.clock.offset_ms += 30_000
        elif happens == "sleep":
            trial.clock.asleep_s += 40
            trial.clock.offset_ms += 40_000
        else:
            trial.machine.files[SWAPPINESS] = "33\n"

    trial.clock.at(15.0, happen)
    trial.run()
    assert any(reason in one for one in trial.voids), trial.voids
    assert happens == "knob" or len({run.block for run in trial.runs} - {1}) >= 7


def test_a_paused_trial_restores_everything_and_goes_on_later() -> None:
    trial = LiveTrial(better)
    found: list[int] = []
    trial.clock.at(30.0, lambda: setattr(trial, "wanted", "pause"))
    trial.clock.at(100.0, lambda: found.append(trial.swappiness))
    trial.clock.at(200.0, lambda: setattr(trial, "wanted", "run"))
    judgement = trial.run()
    assert found == [60]
    assert trial.voids == ["the trial was paused"]
    assert judgement.judged[0].verdict == "better"


def test_a_stopped_trial_restores_everything_and_can_be_continued() -> None:
    trial = LiveTrial(better)
    trial.clock.at(40.0, lambda: setattr(trial, "wanted", "stop"))
    trial.run()
    assert trial.machine.files == FOUND
    assert not isinstance(trial.log[-1], TrialEnd)
    trial.wanted = "run"
    assert trial.run().judged[0].verdict == "better"
    assert "interrupted" in "".join(trial.voids) or not trial.voids


def test_nobody_learns_the_arm_of_a_blind_trial() -> None:
    trial = LiveTrial(better, blind=True)
    trial.run()
    assert {one.arm for one in trial.told if isinstance(one, PeriodPhase)} == {None}
    assert not any("case" in one or "swappiness" in one for one in trial.noted)


def test_a_full_disk_here_ends_the_trial_with_everything_restored() -> None:
    trial = LiveTrial(better)
    trial.store.room = 3
    with pytest.raises(KtrialError, match="No space left on device"):
        trial.run()
    assert trial.machine.files == FOUND
    assert not trial.source.is_open
    trial.store.room = 1000
    assert trial.run().judged[0].verdict == "better"


def test_a_trial_ends_before_a_block_that_its_time_does_not_hold() -> None:
    trial = LiveTrial(lambda now_s, swappiness: 1.0 + int(now_s) * 37 % 7 / 100, for_s=100.0)
    trial.run()
    assert trial.log[-1] == TrialEnd(reason="no time is left for another block")
    assert trial.clock.now_s <= 100


def test_a_stored_period_is_read_again() -> None:
    trial = LiveTrial(better)
    trial.run()
    for record, parts in zip(trial.store.records, trial.store.parts, strict=True):
        raw = RawOutput(files={name.removeprefix("files/"): data for name, data in parts.items()})
        benchmark = live_benchmark([trial.source.outcome], rated=False)
        parsed = benchmark.parse(raw, {})
        assert [one.value for one in parsed.measurements] == [one.value for one in record.measurements]
        assert parsed.details == record.details


def test_nothing_is_switched_in_quiet_hours() -> None:
    trial = LiveTrial(better)
    # The first block ends at noon and a minute; a second one would reach into the quiet hours.
    trial.pace["quiet"] = parse_quiet("12:01-14:00")
    quiet: list[int] = []
    for second in range(70, 7190, 60):
        trial.clock.at(float(second), lambda: quiet.append(trial.swappiness))
    with in_utc():
        trial.run()
    assert set(quiet) == {60}
    assert trial.voids == []
    waits = [one.waiting for one in trial.told if isinstance(one, VisitWaits)]
    assert waits[0] == "quiet hours begin before a block would be over; waiting until 14:00"


def test_each_metric_may_have_a_version_of_its_own() -> None:
    trial = LiveTrial(better)
    trial.source.version = lambda: "1"
    other = ToldSource(trial.clock, lambda: 1.0, "other")
    other.version = lambda: "2"
    trial.covariates = [WatchedMetric(LiveMetric("other_s", "lower", "told:"), other, covariate=True)]
    trial.run()
    assert trial.voids == []

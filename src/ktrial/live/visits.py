# SPDX-License-Identifier: Apache-2.0
"""The visits of a live trial: during each, an arm is in force for a period of live work, which ktrial watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple
from typing import Protocol as Port

import msgspec

from ktrial.bench.record import Artefact, Exit, KeptMeasurement, Resources, RunRecord, TrialPlace
from ktrial.bench.run.ports import RunStore
from ktrial.judge.model.judgement import NextStep
from ktrial.judge.model.log import BlockVoided, RunEnded, TrialEnd
from ktrial.kit.errors import GuardTripped
from ktrial.kit.outcome import Outcome
from ktrial.kit.units import three_digits
from ktrial.live.control import Wanted
from ktrial.live.model import Sample, Stretch, StretchReading
from ktrial.live.pace import LivePace, slot_seconds, until_slot_s
from ktrial.live.period import PERIOD_FILE, RATED, USUAL_FILE, SeenMetric, SeenPeriod, details_of, measurements_in
from ktrial.live.rating import PATIENCE_S
from ktrial.live.sampling import MOST_SILENT, LiveClock, LivePoll, WatchedMetric
from ktrial.live.watchdog import PastPeriod, Watchdog
from ktrial.machine.facts import FactBook
from ktrial.trial.arms.arms import Arms
from ktrial.trial.protocol.live import LIVE
from ktrial.trial.run.events import ArmInForce, PeriodPhase, TrialListener, VisitBegan, VisitEnded, VisitWaits
from ktrial.trial.run.loop import Standing, Visit
from ktrial.trial.run.records import Cause, run_event

#: Seconds between two checks whether a wait is over.
_LOOK_S = 1.0
_OUT_OF_TIME = "no time is left for another block"


class AsksRating(Port):
    """Asks a person how a period felt."""

    def begin(self) -> None: ...

    def look(self, seconds: float) -> int | None:
        """Return the rating that arrives within `seconds`; None if there is none."""

    def end(self) -> None: ...


class LiveRules(NamedTuple):
    """The rules of a live trial: its times in seconds, and what ktrial may show and ask."""

    period_s: float
    washout_s: float
    primary: str
    for_s: float | None = None
    blind: bool = False
    #: Whether verdicts are at equal covariates; a period must then have all covariates.
    adjusts: bool = False
    #: Returns the machine's state, which is stored at each arm's first visit; None if it cannot be stored.
    state: Callable[[], bytes | None] | None = None
    #: Asks a person for a rating of each period; None if there are no ratings.
    rating: AsksRating | None = None
    #: The usual values of the control, from before the first block; stored with the first period.
    usual: Mapping[str, Sequence[Sample]] = {}
    #: The periods that an earlier process watched.
    past: Sequence[PastPeriod] = ()
    #: The arm that stays in force, if all arms are the same. Each period then begins with a slot of the clock.
    stays: str | None = None


class _PeriodVoid(Exception):
    """A rule made the current period void."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause: Cause = cause
        self.reason = reason


class LiveVisits:
    """A `VisitMaker` whose visits are periods of live work."""

    def __init__(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
        self,
        standing: Standing,
        rules: LiveRules,
        poll: LivePoll,
        arms: Arms,
        watchdog: Watchdog,
        pace: LivePace,
        runs: RunStore,
        clock: LiveClock,
        facts: FactBook,
        listen: TrialListener,
        note: Callable[[str], None],
        request_of: Callable[[], Wanted] = lambda: "run",
        started_ms: int = 0,
    ) -> None:
        """Prepare the visits. `note` writes to the system's log; `request_of` returns what the user requests."""
        self._standing = standing
        self._rules = rules
        self._poll = poll
        self._arms = arms
        self._watchdog = watchdog
        self._pace = pace
        self._runs = runs
        self._clock = clock
        self._facts = facts
        self._listen = listen
        self._note = note
        self._request_of = request_of
        self._started_ms = started_ms
        self._blocks_left: int | None = None
        self._in_force: str | None = None
        self._block: int | None = None
        #: When the washout of the current period ended.
        self._settled_ms = math.inf
        self._versions: dict[str, str] = {}
        self._seen = {event.arm for event in standing.log if isinstance(event, RunEnded)}

    def begin(self, blocks_left: int | None) -> None:
        self._blocks_left = blocks_left
        self._watchdog.take_up(self._rules.past)
        self._poll.begin()

    def can_make(self, visit: Visit) -> bool:
        return True

    def make(self, visits: Sequence[Visit], blocks_left: int | None) -> bool:
        """Make a block's periods without a break; stop if a period makes the block void. Always return True."""
        self._blocks_left = blocks_left
        first = visits[0]
        if len(visits) < first.visits and first.block != self._block:
            # The periods of a block must follow each other directly.
            self._void(first, _PeriodVoid("pause", "the trial was interrupted within the block"))
            return True
        self._block, self._versions = first.block, {}
        self._await_turn()
        for visit in visits:
            try:
                self._make_one(visit)
                if visit.place == visit.visits:
                    self._watchdog.end_block()
            except _PeriodVoid as void:
                self._void(visit, void)
                return True
            except GuardTripped as error:
                # Restore first, then store and report: the live work is suffering.
                self._leave(f"restored: {error.message}")
                raise
        return True

    def ends_for_time(self, step: NextStep) -> bool:
        for_s = self._rules.for_s
        if for_s is None or step.drawn:
            return False
        spent_s = (self._clock.unix_ms() - self._started_ms) / 1000
        if spent_s + self._pace.block_s <= for_s:
            return False
        self._standing.append(TrialEnd(reason=_OUT_OF_TIME))
        return True

    def end(self) -> None:
        try:
            self._leave("restored: the trial has ended or pauses")
        finally:
            self._poll.end()

    def _await_turn(self) -> None:
        """Wait until a block may begin and the primary metric has values; everything is restored meanwhile."""
        told: str | None = None
        self._look(None)
        while (why := self._hold_up()) is not None:
            self._leave(f"restored: {why}")
            if why != told:
                told = why
                self._listen(VisitWaits(waiting=why))
            self._look(None)
            self._clock.sleep(min(_LOOK_S, self._poll.nap_s))
        self._poll.note_clocks()

    def _hold_up(self) -> str | None:
        if self._request() == "pause":
            return "paused; run `ktrial trial resume` to continue"
        now_ms = self._clock.unix_ms()
        blocks = len({event.block for event in self._standing.log if isinstance(event, RunEnded)} - self._voids())
        held = self._pace.hold_up(now_ms, blocks)
        if held is not None:
            return held.why
        silent = next((one.metric.name for one in self._needed if not one.is_fresh(now_ms)), None)
        return None if silent is None else f"waiting for values of {silent}"

    def _voids(self) -> set[int | None]:
        return {event.block for event in self._standing.log if isinstance(event, BlockVoided)}

    @property
    def _primary(self) -> WatchedMetric | None:
        """The primary metric; None if a person's rating is primary."""
        found = (one for one in self._poll.metrics if f"{LIVE}.{one.outcome.name}" == self._rules.primary)
        return next(found, None)

    @property
    def _needed(self) -> list[WatchedMetric]:
        """The metrics without which a period does not count."""
        needed = [one for one in self._poll.metrics if one.covariate and self._rules.adjusts]
        return needed if self._primary is None else [self._primary, *needed]

    def _request(self) -> Wanted:
        """Return what the user requests of the trial. Raise KeyboardInterrupt if it should stop."""
        wanted = self._request_of()
        if wanted == "stop":
            raise KeyboardInterrupt
        return wanted

    def _make_one(self, visit: Visit) -> None:
        standing = self._standing
        self._tell_begin(visit)
        arm, was = self._arm(visit), self._in_force
        is_switch = self._enter(arm)
        self._listen(ArmInForce(block=visit.block, arm=visit.arm))
        switched_ms = self._clock.unix_ms()
        began_ns = self._clock.monotonic_ns()
        self._poll.forget(switched_ms)
        self._settled_ms = math.inf
        self._watchdog.begin_period(arm)
        number, standing.next_run = standing.next_run, standing.next_run + 1
        self._runs.start(standing.session.session, number, LIVE, warm_up=False)
        try:
            if washout_s := self._washout_s(stayed=was == arm):
                self._watch(visit, "washout", washout_s)
            self._settled_ms = begin_ms = self._clock.unix_ms()
            self._watch(visit, "watch", self._rules.period_s)
            end_ms = self._clock.unix_ms()
            lost = self._arms.failed()
            if lost is None:
                self._refuse_drift()
                # This comes last: it takes a moment without guards, and the period has shown that the arm is safe.
                self._keep_state(visit.arm)
            rating = self._rating(visit) if lost is None else None
            seen = self._seen_period(Stretch(begin_ms, end_ms), switched_ms, rating, is_switch=is_switch)
        except BaseException:
            self._runs.give_up(standing.session.session, number)
            raise
        self._record(visit, number, seen, began_ns, lost)

    def _tell_begin(self, visit: Visit) -> None:
        period_s = self._rules.washout_s + self._rules.period_s
        arms = len(self._standing.drawn[visit.block].order)
        left_s = None if self._blocks_left is None else (self._blocks_left * arms - visit.place + 1) * period_s
        self._listen(
            VisitBegan(block=visit.block, visit=visit.place, visits=visit.visits, left_s=left_s, visit_s=period_s)
        )

    def _arm(self, visit: Visit) -> str:
        """Return the arm to put in force for a visit."""
        return self._rules.stays or visit.arm

    def _washout_s(self, *, stayed: bool) -> float:
        """Return how long to watch before the part of the period that counts."""
        rules = self._rules
        if rules.stays is None:
            return rules.washout_s
        washout_s = 0.0 if stayed else rules.washout_s
        return washout_s + until_slot_s(self._clock.unix_ms() + 1000 * washout_s, slot_seconds(rules.period_s))

    def _enter(self, arm: str) -> bool:
        """Put the arm in force unless it already is; return whether that switched anything."""
        was, before = self._in_force, self._arms.change
        drifts = self._arms.enter(arm) or self._arms.drifted()
        if drifts:
            raise _PeriodVoid("knob", self._arms.told(drifts[0]))
        self._in_force = arm
        is_switch = was is not None and was != arm
        if before != self._arms.change:
            is_switch = True
            self._pace.switched(self._clock.unix_ms())
        if is_switch or was is None:
            self._note("the next period begins" if self._rules.blind else f"arm {arm} is in force")
        return is_switch

    def _leave(self, why: str) -> None:
        """Restore everything, including changes of an arm that could not be put in force."""
        was_in_force, made = self._in_force is not None, self._arms.change
        self._in_force = None
        self._arms.leave()
        if made is not None:
            self._pace.switched(self._clock.unix_ms())
        if was_in_force:
            self._note(why)

    def _keep_state(self, arm: str) -> None:
        """Store the whole tunable state at the first visit of an arm."""
        if arm in self._seen or self._rules.state is None:
            return
        self._seen.add(arm)
        state = self._rules.state()
        if state is not None:
            self._runs.keep_state(self._standing.session.session, arm, state)

    def _watch(self, visit: Visit, phase: Literal["washout", "watch"], seconds: float) -> None:
        """Read the sources for a while, with the guards active."""
        until_ms = self._clock.unix_ms() + round(1000 * seconds)
        arm = None if self._rules.blind else visit.arm
        self._listen(PeriodPhase(block=visit.block, phase=phase, arm=arm, until_unix_ms=until_ms))
        end_ns = self._clock.monotonic_ns() + round(1e9 * seconds)
        while (left_ns := end_ns - self._clock.monotonic_ns()) > 0:
            self._look(self._arm(visit))
            if (happened := self._poll.disturbed()) is not None:
                raise _PeriodVoid("suspend" if "slept" in happened else "period", happened)
            if self._request() == "pause":
                raise _PeriodVoid("pause", "the trial was paused")
            self._clock.sleep(min(self._poll.nap_s, left_ns / 1e9))
        self._look(self._arm(visit))

    def _look(self, arm: str | None) -> None:
        """Read the sources that are due, and check the new samples with the guards."""
        found = self._poll.look()
        if arm is not None:
            self._watchdog.check(arm, found, self._settled_ms)

    def _refuse_drift(self) -> None:
        """Make the period void if somebody else has changed a setting."""
        if drifts := self._arms.drifted():
            raise _PeriodVoid("knob", self._arms.told(drifts[0]))

    def _rating(self, visit: Visit) -> int | None:
        """Ask for a rating, with the guards active; return None if there is no answer in time."""
        asks = self._rules.rating
        if asks is None:
            return None
        arm = None if self._rules.blind else visit.arm
        self._listen(PeriodPhase(block=visit.block, phase="rate", arm=arm, until_unix_ms=None))
        end_ns = self._clock.monotonic_ns() + round(1e9 * PATIENCE_S)
        asks.begin()
        try:
            while self._clock.monotonic_ns() < end_ns:
                if (rating := asks.look(self._poll.nap_s)) is not None:
                    return rating
                self._look(visit.arm)
                self._request()
        finally:
            asks.end()
        return None

    def _seen_period(self, stretch: Stretch, switched_ms: int, rating: int | None, *, is_switch: bool) -> SeenPeriod:
        metrics = {
            one.metric.name: SeenMetric(
                outcome=one.outcome,
                reading=self._unless_silent(one, stretch, one.source.over(stretch)),
                samples=tuple(sample for sample in one.samples if sample.at_ms >= switched_ms),
                covariate=one.covariate,
            )
            for one in self._poll.metrics
        }
        return SeenPeriod(
            is_switch=is_switch,
            switched_unix_ms=switched_ms,
            begin_unix_ms=stretch.begin_ms,
            end_unix_ms=stretch.end_ms,
            metrics=metrics,
            rating=rating,
        )

    def _unless_silent(self, one: WatchedMetric, stretch: Stretch, reading: StretchReading) -> StretchReading:
        """Return the reading; without its value if the source was silent for too much of the stretch."""
        silent_s = one.silent_s(*stretch)
        most_s = max(MOST_SILENT * stretch.seconds, 2.5 * one.source.poll_s)
        if reading.value is None or silent_s <= most_s:
            return reading
        why = f"it gave no value for {three_digits(silent_s)} s of {three_digits(stretch.seconds)} s"
        return msgspec.structs.replace(reading, value=None, why=why)

    def _why_void(self, seen: SeenPeriod) -> str | None:
        """Return why a whole period is void; None if it is not. The reason never depends on a measured value."""
        for name, one in seen.metrics.items():
            version = one.reading.version
            if version is not None and self._versions.setdefault(name, version) != version:
                return f"the version changed from {self._versions[name]} to {version}"
        if self._primary is None and seen.rating is None:
            return "nobody rated the period"
        for name in (one.metric.name for one in self._needed):
            reading = seen.metrics[name].reading
            if reading.value is None:
                return f"{name} is missing: {reading.why or 'its source gave no value'}"
        return None

    def _record(self, visit: Visit, number: int, seen: SeenPeriod, began_ns: int, lost: str | None) -> None:
        """Store a period. If its arm was `lost`, the period has failed."""
        standing = self._standing
        void = self._why_void(seen) if lost is None else None
        raw = msgspec.json.encode(seen)
        parts = {f"files/{PERIOD_FILE}": raw}
        if self._rules.usual and not standing.records:
            parts[f"files/{USUAL_FILE}"] = msgspec.json.encode(self._rules.usual)
        outcomes: dict[str, Outcome] = {one.outcome.name: one.outcome for one in seen.metrics.values()}
        outcomes[RATED.name] = RATED
        kept = tuple(KeptMeasurement.of(one, outcomes[one.outcome]) for one in measurements_in(seen))
        record = RunRecord(
            session=standing.session,
            run=number,
            benchmark=LIVE,
            tool=LIVE,
            tool_version=None,
            built=None,
            container=None,
            argv=(),
            steps=(),
            agent_load=None,
            environment={},
            directory="",
            parameters={},
            cpus=None,
            round=visit.block,
            position=visit.place,
            started_monotonic_ns=began_ns,
            started_unix_ms=seen.switched_unix_ms,
            measurements=() if void or lost else kept,
            details=details_of(seen),
            notes=(),
            exit=Exit(status=0),
            resources=Resources(
                wall_ns=self._clock.monotonic_ns() - began_ns, user_us=None, system_us=None, max_rss_bytes=None
            ),
            failure=f"void: {void}" if void else lost,
            background=None,
            void=(void,) if void else (),
            trial=TrialPlace(
                trial=standing.trial,
                protocol_sha256=standing.protocol_sha256,
                block=visit.block,
                arm=visit.arm,
                kernel_release=self._facts.value("kernel.release"),
                boot_id=self._facts.value("boot.id"),
            ),
            raw={name: Artefact.of(data) for name, data in parts.items()},
        )
        name = self._runs.save(record, parts)
        standing.records.append(record)
        self._listen(VisitEnded(block=visit.block, record=record, name=name, failure=record.failure, void=void))
        if void:
            raise _PeriodVoid("period", void)
        standing.append(run_event(visit.block, visit.arm, [record], lost))

    def _void(self, visit: Visit, void: _PeriodVoid) -> None:
        self._watchdog.drop_block()
        self._standing.append(BlockVoided(block=visit.block, arm=visit.arm, cause=void.cause, reason=void.reason))
        if void.cause == "knob":
            # This makes the next visit put its arm in force again, even if it is the same arm.
            self._in_force = None
            self._arms.leave()
        why = "" if self._rules.blind else f": {void.reason}"
        self._note(f"block {visit.block} is void{why}")

# SPDX-License-Identifier: Apache-2.0
"""Plans the periods of a live trial, from a pilot unless the user knows their length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.bench.text import duration
from ktrial.cli.shared.live_sources import live_of, open_metrics
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput
from ktrial.live.guard import FEWEST_CONTROL_SAMPLES, GUARD_ALPHA, Guard, GuardWatch
from ktrial.live.pace import LivePace
from ktrial.live.pilot import LiveWish, plan_live
from ktrial.live.pilot_run import PilotCourse, PilotRun, pilot_course
from ktrial.live.sampling import LivePoll, metric_named, refuse_slow
from ktrial.live.watchdog import Watchdog
from ktrial.trial.protocol.file import DesignFile, share
from ktrial.trial.protocol.live import DAY_S
from ktrial.trial.run.conduct import arms_for
from ktrial.trial.run.events import PilotBegan, PilotEnded, VisitWaits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ktrial.cli.app import App
    from ktrial.live.model import Sample
    from ktrial.live.pilot import LivePlan
    from ktrial.live.pilot_run import PilotSeen
    from ktrial.live.sampling import WatchedMetric
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.protocol.live import LiveFile
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.prepare import Prepared

#: With so many samples of the control, guards see a surge in the first period of an arm.
_USUAL_SAMPLES = 2 * FEWEST_CONTROL_SAMPLES
#: Stands for an arm where none is in force.
AS_FOUND = "as found"
#: Of the time that the user allows, a pilot takes at most this share, and the blocks of the plan this one: some blocks
#: will be void, and are made again.
_MOST_OF_TIME, _PLANNED_TIME = 0.25, 0.9


class PlannedPeriods(NamedTuple):
    """The trial with its periods, and the samples of the control by metric, from before the trial."""

    file: TrialFile
    control: Mapping[str, Sequence[Sample]]


def plan_periods(app: App, ready: Prepared, listen: TrialListener, note: Callable[[str], None]) -> PlannedPeriods:
    """Return the trial with period, washout and number of blocks. Raise BadInput if they cannot be planned."""
    file, live = ready.file, live_of(ready.file)
    metrics = checked_metrics(app, file, ready.settle_s)
    if live.period_s is not None:
        planned = _with_given_period(file, ready.settle_s, metrics)
        return PlannedPeriods(planned, learn_usual(app, ready, metrics, live.period_s, listen, note))
    primary = _primary(file, metrics)
    course = _course(file, primary)
    await_hours(app, file, course.length_s, listen)
    listen(PilotBegan(expected_s=course.length_s, switches=course.switches))
    seen = _pilot(app, ready, metrics, course, listen, note)
    plan = _plan(file, ready, primary, metrics, course, seen)
    listen(
        PilotEnded(
            period_s=plan.period_s,
            washout_s=plan.washout_s,
            blocks=plan.cap,
            smallest_effect=plan.smallest_effect,
            why=plan.why,
        )
    )
    planned = _with_periods(file, f"{plan.period_s:g}s", live.washout or f"{plan.washout_s:g}s", plan.cap)
    return PlannedPeriods(_within_time(planned), seen.control)


def checked_metrics(app: App, file: TrialFile, settle_s: float) -> tuple[WatchedMetric, ...]:
    """Return the metrics, each with the reading interval of its source. Read every source once; store nothing.

    Raise BadInput for a trial that its sources or times make impossible, UnknownName for an unknown metric.
    """
    live = live_of(file)
    read = open_metrics(app, live)
    poll = LivePoll(read, app.clock)
    try:
        poll.begin()
    finally:
        poll.end()
    metrics = open_metrics(app, live)
    for one, known in zip(metrics, read, strict=True):
        one.source.poll_s = known.source.poll_s
    watchdog_of(file, metrics, 1.0, {})  # raises for unknown names
    if live.period_s is not None:
        refuse_slow(metrics, live.period_s)
        _with_given_period(file, settle_s, metrics)
    else:
        _course(file, _primary(file, metrics))
    return metrics


def _with_given_period(file: TrialFile, settle_s: float, metrics: Sequence[WatchedMetric]) -> TrialFile:
    """Return the trial with the period that the user gave, and its washout. Raise BadInput if no block fits."""
    live = live_of(file)
    washout = live.washout or f"{_least_washout_s(settle_s, metrics):g}s"
    return _within_time(_with_periods(file, live.period, washout, None))


def _primary(file: TrialFile, metrics: Sequence[WatchedMetric]) -> WatchedMetric:
    """Return the primary metric. Raise BadInput if a person's rating is primary."""
    for one in metrics:
        if file.primary in {one.outcome.name, one.metric.name}:
            return one
    raise BadInput("cannot plan periods from ratings", hint="set a period, for example  --period 5min")


def _least_washout_s(settle_s: float, metrics: Sequence[WatchedMetric]) -> float:
    """Return the time that the settings need after a switch, or two readings if that is longer.

    The first reading after a switch may cover time before the switch.
    """
    return max(settle_s, 2 * max((one.source.poll_s for one in metrics), default=0.0))


def learn_usual(
    app: App,
    ready: Prepared,
    metrics: Sequence[WatchedMetric],
    period_s: float,
    listen: TrialListener,
    note: Callable[[str], None],
) -> Mapping[str, Sequence[Sample]]:
    """Watch the control for at least two periods, so that guards know what is usual; do nothing without guards.

    In a trial whose control stays in force (`stay`), watch the machine as it is before the trial.
    """
    live = live_of(ready.file)
    if not live.guards:
        return {}
    slowest_s = max(metric_named(name, metrics).source.poll_s for name in live.guards)
    arm = AS_FOUND if live.stay else ready.file.control
    course = PilotCourse((arm,), max(2 * period_s, _USUAL_SAMPLES * slowest_s))
    listen(PilotBegan(expected_s=course.length_s, switches=0))
    return _pilot(app, ready, metrics, course, listen, note).control


def hard_limits(file: TrialFile, metrics: Sequence[WatchedMetric]) -> dict[str, float]:
    """Return the hard limits by metric, in base units. Raise UnknownName for an unknown metric."""
    found = {}
    for name, value in live_of(file).limits.items():
        one = metric_named(name, metrics)
        found[one.metric.name] = value * one.factor
    return found


def watchdog_of(
    file: TrialFile, metrics: Sequence[WatchedMetric], period_s: float, control: Mapping[str, Sequence[Sample]]
) -> Watchdog:
    """Return the watchdog that ends the trial if a metric passes its limit or breaks its guard.

    `control` has samples of the control that show what is usual.
    """
    limits, guards = hard_limits(file, metrics), []
    for name, margin in live_of(file).guards.items():
        one = metric_named(name, metrics)
        margin_share = share(margin, name)
        direction = one.metric.direction
        guards.append(Guard(metric=one.metric.name, direction=direction, margin=margin_share, factor=one.factor))
    if not guards:
        return Watchdog(metrics, limits)
    expected = max(_samples_in(control.get(one.metric, ()), period_s) for one in guards)
    live = live_of(file)
    watch = GuardWatch(
        guards,
        [file.control] if live.stay else list(file.arms),
        AS_FOUND if live.stay else file.control,
        blocks=file.design.cap or file.budget,
        samples=expected,
        alpha=live.guard_error or GUARD_ALPHA,
    )
    for guard in guards:
        watch.learn(guard.metric, control.get(guard.metric, ()))
    return Watchdog(metrics, limits, watch, [one.metric for one in guards])


def _samples_in(usual: Sequence[Sample], period_s: float) -> int:
    """Return about how many samples a period has."""
    if len(usual) < 2:
        return 1
    return max(1, round(period_s * 1000 * len(usual) / max(1, usual[-1].at_ms - usual[0].at_ms)))


def block_seconds(file: TrialFile) -> float:
    """Return how long a block of planned periods takes."""
    live = live_of(file)
    return len(file.arms) * ((live.washout_s or 0.0) + (live.period_s or 0.0))


def longest_seconds(file: TrialFile, blocks: int) -> float:
    """Return how long these blocks take at most, with waits for quiet hours and for the limit on switches."""
    live = live_of(file)
    if live.for_s is not None:
        return live.for_s
    whole_s = blocks * block_seconds(file)
    if live.switches is not None:
        whole_s = max(whole_s, (blocks * len(file.arms) / live.switches - 1) * DAY_S)
    return whole_s / _awake_share(live, whole_s)


def _awake_share(live: LiveFile, time_s: float) -> float:
    """Return the share of `time_s` outside the quiet hours; a time of up to one hour counts as outside."""
    if live.quiet_hours is None or time_s <= DAY_S / 24:
        return 1.0
    return 1 - live.quiet_hours.length_s / DAY_S


def _with_periods(file: TrialFile, period: str | None, washout: str, cap: int | None) -> TrialFile:
    live = msgspec.structs.replace(live_of(file), period=period, washout=washout)
    design = msgspec.structs.replace(file.design, cap=file.design.cap or cap)
    return msgspec.structs.replace(file, live=live, design=design)


def _within_time(file: TrialFile) -> TrialFile:
    """Return the trial with at most as many blocks as its time holds; a trial of a day or more makes all blocks.

    Raise BadInput if a block, or the fewest blocks, do not fit.
    """
    for_s, quiet = live_of(file).for_s, live_of(file).quiet_hours
    if quiet is not None and block_seconds(file) > DAY_S - quiet.length_s:
        raise BadInput(
            "a block is longer than the time between quiet hours", hint="shorten the period or the quiet hours"
        )
    if for_s is None:
        return file
    wanted = file.design.cap or file.budget
    block_s = block_seconds(file)
    fits = [look for look in LOOKS if look * block_s <= for_s]
    if not fits:
        raise BadInput(
            f"a trial needs {LOOKS[0]} blocks, but {LOOKS[0]} blocks of {duration(block_s)} do not fit into "
            f"{live_of(file).for_}",
            hint=f"give --for {math.ceil(LOOKS[0] * block_s / 60)}min or more, or a shorter --period",
        )
    fixed = True if for_s >= DAY_S else file.design.fixed
    design = msgspec.structs.replace(file.design, cap=min(wanted, fits[-1]), fixed=fixed)
    return msgspec.structs.replace(file, design=design)


def _course(file: TrialFile, primary: WatchedMetric) -> PilotCourse:
    live = live_of(file)
    arm = next(name for name in file.arms if name != file.control)
    course = pilot_course(file.control, arm, primary.source.poll_s, switches=live.washout_s is None)
    if live.for_s is not None and course.length_s > _MOST_OF_TIME * live.for_s:
        raise BadInput(
            f"a pilot of {duration(course.length_s)} is too long for a trial of {live.for_}",
            hint="set a longer --for, or add --period",
        )
    return course


def await_hours(app: App, file: TrialFile, length_s: float, listen: TrialListener) -> None:
    """Wait until there are at least `length_s` seconds before the next quiet hours."""
    pace = LivePace(length_s, 0, quiet=live_of(file).quiet_hours)
    while (held := pace.hold_up(app.clock.unix_ms(), 0)) is not None:
        listen(VisitWaits(waiting=held.why))
        app.clock.sleep(min(60.0, held.left_s))


def _pilot(
    app: App,
    ready: Prepared,
    metrics: Sequence[WatchedMetric],
    course: PilotCourse,
    listen: TrialListener,
    note: Callable[[str], None],
) -> PilotSeen:
    arms = arms_for(app, ready, f"{ready.file.name}, pilot", listen, {name: name for name in ready.plans})
    watchdog = watchdog_of(ready.file, metrics, course.part_s, {})
    return PilotRun(LivePoll(metrics, app.clock), arms, app.clock, watchdog, note).run(course)


def most_blocks(file: TrialFile) -> int:
    """Return the maximum number of blocks: the cap or the budget of the protocol.

    If only a total time is given, return how many blocks the limit on switches allows. Without that limit, return the
    largest number of blocks that any trial may have.
    """
    live = live_of(file)
    if live.for_s is None or file.design.cap or file.design.budget != DesignFile().budget:
        return file.design.cap or file.budget
    if live.switches is None:
        return LOOKS[-1]
    return int(live.switches * max(1.0, live.for_s / DAY_S) / len(file.arms))


def _plan(
    file: TrialFile,
    ready: Prepared,
    primary: WatchedMetric,
    metrics: Sequence[WatchedMetric],
    course: PilotCourse,
    seen: PilotSeen,
) -> LivePlan:
    live = live_of(file)
    real = sum(name != file.control and not arm.placebo for name, arm in file.arms.items())
    left_s = None
    if live.for_s is not None:
        left_s = _PLANNED_TIME * (live.for_s - course.length_s) * _awake_share(live, live.for_s)
    wish = LiveWish(
        direction=primary.metric.direction,
        detect=file.detect_share,
        arms=len(file.arms),
        comparisons=max(1, real),
        budget=most_blocks(file),
        least_washout_s=_least_washout_s(ready.settle_s, metrics) if live.washout_s is None else live.washout_s,
        least_period_s=4 * max(one.source.poll_s for one in metrics),
        longest_s=left_s,
    )
    switches = seen.switches if course.switches else ()
    covariates = {one.metric.name: seen.samples[one.metric.name] for one in metrics if one.covariate and live.adjust}
    return plan_live(seen.samples[primary.metric.name], wish, switches, covariates)

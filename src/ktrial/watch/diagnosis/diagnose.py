# SPDX-License-Identifier: Apache-2.0
"""Diagnoses a recording: its phases, its stutters, and the causes that coincide with them beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from ktrial.judge.model.interval import Interval
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.coincidence import Activity, Coincidence, coincidences, merged
from ktrial.judge.stats.phases import Phases
from ktrial.judge.stats.stutters import Episode, Stutters, choose_stutters, episodes, late_frames, recurrence, within
from ktrial.judge.stats.time_blocks import mean_over
from ktrial.kit.errors import BadInput
from ktrial.kit.units import show_seconds, three_digits
from ktrial.recordings.model import Event, Frames, Recording, phases_of, rate_of
from ktrial.watch.diagnosis.causes import AtWork, at_work
from ktrial.watch.diagnosis.devices import devices
from ktrial.watch.diagnosis.model import (
    Aggressor,
    Cause,
    Diagnosis,
    EpisodeFound,
    EventsFound,
    Lane,
    PhaseFound,
    PressureLine,
    SeriesFigure,
    Standing,
    Worst,
)
from ktrial.watch.diagnosis.symptoms import Symptom

#: Stutters with at most this pause between them form one episode.
EPISODE_GAP_S = 30.0
#: The growth of an aggressor is measured over this time before a stutter.
_BEFORE_S = 10.0
#: Number of moments at which the usual growth is measured.
_TIMES = 500
#: Maximum number of stutters, and of distinguishable moments, in a diagnosis.
_SHOWN = 4000
#: Maximum number of steps of a pressure line.
_STEPS = 2000
#: With fewer stutters no cause can be named.
FEWEST_STUTTERS = 5
#: If late frames are more frequent than these limits (a number, and a share of all frames), lateness is the rule and
#: has no single causes.
_MOST_STUTTERS, _MOST_SHARE = 10_000, 0.2


def diagnose(recording: Recording, symptoms: Mapping[str, Symptom], limit_s: float | None = None) -> Diagnosis:
    """Return the diagnosis. Raise BadInput if late frames are too frequent to be exceptions.

    Frames longer than `limit_s` are late. Without `limit_s`, frames that stand out from their neighbours are late.
    """
    phases = phases_of(recording)
    working = [at_work(symptom, recording) for symptom in symptoms.values()]
    if recording.frames is None:
        return _without_frames(recording, phases, working)
    stutters = _clear_of_gaps(_late(recording.frames, recording.begin_s, recording.end_s, limit_s), recording)
    if stutters.count > min(_MOST_STUTTERS, _MOST_SHARE * len(recording.frames.ends_s)):
        raise BadInput(
            f"too many stutters: {stutters.count} of {len(recording.frames.ends_s)} {recording.frames.kind}s are late",
            file=recording.name,
            hint="for example  --limit 50ms" if limit_s is None else f"use a --limit above {show_seconds(limit_s)}",
        )
    bounds = [(phase.begin_s, phase.end_s) for phase in phases.phases]
    active = {one.symptom.id: one.activity for one in working if one.activity is not None and _ever(one)}
    enough = stutters.count >= FEWEST_STUTTERS
    last = {symptom.id for symptom in symptoms.values() if symptom.consequence}
    makes = {symptom.id: symptom.makes for symptom in symptoms.values()}
    found = coincidences(active, stutters.begins_s, stutters.ends_s, bounds, last=last, makes=makes) if enough else ()
    causes = _causes(found, working, stutters, recording, bounds)
    explained = {place for one in found if one.named for place in one.overlapping}
    runs = episodes(stutters.begins_s, stutters.ends_s, EPISODE_GAP_S)
    again = recurrence(runs, recording.begin_s, recording.end_s, EPISODE_GAP_S)
    return Diagnosis(
        name=recording.name,
        length_s=recording.length_s,
        frames=len(recording.frames.ends_s),
        frame_kind=recording.frames.kind,
        definition=stutters.definition,
        stutters=stutters.count,
        late_share=stutters.share,
        per_hour=stutters.per_hour,
        phases=_by_phase(phases, stutters),
        told_by=phases.told_by,
        causes=causes,
        unexplained=stutters.count - len(explained),
        episodes=_episodes(runs),
        recurrence_s=None if again is None else again.period_s,
        recurrence_p=None if again is None else again.p,
        aggressors=_aggressors(recording, stutters),
        figures=_figures(recording, working, bounds),
        devices=devices(recording),
        events=_events_of(recording),
        lanes=_lanes(working, recording),
        pressures=_pressures(recording),
        late=_longest(stutters),
        findings=_findings(recording, phases, stutters),
        notes=(*_of_clocks(recording, recording.frames), *recording.notes),
    )


def _of_clocks(recording: Recording, frames: Frames) -> tuple[str, ...]:
    """Return how closely the frames' clock matches the recording's clock, and when the recording's clock was zero."""
    if frames.kind == "wake-up" or recording.unix_at_zero_s is None:
        return ()
    error_s = recording.clock_error_s + frames.clock_error_s
    apart = f"to within {show_seconds(error_s)}" if error_s else "exactly"
    zero = f"{recording.unix_at_zero_s:.3f} s after 1970"
    return (f"the ends of {frames.kind}s are on the recording's clock {apart}; its zero is {zero}",)


def _late(frames: Frames, begin_s: float, end_s: float, limit_s: float | None) -> Stutters:
    stands_for = None if frames.stands_for is None else np.asarray(frames.stands_for)
    ends_s, durations_s = np.asarray(frames.ends_s), np.asarray(frames.durations_s)
    return late_frames(ends_s, durations_s, begin_s, end_s, limit_s, stands_for=stands_for)


def _clear_of_gaps(stutters: Stutters, recording: Recording) -> Stutters:
    keep = np.ones(stutters.count, dtype=bool)
    for gap in recording.gaps:
        keep &= (stutters.ends_s < gap.begin_s) | (stutters.begins_s > gap.end_s)
    return stutters if keep.all() else choose_stutters(stutters, keep, recording.begin_s, recording.end_s)


def _ever(one: AtWork) -> bool:
    return one.activity is not None and len(one.activity.begins_s) > 0


def _causes(
    found: Sequence[Coincidence],
    working: Sequence[AtWork],
    stutters: Stutters,
    recording: Recording,
    phases: Sequence[tuple[float, float]],
) -> tuple[Cause, ...]:
    by_id = {one.symptom.id: one for one in working}
    tested = [_cause(one, by_id[one.cause], stutters, recording, phases) for one in found]
    seen = {one.cause for one in found}
    rest = [
        Cause(
            id=one.symptom.id,
            name=one.symptom.name,
            what=one.symptom.what,
            standing="unseen" if one.activity is None else "chance" if _ever(one) else "idle",
            active_share=_share(one, recording),
        )
        for one in working
        if one.symptom.id not in seen
    ]
    order: tuple[Standing, ...] = ("chance", "idle", "unseen")
    return (*tested, *sorted(rest, key=lambda cause: order.index(cause.standing)))


def _cause(
    one: Coincidence,
    working: AtWork,
    stutters: Stutters,
    recording: Recording,
    phases: Sequence[tuple[float, float]],
) -> Cause:
    places = list(one.overlapping)
    begins_s, excess_s = stutters.begins_s[places], stutters.excess_s
    standing: Standing = "named" if one.named else "with-another" if one.with_cause else "chance"
    threads: Counter[str] = Counter()
    for event in working.events:
        begin, end = event.begin_s, event.begin_s + (event.duration_s or 0.0)
        if event.thread and np.any((stutters.begins_s <= end) & (stutters.ends_s >= begin)):
            threads[event.thread] += 1
    return Cause(
        id=one.cause,
        name=working.symptom.name,
        what=working.symptom.what,
        standing=standing,
        overlapping=len(one.overlapping),
        by_phase=tuple(int(np.sum((begins_s >= begin_s) & (begins_s < end_s))) for begin_s, end_s in phases),
        late_share=float(excess_s[places].sum() / excess_s.sum()),
        expected=one.expected,
        expected_high=one.expected_high,
        p=one.p,
        p_adjusted=one.p_adjusted,
        active_share=_share(working, recording),
        with_cause=one.with_cause,
        threads=dict(threads.most_common(5)),
        worst=_worst(one, working, stutters),
    )


def _share(one: AtWork, recording: Recording) -> float:
    if one.activity is None or recording.length_s <= 0:
        return 0.0
    begins = np.clip(one.activity.begins_s, recording.begin_s, recording.end_s)
    ends = np.clip(one.activity.ends_s, recording.begin_s, recording.end_s)
    return float(np.sum(ends - begins)) / recording.length_s


def _worst(one: Coincidence, working: AtWork, stutters: Stutters) -> Worst | None:
    """Return the stutter during which the cause was active for longest; if several tie, the longest of them."""
    activity = working.activity
    if not one.overlapping or activity is None:
        return None
    spans = [(float(stutters.begins_s[place]), float(stutters.ends_s[place])) for place in one.overlapping]
    begin_s, end_s = max(spans, key=lambda span: (_within_s(activity, *span), span[1] - span[0]))
    near = [e for e in working.events if e.begin_s <= end_s and e.begin_s + (e.duration_s or 0.0) >= begin_s]
    if near:
        longest = max(near, key=lambda event: event.duration_s or 0.0)
        by = f" by {longest.thread}" if longest.thread else f" on {longest.device}" if longest.device else ""
        seen = f"{longest.kind}{by}, {three_digits(1e3 * (longest.duration_s or 0.0))} ms"
    else:
        seen = ", ".join(working.shown_by[:2])
    worst = Worst(begin_s=begin_s, duration_s=end_s - begin_s, seen=seen)
    first_s, last_s = begin_s - worst.around_s, end_s + worst.around_s
    beside = (activity.begins_s <= last_s) & (activity.ends_s >= first_s)
    around = zip(activity.begins_s[beside].tolist(), activity.ends_s[beside].tolist(), strict=True)
    return msgspec.structs.replace(worst, spans=tuple((max(a, first_s), min(b, last_s)) for a, b in around))


def _within_s(activity: Activity, begin_s: float, end_s: float) -> float:
    return float(np.clip(np.minimum(activity.ends_s, end_s) - np.maximum(activity.begins_s, begin_s), 0, None).sum())


def _by_phase(phases: Phases, stutters: Stutters) -> tuple[PhaseFound, ...]:
    found = []
    for phase in phases.phases:
        own = within(stutters, phase.begin_s, phase.end_s)
        found.append(
            PhaseFound(
                name=phase.name,
                begin_s=phase.begin_s,
                end_s=phase.end_s,
                stutters=own.count,
                late_share=own.share,
                per_hour=own.per_hour,
            )
        )
    return tuple(found)


def _aggressors(recording: Recording, stutters: Stutters) -> tuple[Aggressor, ...]:
    """Return the processes and groups that grew more than usual in the seconds before stutters, largest first."""
    found = []
    at_all_times = np.linspace(recording.begin_s, recording.end_s, _TIMES)
    for usage in recording.usages:
        for what, values in (
            ("memory", usage.memory_bytes),
            ("page cache", usage.cache_bytes),
            ("I/O", usage.io_bytes),
        ):
            if values is None or stutters.count == 0 or len(values) < 2:
                continue
            times, sizes = np.asarray(usage.times_s), np.asarray(values)
            before = float(np.mean(_growth(times, sizes, stutters.ends_s)))
            usual = float(np.mean(_growth(times, sizes, at_all_times)))
            if before > max(2 * usual, 0.0):
                name = usage.name if usage.pid is None else f"{usage.name} ({usage.pid})"
                found.append(Aggressor(name=name, what=what, before_bytes=before, usual_bytes=usual))  # type: ignore[arg-type]
    return tuple(sorted(found, key=lambda one: -one.before_bytes)[:10])


def _growth(times: Array, sizes: Array, at: Array) -> Array:
    if len(at) == 0:
        return np.zeros(1)
    known = np.isfinite(sizes)
    times, sizes = times[known], sizes[known]
    if len(times) == 0:
        return np.zeros(len(at))
    # Freed memory does not cancel allocated memory.
    taken = np.concatenate([[0.0], np.cumsum(np.maximum(np.diff(sizes), 0))])
    return np.asarray(np.interp(at, times, taken) - np.interp(at - _BEFORE_S, times, taken))


def _episodes(runs: Sequence[Episode]) -> tuple[EpisodeFound, ...]:
    gaps = [None, *(after.begin_s - before.end_s for before, after in pairwise(runs))]
    return tuple(
        EpisodeFound(begin_s=one.begin_s, end_s=one.end_s, count=one.count, gap_s=gap_s)
        for one, gap_s in zip(runs, gaps, strict=False)
    )


def _figures(
    recording: Recording, working: Sequence[AtWork], phases: Sequence[tuple[float, float]]
) -> tuple[SeriesFigure, ...]:
    """Return, for every series that a sign uses, its mean, its peak and its mean in each phase."""
    names = dict.fromkeys(name for one in working for name in one.shown_by if name in recording.series)
    found = []
    for name in names:
        series = recording.series[name]
        times_s, values = rate_of(series)
        known = np.isfinite(values)
        if not known.any():
            continue
        mean = mean_over(times_s[known], values[known], recording.begin_s, recording.end_s)
        found.append(
            SeriesFigure(
                name=name,
                unit=f"{series.unit}/s" if series.kind == "counter" else series.unit,
                mean=mean.estimate,
                low=mean.low,
                high=mean.high,
                peak=float(values[known].max()),
                by_phase=tuple(_mean_in(times_s[known], values[known], *phase) for phase in phases),
            )
        )
    return tuple(found)


def _mean_in(times_s: Array, values: Array, begin_s: float, end_s: float) -> Interval | None:
    inside = (times_s > begin_s) & (times_s <= end_s)
    return mean_over(times_s[inside], values[inside], begin_s, end_s) if inside.any() else None


def _lanes(working: Sequence[AtWork], recording: Recording) -> tuple[Lane, ...]:
    """Return the stretches of each active cause, merged if a picture could not separate them."""
    apart_s = recording.length_s / _SHOWN
    found = []
    for one in working:
        if one.activity is None or not len(one.activity.begins_s):
            continue
        wide = merged(one.activity.begins_s, one.activity.ends_s + apart_s)
        spans = zip(wide.begins_s.tolist(), (wide.ends_s - apart_s).tolist(), strict=True)
        found.append(Lane(cause=one.symptom.id, spans=tuple(spans)))
    return tuple(found)


def _pressures(recording: Recording) -> tuple[PressureLine, ...]:
    """Return the pressure on CPU, memory and I/O, in steps that are not finer than the samples."""
    found = []
    for name in ("cpu", "memory", "io"):
        series = recording.series.get(f"pressure.{name}.some")
        if series is None or len(series.values) < 2 or recording.length_s <= 0:
            continue
        times_s, values = rate_of(series)
        steps = max(1, min(_STEPS, len(values) // 2))
        # Counters contain seconds, so their growth per second is the share. Other tools already record a share.
        known = np.isfinite(values) & (times_s >= recording.begin_s)
        places = np.clip((times_s - recording.begin_s) / recording.length_s * steps, 0, steps - 1).astype(int)
        highest = np.full(steps, -np.inf)
        np.maximum.at(highest, places[known], np.clip(values[known], 0.0, 1.0))
        told = tuple(round(one, 3) if np.isfinite(one) else None for one in highest.tolist())
        found.append(PressureLine(name=f"{name} pressure", step_s=recording.length_s / steps, values=told))
    return tuple(found)


def _longest(stutters: Stutters) -> tuple[tuple[float, float], ...]:
    took_s = stutters.ends_s - stutters.begins_s
    places = np.sort(np.argsort(-took_s, kind="stable")[:_SHOWN])
    return tuple(zip(stutters.begins_s[places].tolist(), took_s[places].tolist(), strict=True))


def _findings(recording: Recording, phases: Phases, stutters: Stutters | None) -> tuple[str, ...]:
    found = [] if phases.doubt is None else [phases.doubt]
    if recording.ended == "cut-off":
        found.append("the recording is cut off: the diagnosis uses everything before the cut")
    found += [
        f"{source.name} {'failed' if source.state == 'failed' else 'is absent'}: {source.why}"
        for source in recording.sources
        if source.why
    ]
    found += [f"{source.name} lost {source.lost} events" for source in recording.sources if source.lost]
    found += [
        f"{one.what}: {one.seen} events were traced, the kernel counted {one.counted}: do not trust the trace"
        for one in recording.checks
        if not one.agree
    ]
    found += [f"{gap.kind} from {gap.begin_s:.1f} to {gap.end_s:.1f} s: {gap.why}" for gap in recording.gaps]
    if stutters is not None and 0 < stutters.count < FEWEST_STUTTERS:
        many = "1 stutter is" if stutters.count == 1 else f"{stutters.count} stutters are"
        found.append(f"{many} too few to find a cause (minimum {FEWEST_STUTTERS})")
    return tuple(found)


def _without_frames(recording: Recording, phases: Phases, working: Sequence[AtWork]) -> Diagnosis:
    """Return which causes were active and for how long. Without frames there are no stutters to compare with."""
    lacking = "the recording has no frames or wake-ups: it shows what was active, but not which stutters that caused"
    return Diagnosis(
        name=recording.name,
        length_s=recording.length_s,
        frames=0,
        frame_kind=None,
        definition=None,
        stutters=0,
        late_share=None,
        per_hour=None,
        phases=_by_phase(phases, _NOTHING),
        told_by=phases.told_by,
        causes=_causes((), working, _NOTHING, recording, ()),
        unexplained=0,
        figures=_figures(recording, working, [(phase.begin_s, phase.end_s) for phase in phases.phases]),
        devices=devices(recording),
        events=_events_of(recording),
        lanes=_lanes(working, recording),
        pressures=_pressures(recording),
        findings=(lacking, *_findings(recording, phases, None)),
        notes=recording.notes,
    )


_NOTHING = Stutters(
    definition="",
    begins_s=np.empty(0),
    ends_s=np.empty(0),
    excess_s=np.empty(0),
    share=Interval(estimate=0.0),
    per_hour=Interval(estimate=0.0),
)


#: Maximum number of threads that are named.
_THREADS = 3


def _events_of(recording: Recording) -> tuple[EventsFound, ...]:
    by_kind: dict[str, list[Event]] = {}
    for event in recording.events:
        by_kind.setdefault(event.kind, []).append(event)
    found = [_of_kind(kind, of_kind, recording) for kind, of_kind in by_kind.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.kind)))


def _of_kind(kind: str, of_kind: list[Event], recording: Recording) -> EventsFound:
    ended = [(event.duration_s, event.begin_s) for event in of_kind if event.duration_s is not None]
    longest = max(ended, key=lambda one: one[0], default=None)
    sources = {event.source for event in of_kind}
    threads = Counter(event.thread for event in of_kind if event.thread)
    return EventsFound(
        kind=kind,
        count=len(of_kind),
        longest_s=None if longest is None else longest[0],
        longest_at_s=None if longest is None else longest[1],
        together_s=sum(took_s for took_s, _ in ended) if ended else None,
        lost=sum(source.lost for source in recording.sources if source.name in sources),
        threads=dict(threads.most_common(_THREADS)),
    )

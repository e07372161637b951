# SPDX-License-Identifier: Apache-2.0
"""Trials on live work: plans their periods, and carries them out."""

from __future__ import annotations

import signal
import sys
import syslog
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ktrial.cli.options import is_terminal
from ktrial.cli.shared.live_control import desk_folder
from ktrial.cli.shared.live_plan import (
    await_hours,
    block_seconds,
    checked_metrics,
    learn_usual,
    longest_seconds,
    plan_periods,
    watchdog_of,
)
from ktrial.cli.shared.live_sources import live_of, open_metrics, with_roles
from ktrial.cli.shared.trial_start import look_at, prepare
from ktrial.kit.errors import AgentError, Refused
from ktrial.kit.streams import draw
from ktrial.live.control import TrialDesk, Wanted
from ktrial.live.pace import LivePace
from ktrial.live.parse import note_of_unnamed
from ktrial.live.period import PERIOD_FILE, USUAL_FILE, read_usual
from ktrial.live.rating import RatingKeys
from ktrial.live.sampling import LivePoll
from ktrial.live.visits import LiveRules, LiveVisits
from ktrial.live.watchdog import PastPeriod, past_periods
from ktrial.trial.arms.arms import rehearse
from ktrial.trial.arms.plan_arms import arm_plans, settle_s
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.trial.run.conduct import CarriedOut, Planned, arms_for, begin, carry_on_with, changed_arm
from ktrial.tuning.plans.wait_for_lock import PatientMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ktrial.bench.record import RunRecord
    from ktrial.cli.app import App
    from ktrial.judge.model.log import Protocol
    from ktrial.live.model import Sample
    from ktrial.live.sampling import WatchedMetric
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.protocol.live import LiveFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.loop import Standing
    from ktrial.tuning.knobs.knob import Knob
    from ktrial.tuning.plans.model import Plan


#: Upper limit of the time that it takes to put each arm in force once.
_REHEARSAL_S = 60.0


class OnLiveWork:
    """Runs a trial on the work that this machine does anyway. Implements `Venue`. `stored` is the trial to continue."""

    def __init__(self, app: App, file: TrialFile, *, allow_dangerous: bool, stored: StoredTrial | None = None) -> None:
        app.measuring_place.machine.take()
        app.lock_runs()
        self._app = app
        self._rating: RatingKeys | None = None
        self._control: Mapping[str, Sequence[Sample]] = {}
        refuse_unrated(live_of(file))
        if live_of(file).rate:
            self._rating = RatingKeys(sys.stdin.fileno(), app.interrupts.wait, lambda: draw(sys.stderr, "\a"))
        for spec in live_of(file).metrics if stored is None else ():
            if (note := note_of_unnamed(spec)) is not None:
                app.say(note)
        self.ready = prepare(app, with_roles(app, file), allow_dangerous=allow_dangerous)
        if not live_of(file).stay:
            refuse_disturbing(live_of(file), self.ready.plans, app.catalog.knobs)
            refuse_unnoticed(file, self.ready.plans, app.catalog.knobs)
        if file.is_blind:
            # The titles are in the agent's journal, which `ktrial status` shows, so they must not name the arms.
            title = f"blind trial {file.name}"
            plans = {name: msgspec.structs.replace(plan, title=title) for name, plan in self.ready.plans.items()}
            self.ready = self.ready._replace(plans=plans)

    @property
    def _live(self) -> LiveFile:
        return live_of(self.ready.file)

    @cached_property
    def _metrics(self) -> tuple[WatchedMetric, ...]:
        return open_metrics(self._app, self._live)

    def plan(self, listen: TrialListener, *, profile: bool) -> Planned:
        """Fix the times of the periods and the number of blocks, from a pilot unless the user gave a period."""
        await_hours(self._app, self.ready.file, _REHEARSAL_S, listen)
        self._rehearse()
        file, self._control = plan_periods(self._app, self.ready, listen, self._note)
        self.ready = self.ready._replace(file=file, settle_s=live_of(file).washout_s or 0.0)
        protocol = protocol_of(file, self.ready.tasks, {}, self.ready.seed, None, 1)
        return Planned(protocol, None, longest_seconds(file, protocol.cap or protocol.budget))

    @property
    def _note(self) -> Callable[[str], None]:
        return journal_of(self.ready.file.name) if not self.ready.file.is_blind else _tell_nobody

    def _rehearse(self) -> None:
        root = self.ready.root
        machine = root and PatientMachine(root, self._app.clock, self._app.say)
        rehearse(machine, self.ready.plans, self._app.catalog.knobs)

    def unread_gates(self, protocol: Protocol) -> Sequence[str]:
        return ()

    def begin(self, protocol: Protocol) -> StoredTrial:
        return begin(self._app, self.ready, protocol)

    def changed(self, stored: StoredTrial) -> str | None:
        return changed_arm(stored, self.ready)

    def carry_on(self, stored: StoredTrial, listen: TrialListener) -> CarriedOut:
        desk = TrialDesk(desk_folder(), stored.trial)
        desk.open()
        try:
            return carry_on_with(
                self._app,
                stored,
                self.ready,
                listen,
                lambda standing: self._visits(stored, standing, desk, listen),
            )
        finally:
            desk.close()

    def _visits(self, stored: StoredTrial, standing: Standing, desk: TrialDesk, listen: TrialListener) -> LiveVisits:
        app, ready = self._app, self.ready
        self._control = self._control or self._usual(stored, standing, listen)
        return LiveVisits(
            standing,
            self._rules(stored, standing),
            LivePoll(self._metrics, app.clock),
            arms_for(app, ready, stored.trial, listen, {name: name for name in ready.plans}),
            watchdog_of(stored.file, self._metrics, live_of(stored.file).period_s or 0.0, self._control),
            self._pace(stored, standing),
            app.run_store,
            app.clock,
            ready.facts,
            listen,
            journal_of(stored.trial),
            lambda: self._request(desk),
            stored.started_unix_ms,
        )

    def _usual(self, stored: StoredTrial, standing: Standing, listen: TrialListener) -> Mapping[str, Sequence[Sample]]:
        """Return what this or an earlier process learnt before the first block.

        If an arm stays in force, no later period shows the machine without it.
        """
        if standing.records:
            first = standing.records[0].raw.get(f"files/{USUAL_FILE}")
            return {} if first is None else read_usual(self._app.store.raw(first.sha256))
        live = live_of(stored.file)
        if not live.stay:
            return {}
        metrics = open_metrics(self._app, live)
        return learn_usual(self._app, self.ready, metrics, live.period_s or 0.0, listen, self._note)

    def _past(self, stored: StoredTrial, standing: Standing) -> Iterator[PastPeriod]:
        """Yield the periods that an earlier process watched, with the arm in force."""
        live = live_of(stored.file)
        for one in past_periods(standing, self._period) if live.guards else ():
            yield one._replace(arm=stored.file.control) if live.stay else one

    def _period(self, record: RunRecord) -> bytes:
        return self._app.store.raw(record.raw[f"files/{PERIOD_FILE}"].sha256)

    def _request(self, desk: TrialDesk) -> Wanted:
        """Return the user's request to the trial: to pause, continue or end.

        Raise AgentError if the connection to another machine is lost: that machine has restored its settings by itself.
        """
        host = self._app.host
        if host is not None and (gone := host.why_gone()) is not None:
            raise AgentError("lost", gone, hint="run `ktrial trial resume` to continue the trial")
        wanted = desk.request()
        if wanted == "stop":
            self._app.interrupts.number = signal.SIGTERM
        return wanted

    def _rules(self, stored: StoredTrial, standing: Standing) -> LiveRules:
        from ktrial.tuning.state.snapshot import take_state

        live = live_of(stored.file)
        machine, catalog = self._app.looking_session, self._app.catalog
        return LiveRules(
            period_s=live.period_s or 0.0,
            washout_s=live.washout_s or 0.0,
            primary=standing.protocol.primary,
            for_s=live.for_s,
            blind=live.blind,
            adjusts=bool(live.adjust),
            rating=self._rating,
            usual=self._control if live.guards else {},
            past=tuple(self._past(stored, standing)),
            stays=stored.file.control if live.stay else None,
            state=lambda: take_state(machine, catalog).canonical(),
        )

    def _pace(self, stored: StoredTrial, standing: Standing) -> LivePace:
        live, cap = live_of(stored.file), standing.protocol.cap or standing.protocol.budget
        block_s = block_seconds(stored.file)
        spread_s = None if live.for_s is None else live.for_s / cap
        return LivePace(
            block_s,
            len(stored.arms),
            quiet=live.quiet_hours,
            switches=live.switches,
            spread_s=spread_s if spread_s is not None and spread_s > block_s else None,
            started_ms=stored.started_unix_ms,
            switched_ms=[one.started_unix_ms for one in standing.records if one.details.get("is_switch")],
        )


def check_live(app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
    """Raise the errors that this trial would raise before its first switch. Read every source once."""
    refuse_unrated(live_of(file))
    file = with_roles(app, file)
    look_at(app, file, allow_dangerous=allow_dangerous)
    plans = arm_plans(file, app.best_session("planning the arms"), app.catalog, allow_dangerous=allow_dangerous)
    refuse_disturbing(live_of(file), plans, app.catalog.knobs)
    refuse_unnoticed(file, plans, app.catalog.knobs)
    checked_metrics(app, file, settle_s(file, plans, app.catalog.knobs))


def refuse_unrated(live: LiveFile) -> None:
    """Raise Refused if a person must rate the periods and there is no terminal for that."""
    if live.rate and not is_terminal():
        raise Refused("cannot ask for ratings: there is no terminal", hint="run the same command in a terminal")


def refuse_disturbing(live: LiveFile, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> None:
    """Raise Refused for a setting whose switch disturbs the work, unless the user wants to measure it anyway."""
    for arm, plan in plans.items():
        changed = [change.knob for change in plan.changes] + (["zram:disksize"] if plan.zram is not None else [])
        for name in changed if not live.disturbing else ():
            if name in knobs and (why := knobs[name].disturbs) is not None:
                raise Refused(
                    f"cannot switch {name} back and forth under live work (arm {arm}): {why}",
                    hint="use a benchmark (`ktrial try`), or add --disturbing (in a protocol: disturbing = true) to "
                    "measure the cost of the switch too",
                )


def refuse_unnoticed(file: TrialFile, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> None:
    """Raise Refused for a setting that running programs do not notice, unless commands of each arm restart them."""
    if all(arm.commands for arm in file.arms.values()):
        return
    for arm, plan in plans.items():
        for change in plan.changes:
            if change.knob in knobs and knobs[change.knob].takes_effect == "new-programs":
                raise Refused(
                    f"cannot try {change.knob} on running programs (arm {arm}): only programs that start later use "
                    "the new value",
                    hint="write a protocol whose arms restart the service (docs/live.md shows how)",
                )


def journal_of(trial: str) -> Callable[[str], None]:
    """Return a function that writes a line about the trial to the system's log."""
    syslog.openlog("ktrial", syslog.LOG_PID, syslog.LOG_USER)
    return lambda text: syslog.syslog(syslog.LOG_NOTICE, f"trial {trial}: {text}")


def _tell_nobody(_text: str) -> None:
    """Write nothing, because the messages of a blind trial's pilot would name its arms."""

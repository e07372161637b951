# SPDX-License-Identifier: Apache-2.0
"""Trials on live work: the plan of their periods, and what carries them out."""

from __future__ import annotations

import signal
import sys
import syslog
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.command_benchmark import Metric
from ktrial.cli.options import is_terminal
from ktrial.cli.shared.live_control import desk_folder
from ktrial.cli.shared.live_sources import live_of, open_metrics, with_roles
from ktrial.cli.shared.trial_start import prepare
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.streams import draw
from ktrial.live.control import TrialDesk, Wanted
from ktrial.live.pace import LivePace
from ktrial.live.rating import RatingKeys
from ktrial.live.sampling import LivePoll, metric_named, refuse_slow
from ktrial.live.visits import LiveRules, LiveVisits
from ktrial.trial.arms.arms import rehearse
from ktrial.trial.arms.plan_arms import found_values
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.trial.record import changed_arms
from ktrial.trial.run.conduct import CarriedOut, Planned, arms_for, begin, carry_on_with
from ktrial.trial.run.guards import refuse_changed
from ktrial.tuning.plans.wait_for_lock import PatientMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ktrial.cli.app import App
    from ktrial.judge.model.log import Protocol
    from ktrial.live.sampling import WatchedMetric
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.protocol.live import LiveFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.loop import Standing
    from ktrial.tuning.knobs.knob import Knob
    from ktrial.tuning.plans.model import Plan


class OnLiveWork:
    """Runs a trial on the work that this machine does anyway. Implements `Venue`. `stored` is the trial to continue."""

    def __init__(self, app: App, file: TrialFile, *, allow_dangerous: bool, stored: StoredTrial | None = None) -> None:
        app.measuring_place.machine.take()
        app.lock_runs()
        self._app = app
        self._stored = stored
        self._rating = None
        if live_of(file).rate:
            if not is_terminal():
                raise Refused("cannot ask for ratings: there is no terminal", hint="leave out --rate")
            self._rating = RatingKeys(sys.stdin.fileno(), app.interrupts.wait, lambda: draw(sys.stderr, "\a"))
        self.ready = prepare(app, with_roles(app, file), allow_dangerous=allow_dangerous)
        refuse_disturbing(live_of(file), self.ready.plans, app.catalog.knobs)

    @property
    def _live(self) -> LiveFile:
        return live_of(self.ready.file)

    @cached_property
    def _metrics(self) -> tuple[WatchedMetric, ...]:
        return open_metrics(self._app, self._live)

    def plan(self, listen: TrialListener, *, profile: bool) -> Planned:
        """Fix the times of the periods and the number of blocks."""
        self._rehearse()
        live = self._live
        if live.period_s is None:
            raise BadInput("the length of a period is not known", hint="add --period, for example  --period 60s")
        washout_s = self.ready.settle_s if live.washout_s is None else live.washout_s
        refuse_slow(self._metrics, live.period_s)
        self._fix(msgspec.structs.replace(live, washout=f"{washout_s:g}s"), washout_s)
        protocol = self._protocol()
        cap_s = live.for_s or (protocol.cap or protocol.budget) * self._block_s
        return Planned(protocol, None, cap_s)

    def _fix(self, live: LiveFile, washout_s: float) -> None:
        file = msgspec.structs.replace(self.ready.file, live=live)
        self.ready = self.ready._replace(file=file, settle_s=washout_s)

    def _protocol(self) -> Protocol:
        return protocol_of(self.ready.file, self.ready.tasks, {}, self.ready.seed, None, 1)

    @property
    def _block_s(self) -> float:
        return len(self.ready.arms) * (self.ready.settle_s + (self._live.period_s or 0.0))

    def _rehearse(self) -> None:
        root = self.ready.root
        machine = root and PatientMachine(root, self._app.clock, self._app.say)
        rehearse(machine, self.ready.plans, self._app.catalog.knobs)

    def unread_gates(self, protocol: Protocol) -> Sequence[str]:
        return ()

    def begin(self, protocol: Protocol) -> StoredTrial:
        return begin(self._app, self.ready, protocol)

    def changed(self, stored: StoredTrial) -> str | None:
        if changed := changed_arms(stored.arms, self.ready.arms):
            return changed[0]
        refuse_changed(stored, found_values(self.ready.plans))
        return None

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
        poll = LivePoll(self._metrics, app.clock)
        return LiveVisits(
            standing,
            self._rules(stored, standing),
            poll,
            arms_for(app, ready, stored.trial, listen, {name: name for name in ready.plans}),
            None,
            self._pace(stored, standing),
            app.run_store,
            app.clock,
            ready.facts,
            listen,
            journal_of(stored),
            lambda: self._request(desk),
            stored.started_unix_ms,
        )

    def _request(self, desk: TrialDesk) -> Wanted:
        """Return what the user asks of the trial; a stop counts as a request to end."""
        wanted = desk.request()
        if wanted == "stop":
            self._app.interrupts.number = signal.SIGTERM
        return wanted

    def _rules(self, stored: StoredTrial, standing: Standing) -> LiveRules:
        from ktrial.tuning.state.snapshot import take_state

        live = live_of(stored.file)
        machine, catalog = self._app.looking_session, self._app.catalog
        limits = {}
        for name, value in live.limits.items():
            metric = metric_named(name, self._metrics).metric
            limits[metric.name] = value * Metric(metric.name, metric.direction, "").outcome()[1]
        return LiveRules(
            period_s=live.period_s or 0.0,
            washout_s=live.washout_s or 0.0,
            primary=standing.protocol.primary,
            limits=limits,
            for_s=live.for_s,
            blind=live.blind,
            rating=self._rating,
            state=lambda: take_state(machine, catalog).canonical(),
        )

    def _pace(self, stored: StoredTrial, standing: Standing) -> LivePace:
        live, cap = live_of(stored.file), standing.protocol.cap or standing.protocol.budget
        block_s = len(stored.arms) * ((live.washout_s or 0.0) + (live.period_s or 0.0))
        spread_s = None if live.for_s is None else live.for_s / cap
        return LivePace(
            block_s,
            2 * len(stored.arms),
            quiet=live.quiet_hours,
            switches=live.switches,
            spread_s=spread_s if spread_s is not None and spread_s > block_s else None,
            started_ms=stored.started_unix_ms,
            switched_ms=[one.started_unix_ms for one in standing.records if one.details.get("is_switch")],
        )


def refuse_disturbing(live: LiveFile, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> None:
    """Raise Refused for a setting whose switch itself disturbs the work, unless the user wants to measure it anyway."""
    for arm, plan in plans.items():
        changed = [change.knob for change in plan.changes] + (["zram:disksize"] if plan.zram is not None else [])
        for name in changed if not live.disturbing else ():
            if name in knobs and (why := knobs[name].disturbs) is not None:
                raise Refused(
                    f"cannot switch {name} back and forth under live work (arm {arm}): {why}",
                    hint="`ktrial try` measures it with a benchmark; --disturbing tries it here, and measures the cost",
                )


def journal_of(stored: StoredTrial) -> Callable[[str], None]:
    """Return what writes a line about the trial to the system's log."""
    syslog.openlog("ktrial", syslog.LOG_PID, syslog.LOG_USER)
    return lambda text: syslog.syslog(syslog.LOG_NOTICE, f"trial {stored.trial}: {text}")

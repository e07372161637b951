# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial search`: runs probes and trials, stores their state, and shows the answer."""

from __future__ import annotations

import itertools
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.cli.shared.ledger import note
from ktrial.cli.shared.long_runs import TimedTrial
from ktrial.cli.shared.run_trial import part_of_question
from ktrial.cli.shared.search_fleet import comparison_of_fleet, measure_everywhere
from ktrial.cli.shared.search_guests import (
    GuestProbes,
    kernel_text,
)
from ktrial.fleet.conduct import finished_logs
from ktrial.fleet.search_part import part_of_fleet
from ktrial.judge.model.log import TrialEnd
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, Refused, in_lower_case
from ktrial.kit.tables import columns
from ktrial.machine.transactions import revert
from ktrial.studies.search.course import SearchCourse
from ktrial.studies.search.front import course_of
from ktrial.studies.search.knowledge import part_of_log
from ktrial.studies.search.model import (
    ProbeReply,
    ProbeRequest,
    SearchAnswer,
    SearchPart,
    SearchQuestion,
    SearchState,
    SearchStep,
)
from ktrial.studies.search.space import (
    Scalar,
)
from ktrial.studies.search.text import progress_text, search_text
from ktrial.trial.arms.arms import refusal_of
from ktrial.trial.arms.plan_arms import arm_plans
from ktrial.trial.protocol.file import CONTROL, ArmFile
from ktrial.trial.run.progress import TrialProgress
from ktrial.tuning.plans.resolve import apply_plan
from ktrial.tuning.state.saved import SavedStates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.cli.shared.fleet import MachineChoice
    from ktrial.studies.search.space import Point
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.plans.model import Change

#: A gap between two runs counts as at most this many usual gaps; the rest of it is an interruption.
_LONGEST_GAP = 5.0
_LEASE = {"kind": "while-session"}


class SearchRun:
    """A search on this machine, with a fleet, or in guests, stored so that it can be resumed."""

    def __init__(
        self,
        app: App,
        question: SearchQuestion,
        asked: str,
        machines: MachineChoice | None,
        *,
        fresh: bool,
        allow_dangerous: bool,
    ) -> None:
        if not app.may_run_trials:
            raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
        self._app = app
        self._machines = machines
        self._saved = SavedStates(state_folder() / "searches")
        self._allow_dangerous = allow_dangerous
        if question.trial.guest is None:
            self._kernel = str(app.best_session("searching").facts().value("kernel.release") or "")
        else:
            self._kernel = kernel_text(app, question)
        found = None if fresh else self._unfinished(asked, question)
        self.is_resumed = found is not None
        self._state = found or SearchState(question=question, asked=asked, kernel=self._kernel)
        self.question = self._state.question

    def _unfinished(self, asked: str, question: SearchQuestion) -> SearchState | None:
        """Return the unfinished search of the same command, if any. Raise Refused if the kernel or values changed."""
        states = [_state_of(*self._saved.read(name)) for name in self._saved.names()]
        same = [one for one in states if one.asked == asked and not one.over]
        if not same:
            return None
        state = same[-1]
        name = state.question.name
        if state.kernel != self._kernel:
            raise Refused(
                f"cannot resume {name}: it began on kernel {state.kernel}, and the kernel is now {self._kernel}",
                hint=f"use kernel {state.kernel} again, or start over with --fresh",
            )
        if state.question.space != question.space:
            raise Refused(
                f"cannot resume {name}: the values of the control have changed since the search began",
                hint="restore the values, or start over with --fresh",
            )
        return state

    def carry_out(self, *, as_json: bool) -> SearchAnswer | None:
        """Run until the answer is known; return None if interrupted."""
        app = self._app
        if self.question.trial.guest is None:
            app.lock_trials()
        self._save()
        course = course_of(self.question)
        walk = course.run()
        probes = list(self._state.probes)
        listen = TrialProgress(app.clock, as_json=as_json)
        most = int(self.question.budget_s / self.question.visit_s) if self.question.visit_s else None
        timed = TimedTrial(app, listen, ask=not as_json, most_visits=most, most_s=self.question.budget_s)
        reply: ProbeReply | SearchPart | None = None
        found: SearchAnswer | None = None
        with app.interrupts, listen:
            while True:
                try:
                    request = next(walk) if reply is None else walk.send(reply)
                except StopIteration as end:
                    found = end.value
                    break
                if isinstance(reply, SearchPart):
                    self._tell(course, as_json=as_json)
                if isinstance(request, ProbeRequest):
                    reply = probes.pop(0) if probes else self._answer_probe(request)
                elif request.is_everywhere:
                    reply = self._fleet_part(request, as_json=as_json)
                else:
                    reply = self._part(request, timed)
                if reply is None:
                    return None
        self._state = msgspec.structs.replace(self._state, over=True)
        self._save()
        note(app)
        return found

    def _save(self) -> None:
        self._saved.save(self.question.name, plain_json.document(self._state))

    def _part(self, step: SearchStep, timed: TimedTrial) -> SearchPart | None:
        """Run one trial, or the rest of it; return None if interrupted."""
        stored = next(iter(self._app.trials.all(step.file.name)), None)
        if stored is None or not self._is_over(stored):
            self._write_files(step)
            began_ns = self._app.clock.monotonic_ns()
            try:
                stored, carried = part_of_question(
                    self._app, step.file, stored, lambda _: None, timed, allow_dangerous=self._allow_dangerous
                )
            finally:
                self._spend(step, (self._app.clock.monotonic_ns() - began_ns) / 1e9)
            if carried.interrupted:
                return None
        return part_of_log(stored.trial, self._app.trials.log(stored.trial), self._seconds(stored))

    def _fleet_part(self, step: SearchStep, *, as_json: bool) -> SearchPart | None:
        """Run a trial on all machines of the fleet, or the rest of it; return None if interrupted."""
        assert self._machines is not None, "only a search with a fleet has such steps"
        app = self._app
        began_ns = app.clock.monotonic_ns()
        app.leave_machine()  # it may be one of the fleet
        try:
            standing = measure_everywhere(app, step.file, self._machines, as_json=as_json)
        finally:
            self._spend(step, (app.clock.monotonic_ns() - began_ns) / 1e9)
        if standing is None:
            return None
        app.lock_trials()
        return part_of_fleet(standing, finished_logs(standing, app.trials.log), self._state.seconds[step.file.name])

    def _spend(self, step: SearchStep, spent_s: float) -> None:
        """Store the time of a trial whose runs do not show it: guests boot before them, machines run them together."""
        if step.file.guest is None and not step.is_everywhere:
            return
        before_s = self._state.seconds.get(step.file.name, 0.0)
        seconds_of = {**self._state.seconds, step.file.name: before_s + spent_s}
        self._state = msgspec.structs.replace(self._state, seconds=seconds_of)
        self._save()

    def _is_over(self, stored: StoredTrial) -> bool:
        return isinstance(self._app.trials.log(stored.trial)[-1], TrialEnd)

    def _seconds(self, stored: StoredTrial) -> float:
        """Return how long the trial took, without the time of interruptions."""
        if stored.file.name in self._state.seconds:
            return self._state.seconds[stored.file.name]
        starts = sorted(one.started_unix_ms / 1000 for one in self._app.run_store.records(stored.session))
        gaps = [later - sooner for sooner, later in itertools.pairwise(starts)]
        usual = statistics.median(gaps) if gaps else 0.0
        return sum(min(gap, _LONGEST_GAP * usual) for gap in gaps) + usual

    def _write_files(self, step: SearchStep) -> None:
        for point in step.points.values():
            for path, text in self.question.config_files(point).values():
                place = Path(path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")

    def _answer_probe(self, probe: ProbeRequest) -> ProbeReply | None:
        """Set each point once; say which the machine refuses, and which values it takes instead.

        Return None if interrupted between two guests.
        """
        if self.question.trial.guest is not None:
            try:
                found = GuestProbes(self._app, self.question).answer(probe, self._probe)
            except KeyboardInterrupt:
                return None
        else:
            tried = [self._probe(None, point) for point in probe.points]
            found = ProbeReply(refused=tuple(why for why, _ in tried), clamped=tuple(taken for _, taken in tried))
        self._state = msgspec.structs.replace(self._state, probes=(*self._state.probes, found))
        self._save()
        return found

    def _probe(self, root: AgentSession | None, point: Point) -> tuple[str | None, dict[str, Scalar]]:
        """Set a point once in this root session, or on this machine; return why that fails, and clamped values."""
        arm = self.question.arm(point)
        if not arm.set:
            return None, {}
        file = msgspec.structs.replace(self.question.control_trial, arms={CONTROL: ArmFile(), "point": arm})
        root = root or self._app.root_session(f"search {self.question.name}")
        try:
            plan = arm_plans(file, root, self._app.catalog, allow_dangerous=self._allow_dangerous)["point"]
        except (BadInput, Refused) as error:
            return error.message, {}
        if plan.empty:
            return None, {}
        applied = apply_plan(root, plan, _LEASE)
        why = refusal_of(applied)
        if why is not None:
            return why, {}
        taken = {step.path: str(step.now) for step in applied.steps if step.outcome == "clamped"}
        revert(root, applied.transaction)
        return None, self._clamped(plan.changes, taken)

    def _clamped(self, changes: Sequence[Change], taken: Mapping[str, str]) -> dict[str, Scalar]:
        """Return, by dimension, the values that the kernel took instead of the requested ones."""
        names = {one.name: one for one in self.question.space.dimensions}
        found: dict[str, Scalar] = {}
        for change in changes:
            name = change.address if change.address in names else change.knob
            if change.path in taken and name in names:
                text = taken[change.path].strip()
                is_number = names[name].is_range or all(type(one) is int for one in names[name].values)
                found[name] = int(text) if is_number and text.lstrip("-").isdecimal() else text
        return found

    def _tell(self, course: SearchCourse, *, as_json: bool) -> None:
        """Report the state of the search after a trial."""
        now = course.progress()
        if as_json:
            sys.stdout.write(plain_json.line(now))
        self._app.say(progress_text(now))


def _state_of(data: bytes, file: str) -> SearchState:
    try:
        return msgspec.json.decode(data, type=SearchState)
    except msgspec.DecodeError as error:
        hint = "remove the file (another version of ktrial may have written it), or start over with --fresh"
        raise BadInput(f"cannot read a stored search: {in_lower_case(str(error))}", file=file, hint=hint) from None


def write_page(app: App, found: SearchAnswer, path: Path) -> None:
    """Write the report of a search. Raise BadInput if it measured nothing."""
    from ktrial.cli.shared.trial_outcome import load_comparison
    from ktrial.compare.files import write_file
    from ktrial.studies.search.page import search_html

    if not found.trials:
        raise BadInput(f"cannot write {path}: nothing was measured", hint="remove the cause that the answer names")
    last = found.confirmed_by or found.trials[-1]
    stays = last not in found.machines
    comparison = load_comparison(app, app.trials.find(last)) if stays else comparison_of_fleet(app, last)
    write_file(path, search_html(found, comparison).encode())
    app.say(f"wrote {path}")


def show(found: SearchAnswer, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(plain_json.line({"event": "search", "search": found}))
    else:
        sys.stdout.write(search_text(found, width=columns()))

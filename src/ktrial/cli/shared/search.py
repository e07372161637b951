# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial search`: defines the space on this machine, runs probes and trials, and shows the answer."""

from __future__ import annotations

import itertools
import math
import secrets
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.bench.text import duration
from ktrial.cli.shared.bench import give_programs_of
from ktrial.cli.shared.ledger import note
from ktrial.cli.shared.long_runs import TimedTrial, newest_runs
from ktrial.cli.shared.run_trial import part_of_question
from ktrial.cli.shared.search_guests import (
    GuestProbes,
    guest_visit_seconds,
    guests_of,
    kernel_text,
    planning_session,
    symbol_defaults,
)
from ktrial.cli.shared.trial_options import template_file
from ktrial.cli.shared.trial_start import look_at
from ktrial.judge.model.log import TrialEnd
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, Refused, UnknownName, in_lower_case
from ktrial.kit.tables import columns
from ktrial.machine.transactions import revert
from ktrial.studies.search.course import SearchCourse, fewest_visits
from ktrial.studies.search.dimension_file import DimensionFile
from ktrial.studies.search.front import course_of, refuse_outcomes
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
    Space,
    SpaceFile,
    parse_space,
    placeholders_in,
    plain,
    resolve_space,
)
from ktrial.studies.search.text import progress_text, search_text
from ktrial.studies.suggest import candidates_of
from ktrial.trial.arms.arms import refusal_of
from ktrial.trial.arms.plan_arms import arm_plans
from ktrial.trial.guests.model import check_guest_trial
from ktrial.trial.protocol.file import CONTROL, ArmFile, seconds
from ktrial.trial.protocol.forecast import expected_run_seconds
from ktrial.trial.protocol.from_words import pairs
from ktrial.trial.run.progress import TrialProgress
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.value import kernel_text as value_text
from ktrial.tuning.knobs.value import same_value
from ktrial.tuning.plans.resolve import apply_plan, make_plan
from ktrial.tuning.state.saved import SavedStates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.studies.goals import Candidate
    from ktrial.studies.search.space import Point
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.knobs.knob import Knob
    from ktrial.tuning.plans.model import Change, Plan

#: A gap between two runs counts as at most this many usual gaps; the rest of it is an interruption.
_LONGEST_GAP = 5.0
_LEASE = {"kind": "while-session"}


def search_question(
    app: App, word: str, own: tuple[str, ...] | None, options: Mapping[str, Any]
) -> tuple[SearchQuestion, str]:
    """Return the question for this machine, and the text that identifies the same command later."""
    file, measured, folder = _space_file(app, word, options)
    guests = guests_of(app, file, folder, options)
    suite = options["suite"] or (measured[0] if own is None else None)
    if own is None and suite is None:
        raise BadInput("nothing to measure", hint="add --suite NAME, or -- CMD with --metric")
    give_programs_of(app, suite)
    files = _templates(file, folder)
    if files and app.host is not None:
        raise BadInput(
            f"cannot write configuration files on --host {app.host.word}",
            hint="leave out --host, or put the values into the command",
        )
    trial = template_file(
        f"search-{file.name}",
        own,
        {**options, "time_": None},
        {},
        suite=suite,
        primary=options["primary"] or (measured[1] if options["suite"] is None and own is None else None),
        secondary=(*options["also"], *options["secondary"]),
        guards=pairs(options["guards"], "--guard"),
        parameters=pairs(options["given"], "-p"),
        arms={},
        guest=None if guests is None else guests.guest,
    )
    check_guest_trial(trial)
    _check_placeholders(file, trial, files)
    budget_s = seconds(options["budget"], "--budget")
    if budget_s <= 0:
        raise BadInput("--budget 0 leaves no time for a run", hint="for example  --budget 2h")
    symbols = symbol_defaults(app, file, trial)
    with planning_session(app, file, trial) as session:
        space = _space_here(app, session, file, symbols, allow_dangerous=options["yes_dangerous"])
    name = f"search-{file.name}-{secrets.token_hex(3)}"
    question = SearchQuestion(
        name=name,
        space=space,
        trial=trial,
        seed=secrets.randbelow(2**31) if options["seed"] is None else options["seed"],
        budget_s=budget_s,
        sampler=options["sampler"],
        files=files,
        folder=str(state_folder() / "searches" / "files"),
        kernels={} if guests is None else guests.kernels,
        also=options["also"],
    )
    refuse_outcomes(question)
    host = [] if app.host is None else [app.host.word]
    asked = plain_json.line([file, files, trial, budget_s, options["sampler"], options["seed"], options["also"], *host])
    return msgspec.structs.replace(question, visit_s=_visit_seconds(app, question)), asked


def _space_file(
    app: App, word: str, options: Mapping[str, Any]
) -> tuple[SpaceFile, tuple[str | None, str | None], Path]:
    """Return the space of a file or goal, the suite and outcome that measure a goal, and the folder of the file."""
    if word in app.goals:
        return *_of_goal(app, word, options["suite"]), Path()
    path = Path(word)
    if not path.is_file():
        hint = f"name a goal ({', '.join(app.goals)}) or write a space file (docs/search.md)"
        raise UnknownName("goal or space file", word, app.goals, hint=hint)
    return parse_space(path.read_bytes(), word), (None, None), path.parent


def _of_goal(app: App, name: str, suite: str | None) -> tuple[SpaceFile, tuple[str | None, str | None]]:
    """Return the space of a goal's candidates that one benchmark can measure, and its suite and outcome."""
    session = app.best_session("reading all values")
    found = candidates_of([app.goals[name]], session, app.catalog).candidates
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for one in found:
        if one.risk != "dangerous":
            groups.setdefault((one.measure.suite, one.measure.primary), []).append(one)
    if suite is not None:
        groups = {key: some for key, some in groups.items() if key[0] == suite} or {(suite, ""): list(found)}
    if not groups:
        raise BadInput(f"no setting of {name} has an effect here", hint="name another goal, or write a space file")
    measure, chosen = max(groups.items(), key=lambda item: len(item[1]))
    values: dict[str, list[Scalar]] = {}
    for one in chosen:
        address = next(iter(one.settings)) if len(one.settings) == 1 else one.knob
        for text in (*one.now.values(), *one.settings.values()):
            if text is not None and text not in values.setdefault(address, []):
                values[address].append(text)
    dimensions = tuple(DimensionFile(knob=address, values=tuple(some)) for address, some in values.items())
    return SpaceFile(name=name, dimension=dimensions), (measure[0], measure[1] or None)


def _templates(file: SpaceFile, folder: Path) -> dict[str, str]:
    """Return the texts of the configuration templates by placeholder."""
    found = {}
    for name, path in file.files.items():
        place = folder / path
        try:
            found[name] = place.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            hint = "give the path of a text file, relative to the space file"
            raise BadInput(f"cannot read the template {place}: {why}", hint=hint) from None
    return found


def _check_placeholders(file: SpaceFile, trial: TrialFile, files: Mapping[str, str]) -> None:
    """Raise BadInput for a placeholder or file that nothing uses."""
    words = [*trial.command, *(word for step in trial.prepare or () for word in step)]
    used = {name for text in (*words, *files.values()) for name in placeholders_in(text)}
    for one in file.dimension:
        if one.placeholder is not None and one.placeholder not in used:
            hint = f"write {{{one.placeholder}}} in the command or in a template"
            raise BadInput(f"nothing uses the placeholder {one.placeholder}", hint=hint)
    for name in files:
        if name not in used:
            raise BadInput(f"the command does not use the file {name}", hint=f"write {{{name}}} for the file's path")


def _space_here(
    app: App, session: AgentSession, file: SpaceFile, symbols: Mapping[str, Scalar], *, allow_dangerous: bool
) -> Space:
    """Return the space with the machine's values; what this machine cannot set is left out."""
    defaults: dict[str, Scalar] = dict(symbols)
    left_out: dict[str, str] = {}
    dimensions = []
    for one in file.dimension:
        if one.knob is None:
            dimensions.append(one)
            continue
        knob = find_knob(one.knob, app.catalog.knobs)
        tried = one.values or tuple(end for end in (one.low, one.high) if end is not None)
        plans = {value: _plan_of(app, session, one.knob, value, allow_dangerous) for value in tried}
        refused = {value: plan.refusals[0].reason for value, plan in plans.items() if _is_refused(plan)}
        fine = [plan for value, plan in plans.items() if value not in refused]
        changes = [change for plan in fine for change in (*plan.changes, *plan.same)]
        if not fine or (refused and not one.values) or not changes:
            left_out[one.name] = next(iter(refused.values()), "it has no value on this machine")
            dimensions.append(one)
            continue
        left_out |= {f"{one.name} = {value}": why for value, why in refused.items()}
        kept = tuple(value for value in one.values if value not in refused)
        one = msgspec.structs.replace(one, values=kept)  # noqa: PLW2901
        value_text(knob, (kept or tried)[0])
        dimensions.append(one)
        default = defaults[one.name] = one.default if one.default is not None else _default(one, knob, changes[0])
        if one.values and all(value == default for value in one.values):
            left_out[one.name] = f"only its present value, {default}, can be set"
    resolved = msgspec.structs.replace(file, dimension=tuple(dimensions))
    return resolve_space(resolved, defaults, left_out)


def _plan_of(app: App, session: AgentSession, knob: str, value: Scalar, allow_dangerous: bool) -> Plan:
    return make_plan(session, app.catalog, (f"{knob}={plain(value)}",), allow_dangerous=allow_dangerous)[0]


def _is_refused(plan: Plan) -> bool:
    return bool(plan.refusals) and plan.empty and not plan.same


def _default(one: DimensionFile, knob: Knob, change: Change) -> Scalar:
    """Return the machine's value; if the dimension lists an equal value, such as 1 for Y, return the listed one."""
    text = change.old_text or ""
    if one.values:
        return next((value for value in one.values if same_value(knob, value_text(knob, value), text)), text)
    try:
        return int(text) if isinstance(one.low, int) else float(text)
    except ValueError:
        raise BadInput(
            f"{one.name} reads {text!r} here, which is not a number", hint="list values in the space file"
        ) from None


def _visit_seconds(app: App, question: SearchQuestion) -> float | None:
    """Return how long a visit takes, from earlier runs; None if unknown. Raise an error if no trial can run."""
    if not app.may_run_trials:
        return None
    control = question.arm(question.space.control)
    arms = {CONTROL: control, "placebo": ArmFile(placebo=True)}
    file = msgspec.structs.replace(question.control_trial, arms=arms)
    tasks = look_at(app, file, allow_dangerous=False)
    if file.guest is not None:
        return guest_visit_seconds(app, file)
    facts = app.best_session("planning the search").facts()
    run_s = expected_run_seconds(newest_runs(app, {task.label for task in tasks}), tasks, file.command, facts)
    if run_s is None:
        return None
    knobs = [parse_address(one.name).knob for one in question.space.dimensions if one.kind == "knob"]
    waits = [app.catalog.knobs[name].settle_s for name in knobs if name in app.catalog.knobs]
    settle_s = file.settle_s if file.settle_s is not None else max(waits, default=0.0)
    return run_s + settle_s


def refuse_budget(question: SearchQuestion) -> None:
    """Raise BadInput if the budget is known to be too small to confirm anything."""
    fewest = fewest_visits(question.outcomes)
    if question.visit_s and question.budget_s / question.visit_s < fewest:
        needed_min = math.ceil(fewest * question.visit_s / 60)
        raise BadInput(
            f"the budget is too small to confirm anything: a search needs at least {fewest} measurements of "
            f"{duration(question.visit_s)}",
            hint=f"use --budget {needed_min}min or more, or shorter runs",
        )


class SearchRun:
    """A search on this machine or in guests, stored so that it can be resumed."""

    def __init__(self, app: App, question: SearchQuestion, asked: str, *, fresh: bool, allow_dangerous: bool) -> None:
        if not app.may_run_trials:
            raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
        self._app = app
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
                hint=f"boot {state.kernel}, or start over with --fresh",
            )
        if state.question.space != question.space:
            raise Refused(
                f"cannot resume {name}: values of this machine have changed since it began",
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

    def _spend(self, step: SearchStep, spent_s: float) -> None:
        """Store the time of a trial in guests, whose runs do not show how long the boots before them took."""
        if step.file.guest is None:
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
        raise BadInput(f"cannot write {path}: nothing was measured", hint="raise --budget")
    stored = app.trials.find(found.confirmed_by or found.trials[-1])
    write_file(path, search_html(found, load_comparison(app, stored)).encode())
    app.say(f"wrote {path}")


def show(found: SearchAnswer, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(plain_json.line({"event": "search", "search": found}))
    else:
        sys.stdout.write(search_text(found, width=columns()))

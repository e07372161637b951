# SPDX-License-Identifier: Apache-2.0
"""The question of `ktrial search`: what is measured, and the space of values on this machine."""

from __future__ import annotations

import math
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.agent.user_folders import state_folder
from ktrial.bench.text import duration
from ktrial.cli.shared.bench import give_programs_of
from ktrial.cli.shared.long_runs import newest_runs
from ktrial.cli.shared.search_guests import (
    guest_visit_seconds,
    guests_of,
    planning_session,
    symbol_defaults,
)
from ktrial.cli.shared.trial_options import template_file
from ktrial.cli.shared.trial_start import look_at
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.studies.search.course import fewest_visits
from ktrial.studies.search.dimension_file import DimensionFile
from ktrial.studies.search.front import refuse_outcomes
from ktrial.studies.search.model import (
    SearchQuestion,
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
from ktrial.studies.suggest import candidates_of
from ktrial.trial.guests.model import check_guest_trial
from ktrial.trial.protocol.file import CONTROL, ArmFile, seconds
from ktrial.trial.protocol.forecast import expected_run_seconds
from ktrial.trial.protocol.from_words import pairs
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.value import kernel_text as value_text
from ktrial.tuning.knobs.value import same_value
from ktrial.tuning.plans.resolve import make_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.studies.goals import Candidate
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.tuning.knobs.knob import Knob
    from ktrial.tuning.plans.model import Change, Plan


def search_question(
    app: App, word: str, own: tuple[str, ...] | None, options: Mapping[str, Any]
) -> tuple[SearchQuestion, str]:
    """Return the question for this machine, and the text that identifies the same command later."""
    file, measured, folder = _space_file(app, word, options)
    guests = guests_of(app, file, folder, options)
    suite = options["suite"] or (measured[0] if own is None else None)
    if own is None and suite is None:
        raise BadInput("nothing to measure", hint="add --suite NAME, or a command after --")
    give_programs_of(app, suite)
    files = _templates(file, folder)
    if files and (app.host is not None or options["inventory"]):
        option = "-i" if app.host is None else "--host"
        raise BadInput(
            f"{option}: cannot write configuration files on other machines",
            hint=f"leave out {option}, or put the values into the command",
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
        fleet=bool(options["inventory"]),
    )
    refuse_outcomes(question)
    where = [] if app.host is None else [app.host.word]
    where += [*options["inventory"], options["machines"]] if options["inventory"] else []
    asked = plain_json.line(
        [file, files, trial, budget_s, options["sampler"], options["seed"], options["also"], *where]
    )
    return msgspec.structs.replace(question, visit_s=_visit_seconds(app, question)), asked


def _space_file(
    app: App, word: str, options: Mapping[str, Any]
) -> tuple[SpaceFile, tuple[str | None, str | None], Path]:
    """Return the space of a file or goal, the suite and outcome that measure a goal, and the folder of the file."""
    if word in app.goals:
        return *_of_goal(app, word, options), Path()
    path = Path(word)
    if not path.is_file():
        hint = f"name a goal ({', '.join(app.goals)}) or write a space file (docs/search.md)"
        raise UnknownName("goal or space file", word, app.goals, hint=hint)
    return parse_space(path.read_bytes(), word), (None, None), path.parent


def _of_goal(app: App, name: str, options: Mapping[str, Any]) -> tuple[SpaceFile, tuple[str | None, str | None]]:
    """Return the space of a goal's candidates that one benchmark can measure, and its suite and outcome."""
    session = app.best_session("reading all values")
    dangerous, suite = options["yes_dangerous"], options["suite"]
    found = candidates_of([app.goals[name]], session, app.catalog, allow_dangerous=dangerous).candidates
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for one in found:
        groups.setdefault((one.measure.suite, one.measure.primary), []).append(one)
    if suite is not None:
        groups = {key: some for key, some in groups.items() if key[0] == suite} or {(suite, ""): list(found)}
    if not groups:
        raise BadInput(
            f"cannot search for the goal {name}: none of its settings would change anything here",
            hint="name another goal, or write a space file",
        )
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
            hint = "name a text file that you may read, with a path relative to the space file"
            raise BadInput(f"cannot read the template {place}: {why}", hint=hint) from None
    return found


def _check_placeholders(file: SpaceFile, trial: TrialFile, files: Mapping[str, str]) -> None:
    """Raise BadInput for a placeholder or file that nothing uses."""
    words = [*trial.command, *(word for step in trial.prepare or () for word in step)]
    used = {name for text in (*words, *files.values()) for name in placeholders_in(text)}
    for one in file.dimension:
        if one.placeholder is not None and one.placeholder not in used:
            hint = f"write {{{one.placeholder}}} in the command after --, or in a template"
            raise BadInput(f"nothing uses the placeholder {one.placeholder}", hint=hint)
    for name in files:
        if name not in used:
            hint = f"write {{{name}}} for the file's path in the command after --"
            raise BadInput(f"no command uses the file {name}", hint=hint)


def _space_here(
    app: App, session: AgentSession, file: SpaceFile, symbols: Mapping[str, Scalar], *, allow_dangerous: bool
) -> Space:
    """Return the space with the machine's values; what this machine cannot set is left out."""
    defaults: dict[str, Scalar] = dict(symbols)
    left_out: dict[str, str] = {}
    dimensions = []
    together = {parse_address(one.knob).knob for one in file.dimension if one.knob is not None}
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
        inert = _why_inert(knob, changes, together)
        if inert or not fine or (refused and not one.values) or not changes:
            left_out[one.name] = inert or next(iter(refused.values()), "it has no value on this machine")
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


def _why_inert(knob: Knob, changes: Sequence[Change], together: Collection[str]) -> str | None:
    """Return why no value of a knob has an effect here; None if one has, or may have together with another knob."""
    reasons = [change.inert for change in changes]
    depends = any(name in together for rule in knob.inert for name in rule.unless)
    return reasons[0] if reasons and all(reasons) and not depends else None


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
            f"cannot search a range of {one.name}: its value on this machine is {text!r}, not a number",
            hint=f"give {one.name} a list of values in the space file, instead of a range",
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

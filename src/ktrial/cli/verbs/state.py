# SPDX-License-Identifier: Apache-2.0
"""`ktrial state`: save, show and compare the tunable state of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, output_option, spelled_words, write_answer, write_json
from ktrial.kit.errors import AgentError, BadInput, GuardTripped

if TYPE_CHECKING:
    from ktrial.tuning.state.diff import Declaration
    from ktrial.tuning.state.state import MachineState

_NOW = "now"
_PURPOSE = "reading the state of this machine"
_SIDE = "NAME|FILE|SESSION[:PLACE]|LABEL[:PLACE]|now"


@click.group(short_help="Save, show and compare all settings of the machine.")
def command() -> None:
    """Save, show and compare the machine's tunable state: knobs, /proc/sys, modules, kernel command line, services."""


@command.command(short_help="Save the present state.")
@click.argument("name", required=False)
@output_option("Write to FILE instead of saving under NAME.")
@click.option("--force", is_flag=True, help="Overwrite NAME or FILE if it exists.")
@click.pass_obj
def save(app: App, name: str | None, output: Path | None, force: bool) -> None:
    """Save the present state of the machine under NAME or in FILE.

    Run the command as root to include what only root can read: some knobs, and the scheduler's features.
    """
    from ktrial.cli.shared.bench import check_output
    from ktrial.tuning.state.saved import write_whole

    if (name is None) == (output is None):
        raise BadInput("expected either NAME or -o FILE", hint="ktrial state save NAME")
    check_output(output, force=force)
    if name is not None and app.saved_states.has(name) and not force:
        raise BadInput(
            f"state {name!r} exists already", hint="choose another name, or add --force to replace the state"
        )
    state = _now(app)
    if output is not None:
        write_whole(output, state.canonical())
    place = output if name is None else app.saved_states.save(name, state.canonical())
    app.say(f"saved {len(state.knobs)} knobs and {len(state.files)} files in {place}")


@command.command(short_help="Show a summary of a state.")
@click.argument("which", default=_NOW, metavar=f"[{_SIDE}]")
@json_option
@click.pass_obj
def show(app: App, which: str, as_json: bool) -> None:
    """Show a summary of a state (default: now), or the whole state with --json."""
    from ktrial.tuning.state.state_text import state_text

    state, _ = _state(app, which)
    write_answer(as_json, lambda: state, lambda width: state_text(state, width=width))


@command.command(short_help="Show the differences between two states.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option(
    "--declared",
    multiple=True,
    shell_complete=knob_names,
    metavar="KNOB|PATH",
    help="Knob or path that is meant to differ. Repeatable.",
)
@click.option(
    "--plan",
    "plans",
    multiple=True,
    callback=spelled_words,
    metavar="PROFILE|FILE|KNOB=VALUE",
    help="Profile or setting that is meant to differ. Repeatable.",
)
@click.option("--fail-on", type=click.Choice(["undeclared"]), help="Exit with status 3 if a difference is undeclared.")
@json_option
@click.pass_obj
def diff(
    app: App,
    before: str,
    after: str,
    declared: tuple[str, ...],
    plans: tuple[str, ...],
    fail_on: str | None,
    as_json: bool,
) -> None:
    """Show the differences between two states, and which of them were intended (declared).

    \b
    ktrial state save before
    ktrial state diff before now

    BEFORE and AFTER are each a saved NAME, a FILE, `now`, a stored SESSION, or a LABEL (its newest state). If a
    session has several states, write SESSION:PLACE, such as SESSION:end. A difference is declared if --declared or
    --plan names it, or if `ktrial apply` made it and the transaction is still in force.
    """
    from ktrial.kit.tables import columns
    from ktrial.tuning.state.snapshot import compare_states
    from ktrial.tuning.state.state_text import difference_json, difference_text

    (first, first_place), (second, second_place) = _state(app, before), _state(app, after)
    states = first, second
    declarations, notes = _declarations(app, declared, plans)
    notes += [f"{name}: {place}." for name, place in ((before, first_place), (after, second_place)) if place]
    found = compare_states(*states, declarations)
    if as_json:
        digests = states[0].sha256, states[1].sha256
        write_json({**difference_json(found, (before, after), digests), "notes": notes})
    else:
        sys.stdout.write(difference_text(found, (before, after), notes, width=columns()))
    if fail_on is not None and found.undeclared:
        count = len(found.undeclared)
        raise GuardTripped(
            f"{count} undeclared difference{'s'[: count != 1]}",
            hint="declare intended differences with --declared or --plan",
        )


def _declarations(app: App, declared: tuple[str, ...], plans: tuple[str, ...]) -> tuple[list[Declaration], list[str]]:
    """Return the declared differences, and notes on what ktrial cannot read."""
    from ktrial.tuning.plans.resolve import requests_from
    from ktrial.tuning.state.snapshot import declared_knobs, declared_settings, declared_transactions

    found = list(declared_knobs(declared, app.catalog))
    if plans:
        catalog, words = app.catalog_for(plans)
        found += declared_settings(requests_from(words, catalog), catalog)
    try:
        return [*found, *declared_transactions(app.best_session(_PURPOSE), app.catalog)], []
    except AgentError as error:
        if error.kind == "lost":
            raise
        return found, [f"Changes by `ktrial apply` do not count as declared: {error.message}."]


def _now(app: App) -> MachineState:
    from ktrial.tuning.state.snapshot import take_state

    return take_state(app.best_session(_PURPOSE), app.catalog)


def _state(app: App, which: str) -> tuple[MachineState, str | None]:
    """Return the state that a word names, and its place in the store; None for a place elsewhere."""
    from ktrial.tuning.state.saved import read_limited
    from ktrial.tuning.state.state import parse_state

    if which == _NOW:
        return _now(app), None
    if app.saved_states.has(which):
        return parse_state(*app.saved_states.read(which)), None
    if "/" in which or Path(which).is_file():
        return parse_state(read_limited(Path(which)), which), None
    from ktrial.tuning.state.find_state import stored_state

    data, place = stored_state(app.store, which, app.saved_states.names())
    return parse_state(data, which), place

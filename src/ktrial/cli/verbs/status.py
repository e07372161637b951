# SPDX-License-Identifier: Apache-2.0
"""`ktrial status`: an overview of what ktrial changed and tried on this machine, or a check for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ktrial.agent.binary import AgentNotFound
from ktrial.cli.app import App
from ktrial.cli.options import json_option, settings_words, write_answer
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(short_help="Show applied and kept settings, trials, and next steps.")
@settings_words("[PROFILE|FILE|KNOB=VALUE…]")
@click.option(
    "--check", is_flag=True, help="Compare what is kept, or the settings that you name, with the live values."
)
@click.option("--glance", is_flag=True, hidden=True)
@json_option
@click.pass_obj
def command(app: App, words: tuple[str, ...], check: bool, glance: bool, as_json: bool) -> int:
    """Show what is applied and kept, which trials are not over, the last verdicts, and what to do next.

    ktrial lists the transactions in force with their time limits, unfinished transactions with the reason, and damaged
    journals. `kept` settings last across boots (`ktrial keep`); `applied` settings end with the next boot.

    Settings as arguments need --check. With --check, the exit status is 3 if something differs and 6 if nothing is
    kept, otherwise 0. If you name settings, 6 means that at least one of them is neither kept nor applied.
    """
    if check:
        return _check(app, words, as_json=as_json)
    if words:
        raise BadInput(f"cannot list {words[0]}: status takes settings only to check them", hint="add --check")
    from ktrial.cli.shared.overview import gather_overview
    from ktrial.studies.overview_text import overview_json, overview_text
    from ktrial.tuning.lasting.kept_files import kept_transactions
    from ktrial.tuning.plans.transaction_text import status_text

    try:
        answer, found, overview = gather_overview(app, may_ask=not glance)
    except AgentNotFound as error:
        if not glance:
            raise
        sys.stdout.write(f"{click.get_current_context().find_root().get_help()}\n")
        app.say(f"found no agent, without which ktrial cannot read or change a machine; next: {error.hint}")
        return 0
    kept = [one.transaction for one in kept_transactions(found)] if found is not None else []

    def text(width: int) -> str:
        head = f"{status_text(found, width=width)}\n" if found is not None else ""
        tail = "\n`ktrial --help` lists all commands.\n" if glance else ""
        return f"{head}{overview_text(overview, width=width)}{tail}"

    unread = {"untold": ["what is applied and kept: only root can read the journal"]}
    journal = unread if answer is None else {**answer, "kept": kept}
    write_answer(as_json, lambda: {"schema": "ktrial.status/1", **journal, **overview_json(overview)}, text)
    return 0


def _check(app: App, words: Sequence[str], *, as_json: bool) -> int:
    from ktrial.cli.shared.kept_state import read_drift
    from ktrial.tuning.lasting.compliance import STATUS, check_kept, check_plan, compliance_json, compliance_text

    session = app.root_session("comparing what is kept with what is live")
    status, _, drift = read_drift(app, session)
    if words:
        from ktrial.tuning.plans.resolve import check_words, make_plan

        catalog, names = app.catalog_for(words)
        check_words(names, catalog)
        plan, _ = make_plan(session, catalog, names, allow_dangerous=True)
        found = check_plan(plan, drift, status, catalog.knobs)
    else:
        found = check_kept(drift)
    write_answer(as_json, lambda: compliance_json(found), lambda width: compliance_text(found, width=width))
    return STATUS[found.answer]

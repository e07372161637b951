# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep --undo`: removes all kept files, or single settings from them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktrial.cli.options import is_terminal, write_json
from ktrial.kit.errors import UnknownName
from ktrial.kit.tables import columns
from ktrial.machine.transactions import Reverted, Status, is_open, revert, text_of
from ktrial.tuning.knobs.address import is_assignment, parse_assignment
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.value import active_text
from ktrial.tuning.lasting.boot_words import name_of
from ktrial.tuning.lasting.keep_plan import without
from ktrial.tuning.lasting.kept_files import kept_entries, kept_transactions
from ktrial.tuning.lasting.model import Form, KeepPlan, KeptFile
from ktrial.tuning.plans.confirm import must_agree
from ktrial.tuning.plans.model import Plan, Request
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.resolve import context_for
from ktrial.tuning.plans.transaction_text import has_left_some, revert_text

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App


def undo_all(app: App, session: AgentSession, status: Status, *, dry_run: bool, asks: bool, as_json: bool) -> int:
    """Undo every transaction that keeps settings, the newest first."""
    transactions = kept_transactions(status)
    if asks and transactions and not dry_run and is_terminal():
        sys.stdout.writelines(f"transaction {one.transaction}: {one.title}\n" for one in transactions)
        must_agree("Undo?")
    done: list[Reverted] = []
    if not dry_run:
        for one in transactions:
            done.append(revert(session, one.transaction))
            if is_open(done):
                break
    if as_json:
        numbers = [one.transaction for one in transactions]
        write_json({"schema": "ktrial.unkept/1", "kept": numbers, "transactions": done})
    elif not transactions:
        sys.stdout.write("Nothing is kept.\n")
    elif dry_run:
        for one in transactions:
            sys.stdout.write(f"would undo transaction {one.transaction}: {one.title}\n")
    else:
        sys.stdout.write(revert_text(done, width=columns()))
    if any(not one.this_boot for one in transactions) and not dry_run:
        app.say("values of an earlier boot's transaction stay live until the next boot")
    return int(is_open(done) or has_left_some(done))


def plan_undo(
    app: App, session: AgentSession, words: Sequence[str], status: Status, kept: Mapping[Form, KeptFile]
) -> KeepPlan | None:
    """Return the plan that removes single settings from the kept files; None if the plan would empty all files."""
    entries = kept_entries(kept)
    addresses = {address for entry in entries for address in entry.values}
    wanted = [str(parse_assignment(word)[0]) if is_assignment(word) else word for word in words]
    for name in wanted:
        if name not in addresses:
            raise UnknownName("kept setting", name, addresses, hint="run `ktrial drift --json` to see kept settings")
    gone = {address for entry in entries if entry.values.keys() & set(wanted) for address in entry.values}
    # Undoing a word also restores the kernel argument that the word replaced.
    added = {name_of(entry) for entry in entries if "name" in entry.holds and entry.values.keys() & gone}
    replaced = [entry for entry in entries if "removes" in entry.holds and name_of(entry) in added]
    gone |= {address for entry in replaced for address in entry.values}
    if gone == addresses:
        return None
    live = old_values(app, session, gone, status)
    return KeepPlan(live=live, files=without(kept, gone), entries=())


def old_values(app: App, session: AgentSession, addresses: set[str], status: Status) -> Plan:
    """Return the plan that restores the values that these settings had before they were kept in this boot."""
    old: dict[str, Any] = {}
    for one in kept_transactions(status):
        for step in one.steps if one.this_boot else ():
            if step.knob in addresses and step.old is not None:
                old[step.knob] = text_of(step.old)
    catalog = app.catalog
    settings = []
    for address, shown in old.items():
        knob = catalog.knobs.get(address.partition("@")[0])
        if knob is None:
            app.say(f"{address} keeps its value until the next boot: the catalog no longer has this knob")
        else:
            settings.append(Setting(knob=address, value=active_text(knob, shown)))
    requests = [Request("the value before", tuple(settings))]
    title = f"--undo {' '.join(sorted(addresses))}"
    return resolve(title, requests, context_for(session, catalog, requests, session.facts()), allow_dangerous=True)

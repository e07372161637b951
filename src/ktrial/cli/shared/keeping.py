# SPDX-License-Identifier: Apache-2.0
"""Turns the words of `ktrial keep` into settings with the verdicts that justify them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.cli.shared.ledger import kept_ledger, ledger_of
from ktrial.kit.errors import BadInput, NoSuchTransaction, Refused
from ktrial.machine.facts import machine_of
from ktrial.machine.transactions import Status, checked, text_of
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import is_assignment
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.lasting.keep_plan import plan_keep
from ktrial.tuning.lasting.model import PLACES, Form, KeepPlan, KeptFile, LastingEntry, Proof, Rival, Unkept
from ktrial.tuning.lasting.places import Grounds
from ktrial.tuning.lasting.rivals import rivals_of
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.plans.model import Change, Request
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.resolve import check_words, context_for, requests_on

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.facts import FactBook
    from ktrial.studies.ledger.model import LedgerEntry

_SYSTEMD, _GENERATOR = "/run/systemd/system", "/usr/lib/systemd/system-generators/zram-generator"
Proofs = dict[tuple[str, str], Proof]


class KeepWords(msgspec.Struct, frozen=True):
    """The words of `ktrial keep` by what they name."""

    settings: tuple[str, ...]
    transactions: tuple[int, ...]
    trials: tuple[str, ...]


def sort_words(words: Sequence[str], catalog: Catalog) -> KeepWords:
    settings, transactions, trials = [], [], []
    for word in words:
        if word.isdecimal():
            transactions.append(int(word))
        elif is_assignment(word) or word in catalog.profiles or word in catalog.knobs:
            settings.append(word)
        else:
            trials.append(word)
    return KeepWords(tuple(settings), tuple(transactions), tuple(trials))


def plan_words(
    app: App,
    session: AgentSession,
    words: Sequence[str],
    status: Status,
    kept: Mapping[Form, KeptFile],
    *,
    allow_dangerous: bool,
) -> KeepPlan:
    """Return what to write so that the settings named by `words` last, with other writers of them."""
    catalog, names = app.catalog_for(words)
    sorted_words = sort_words(names, catalog)
    if sorted_words.settings:
        check_words(sorted_words.settings, catalog)
    facts = session.facts()
    _refuse_foreign_system(session, facts)
    proofs, unkept, requests = _tested(app, sorted_words.trials, facts, catalog)
    requests += [_of_transaction(number, status) for number in sorted_words.transactions]
    own = requests_on(session, catalog, sorted_words.settings, facts) if sorted_words.settings else ()
    # A setting that is named comes last: it then has the origin that lets it be kept whatever its verdict.
    requests += sorted(own, key=lambda one: one.origin.startswith("setting "))
    named = [one.origin for one in requests if one.origin.startswith("setting ")]
    context = context_for(session, catalog, requests, facts)
    plan = resolve(" ".join(words), requests, context, allow_dangerous=allow_dangerous)
    grounds = Grounds(
        modules=frozenset(facts.value("kernel.modules") or ()),
        has_zram_generator=bool(session.list([_GENERATOR])[_GENERATOR]),
    )
    keep = plan_keep(plan, kept, proofs, grounds, catalog.knobs, named)
    changes = {one.address: one for one in (*plan.changes, *plan.same)}
    rivals = _rivals(session, catalog, keep.entries, changes, facts)
    return msgspec.structs.replace(keep, unkept=(*unkept, *keep.unkept), rivals=rivals)


def _refuse_foreign_system(session: AgentSession, facts: FactBook) -> None:
    if facts.value("os.id") == "nixos":
        raise Refused(
            "cannot keep settings: NixOS makes /etc from its own configuration",
            hint="write them as a module with `ktrial export … --to nixos`",
        )
    if not session.list([_SYSTEMD])[_SYSTEMD]:
        raise Refused(
            "cannot keep settings: systemd does not run here, and nothing else reads these files at boot",
            hint="write them for your system with `ktrial export`",
        )


def _tested(
    app: App, trials: Sequence[str], facts: FactBook, catalog: Catalog
) -> tuple[Proofs, list[Unkept], list[Request]]:
    """Return the verdicts on single settings, and the settings of trials with what is left out of them."""
    machine = machine_of(facts)
    if trials:
        entries = ledger_of(app).entries
    else:
        ledger = kept_ledger(app)
        entries = () if ledger is None else ledger.entries
    proofs: Proofs = {}
    for entry in reversed(entries):
        is_tested = entry.machine == machine and entry.verdict is not None and not entry.placebo
        if is_tested and len(entry.changes) == 1 and not entry.environment:
            (setting,) = entry.changes.items()
            proofs[setting] = _proof(entry)
    unkept: list[Unkept] = []
    requests: list[Request] = []
    for word in trials:
        entry = _better_arm(app, word, entries, machine)
        settings = []
        for address, value in entry.changes.items():
            if address.partition("@")[0] in catalog.knobs:
                settings.append(Setting(knob=address, value=value))
                proofs[address, value] = _proof(entry)
            else:
                unkept.append(Unkept(address, value, "not a knob of the catalog"))
        unkept += [Unkept(name, value, "a variable of a command") for name, value in entry.environment.items()]
        requests.append(Request(f"trial {entry.trial}", tuple(settings)))
    return proofs, unkept, requests


def _proof(entry: LedgerEntry) -> Proof:
    return Proof(trial=entry.trial, verdict=str(entry.verdict), text=verdict_sentence(entry))


def _better_arm(app: App, word: str, entries: Sequence[LedgerEntry], machine: str) -> LedgerEntry:
    """Return the arm that a trial found to be better. Raises Refused if there is none, BadInput if there are more."""
    name, _, wanted = word.partition(":")
    trial = app.trials.find(name).trial
    arms = [one for one in entries if one.trial == trial and not one.placebo and wanted in {"", one.arm}]
    better = [one for one in arms if one.verdict == "better"]
    if not arms:
        raise BadInput(
            f"{trial} has no arm {wanted or 'with settings'}", hint=f"`ktrial trial show {trial}` lists them"
        )
    if not better:
        shown = "; ".join(f"{one.arm} is {verdict_sentence(one)}" for one in arms)
        raise Refused(f"cannot keep {trial}: {shown}", hint=f"to keep it anyway, name the settings: {arms[0].what}")
    if len(better) > 1:
        choice = " or ".join(f"{trial}:{one.arm}" for one in better)
        raise BadInput(f"{trial} has {len(better)} better arms", hint=f"name one: {choice}")
    if better[0].machine != machine:
        raise Refused(
            f"cannot keep {trial}: it was measured on another machine ({better[0].machine})",
            hint=f"repeat it here with `ktrial retest {trial}`, or name the settings: {better[0].what}",
        )
    return better[0]


def _of_transaction(number: int, status: Status) -> Request:
    found = next((one for one in status.transactions if one.transaction == number), None)
    if found is None:
        raise NoSuchTransaction("not-found", f"there is no transaction {number}", hint="`ktrial status` lists them")
    settings = [Setting(knob=one.knob, value=text_of(one.new)) for one in found.steps if one.knob and one.new]
    if not settings:
        raise BadInput(f"transaction {number} wrote no knob", hint="`ktrial status` lists the transactions")
    return Request(f"transaction {number}", tuple(settings))


def _rivals(
    session: AgentSession,
    catalog: Catalog,
    entries: Sequence[LastingEntry],
    changes: Mapping[str, Change],
    facts: FactBook,
) -> tuple[Rival, ...]:
    claims = gather(session)
    services = tuple(facts.value("services.active") or ())
    return tuple(
        rival
        for entry in entries
        for address in entry.values
        if address in changes
        for rival in rivals_of(changes[address], entry.form, catalog.knobs, claims, services)
    )


def refuse_edited(kept: Mapping[Form, KeptFile]) -> None:
    """Raise Refused if somebody edited a kept file."""
    from ktrial.tuning.lasting.keep_text import edited_text

    edited = [file for file in kept.values() if file.is_edited]
    if edited:
        raise Refused(
            f"cannot change {PLACES[edited[0].form]}: it is not what ktrial wrote\n{edited_text(edited[0])}",
            hint="undo the edit, or move it to a file of your own",
        )


def refuse_unwritable(session: AgentSession, plan: Mapping[str, Any]) -> None:
    """Raise Refused if a file cannot be written: /etc is read-only, or its folder is missing."""
    for step in checked(session, plan):
        if step.path in PLACES.values() and step.outcome in {"refused", "absent"}:
            raise Refused(
                f"cannot keep settings: {step.message}",
                hint="write them elsewhere with `ktrial export`, or make the folder writable",
            )


def refuse_losing(rivals: Sequence[Rival]) -> None:
    """Raise Refused if somebody else's value wins over a kept one."""
    winning = [one for one in rivals if one.wins]
    if winning:
        first = winning[0]
        more = f", and {len(winning) - 1} more" if len(winning) > 1 else ""
        value = f" (= {first.value})" if first.value is not None else ""
        raise Refused(
            f"cannot make {first.address} last: {first.place}{value} overrides it {first.when}{more}",
            hint="change it there, or add --anyway",
        )

# SPDX-License-Identifier: Apache-2.0
"""Turns the words of `ktrial keep` into settings with the verdicts that justify them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.cli.shared.lasting_words import NamedSettings, WordReader, proofs_of, sorted_words
from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.facts import machine_of
from ktrial.machine.transactions import Status, checked
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.lasting.keep_plan import plan_keep
from ktrial.tuning.lasting.loaders import NoLoader, judge_loader, look_for_loaders
from ktrial.tuning.lasting.model import PLACES, Form, Guarded, KeepPlan, KeptFile, Proof, Rival
from ktrial.tuning.lasting.places import Grounds
from ktrial.tuning.lasting.rivals import rivals_of
from ktrial.tuning.lasting.sources import sources_of
from ktrial.tuning.lasting.word_rivals import read_grub, rivals_of_words
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.plans.model import Refusal, Why
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.resolve import context_for

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.facts import FactBook
    from ktrial.studies.ledger.model import LedgerEntry

_SYSTEMD, _GENERATOR = "/run/systemd/system", "/usr/lib/systemd/system-generators/zram-generator"


def plan_words(
    app: App,
    session: AgentSession,
    words: Sequence[str],
    status: Status,
    kept: Mapping[Form, KeptFile],
    *,
    allow_dangerous: bool,
    loader: str | None = None,
) -> KeepPlan:
    """Return what to write so that the settings named by `words` last, with other writers of them."""
    catalog, names = app.catalog_for(words)
    facts = session.facts()
    _refuse_foreign_system(session, facts)
    reader = WordReader(app, catalog, session, facts, lambda: status)
    named = [reader.settings_of(word) for word in sorted_words(names)]
    machine = machine_of(facts)
    proofs = {setting: _proof(entry) for setting, entry in proofs_of(app, machine).items()}
    for one in named:
        if one.request.origin.startswith("trial "):
            proof = _proof(_better(one, machine))
            proofs |= {(setting.knob, str(setting.value)): proof for setting in one.request.settings}
    requests = [one.request for one in named]
    own = [request.origin for request in requests if request.origin.startswith("setting ")]
    context = context_for(session, catalog, requests, facts)
    plan = resolve(" ".join(words), requests, context, allow_dangerous=allow_dangerous)
    grounds = Grounds(
        modules=frozenset(facts.value("kernel.modules") or ()),
        has_zram_generator=bool(session.list([_GENERATOR])[_GENERATOR]),
        allow_dangerous=allow_dangerous,
        no_loader=_no_loader(session, plan.refusals, facts, loader),
    )
    keep = plan_keep(plan, kept, proofs, grounds, catalog.knobs, own)
    left = tuple(left for one in named for left in one.left_out)
    rivals = _rivals(session, catalog, keep, facts)
    sources = sources_of(requests, plan, app.catalog.profiles)
    return msgspec.structs.replace(keep, left_out=(*left, *keep.left_out), rivals=rivals, sources=sources)


def _no_loader(
    session: AgentSession, refusals: Sequence[Refusal], facts: FactBook, chosen: str | None
) -> NoLoader | None:
    """Return why kernel arguments cannot be kept, if any of the settings is one."""
    if all(one.kind not in {Why.AT_BOOT, Why.READ_ONLY} for one in refusals):
        return None
    return judge_loader(look_for_loaders(session, facts), chosen)


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


def _proof(entry: LedgerEntry) -> Proof:
    verdict = "refuted" if entry.refuted else str(entry.verdict)
    return Proof(verdict=verdict, text=verdict_sentence(entry))


def _better(named: NamedSettings, machine: str) -> LedgerEntry:
    """Return the verdict on an arm. Raise Refused unless it was found to be better on this machine."""
    entry, origin = named.entry, named.request.origin.removeprefix("trial ")
    settings = " ".join(f"{one.knob}={one.value}" for one in named.request.settings[:4])
    if entry is None or entry.verdict is None:
        raise Refused(f"cannot keep {origin}: it has no verdict yet", hint="`ktrial trial resume` goes on with it")
    if entry.verdict != "better" or entry.refuted:
        raise Refused(
            f"cannot keep {origin}: it is {verdict_sentence(entry)}",
            hint=f"to keep it anyway, name the settings: {settings}",
        )
    if entry.machine != machine:
        raise Refused(
            f"cannot keep {origin}: it was measured on another machine ({entry.machine})",
            hint=f"repeat it here with `ktrial retest {entry.trial}`, or name the settings: {settings}",
        )
    return entry


def _rivals(session: AgentSession, catalog: Catalog, keep: KeepPlan, facts: FactBook) -> tuple[Rival, ...]:
    claims = gather(session)
    services = tuple(facts.value("services.active") or ())
    of_words: tuple[Rival, ...] = ()
    if any(entry.form == "grub.d" for entry in keep.entries):
        of_words = tuple(rivals_of_words(keep.entries, read_grub(session)))
    return of_words + tuple(
        rival
        for entry in keep.entries
        for address in entry.values
        for rival in rivals_of(keep.changes[address], entry.form, catalog.knobs, claims, services)
    )


def show_keep(keep: KeepPlan, *, next_boot: bool) -> None:
    """Write what would be kept to standard output."""
    from ktrial.kit.tables import columns
    from ktrial.tuning.lasting.keep_text import keep_text

    sys.stdout.write(keep_text(keep, next_boot=next_boot, width=columns()))


def report_unwritten(keep: KeepPlan, plan: dict[str, Any], *, as_json: bool, is_complete: bool) -> int:
    """Report a plan that is not carried out; return 1 if nothing of it can be kept."""
    from ktrial.cli.options import write_json
    from ktrial.tuning.lasting.keep_text import keep_json

    if as_json:
        write_json(keep_json(keep, plan, None))
    if not is_complete and keep.left_out:
        first = keep.left_out[0]
        what = first.address if first.value is None else f"{first.address}={first.value}"
        raise Refused(f"cannot keep {what}: {first.reason}", hint=first.hint)
    return 0


def confirm_guarded(guarded: Sequence[Guarded], confirmed: Collection[str], *, may_ask: bool) -> None:
    """Ask for each word that `confirmed` does not name. Raises Refused without a terminal."""
    from ktrial.tuning.plans.confirm import must_type

    foreign = sorted(set(confirmed) - {one.name for one in guarded})
    if foreign:
        needed = ", ".join(one.name for one in guarded) or "none"
        raise BadInput(f"--yes-security {foreign[0]}: not an argument that needs it", hint=f"needed here: {needed}")
    left = [one for one in guarded if one.name not in confirmed]
    if left and not may_ask:
        words = " ".join(f"--yes-security {one.name}" for one in left)
        raise Refused(
            f"cannot use {left[0].word}: it weakens the protection of this machine: {left[0].price}",
            hint=f"if you accept that, add {words}",
        )
    for one in left:
        must_type(f"{one.word} weakens the protection of this machine: {one.price}", one.name)


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
        if step.path in PLACES.values() and step.outcome in {"refused", "absent", "forbidden"}:
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

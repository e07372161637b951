# SPDX-License-Identifier: Apache-2.0
"""Turns the words of `ktrial keep` into settings with the verdicts that justify them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.cli.shared.lasting_words import NamedSettings, WordReader, proofs_of, sorted_words
from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.facts import machine_of
from ktrial.machine.transactions import Checked, Status, checked
from ktrial.studies.ledger.text import verdict_sentence
from ktrial.tuning.boots.default_kernel import place_kernel, saved_rival
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.exports.model import Omission
from ktrial.tuning.lasting.boot_words import DEFAULT_KERNEL, REMOVAL, place_removal
from ktrial.tuning.lasting.keep_plan import plan_keep
from ktrial.tuning.lasting.kept_files import kept_entries
from ktrial.tuning.lasting.kept_text import note_of
from ktrial.tuning.lasting.loaders import NoLoader, judge_loader, look_for_loaders
from ktrial.tuning.lasting.model import PLACES, Form, GuardedWord, KeepPlan, KeptFile, LastingEntry, Proof, Rival
from ktrial.tuning.lasting.places import Grounds
from ktrial.tuning.lasting.rivals import rivals_of
from ktrial.tuning.lasting.scheduler_files import (
    MeasuredScheduler,
    ignored_settings,
    look_for_starters,
    place_scheduler,
    scheduler_changes,
    scheduler_rivals,
)
from ktrial.tuning.lasting.sources import sources_of
from ktrial.tuning.lasting.word_rivals import read_grub, rivals_of_words, words_in_grub
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.plans.model import Refusal, Why
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.resolve import context_for

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.facts import FactBook
    from ktrial.studies.ledger.model import LedgerEntry

_GRUB_FOLDERS = ("/boot/grub", "/boot/grub2")
_SYSTEMD, _GENERATOR = "/run/systemd/system", "/usr/lib/systemd/system-generators/zram-generator"


class KeptBoot(NamedTuple):
    """What to keep of a trial boot besides arguments: the path of the image, if the boot used another kernel."""

    kernel: str | None = None


def plan_words(
    app: App,
    session: AgentSession,
    words: Sequence[str],
    status: Status,
    kept: Mapping[Form, KeptFile],
    *,
    allow_dangerous: bool,
    loader: str | None = None,
    boot: KeptBoot | None = None,
) -> KeepPlan:
    """Return what to write so that the settings in `words` last, and which other files set them.

    Raise Refused unless everything of a trial boot can be kept.
    """
    removed = [word for word in words if word.startswith(REMOVAL)]
    catalog, names = app.catalog_for([word for word in words if word not in removed])
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
    kernel = boot.kernel if boot is not None else None
    title = " ".join([*words, *([f"{DEFAULT_KERNEL}={kernel}"] if kernel else [])])
    plan = resolve(title, requests, context, allow_dangerous=allow_dangerous)
    lines = _grub_lines(session, facts, removed, kernel, plan.refusals, kept, loader)
    grounds = Grounds(
        modules=frozenset(facts.value("kernel.modules") or ()),
        has_zram_generator=bool(session.list([_GENERATOR])[_GENERATOR]),
        allow_dangerous=allow_dangerous,
        no_loader=_no_loader(session, plan.refusals, facts, loader),
    )
    keep = plan_keep(plan, kept, proofs, grounds, catalog.knobs, own, lines)
    left = tuple(left for one in named for left in one.left_out)
    if boot is not None and keep.left_out:
        first = keep.left_out[0]
        value = "" if first.value is None else f"={first.value}"
        raise Refused(f"cannot keep {first.address}{value} of this boot: {first.reason}", hint=first.hint)
    rivals = _rivals(session, catalog, keep, facts)
    sources = sources_of(requests, plan, app.catalog.profiles)
    keep = msgspec.structs.replace(keep, left_out=(*left, *keep.left_out), rivals=rivals, sources=sources)
    return _with_scheduler(session, keep, named, kept)


def _with_scheduler(
    session: AgentSession, keep: KeepPlan, named: Sequence[NamedSettings], kept: Mapping[Form, KeptFile]
) -> KeepPlan:
    """Return the plan with the sched_ext scheduler of an arm, if the words name one."""
    arms = [one for one in named if one.scheduler is not None]
    if len(arms) > 1:
        names = " and ".join(one.request.origin.removeprefix("trial ") for one in arms)
        raise BadInput(f"cannot keep {names}: only one scheduler starts at boot", hint="name only one of the arms")
    if not arms or (scheduler := arms[0].scheduler) is None or arms[0].entry is None:
        return keep
    here = look_for_starters(session)
    reason = verdict_sentence(arms[0].entry)
    measured = MeasuredScheduler(scheduler.run, scheduler.mode or None, scheduler.ops, reason)
    entry = place_scheduler(measured, here)
    if isinstance(entry, Omission):
        return msgspec.structs.replace(keep, left_out=(*keep.left_out, entry))
    entries = (*keep.entries, entry)
    addresses = {address for one in (*kept_entries(kept), *entries) for address in one.values}
    notes = (
        [f"{', '.join(found)}: counts only without a sched_ext scheduler"]
        if (found := ignored_settings(addresses))
        else []
    )
    return msgspec.structs.replace(
        keep,
        files=(*keep.files, *scheduler_changes(entry, note_of(entry), here, kept)),
        entries=entries,
        rivals=(*keep.rivals, *scheduler_rivals(entry, here)),
        notes=tuple(notes),
    )


def _grub_lines(
    session: AgentSession,
    facts: FactBook,
    removed: Sequence[str],
    kernel: str | None,
    refusals: Sequence[Refusal],
    kept: Mapping[Form, KeptFile],
    chosen: str | None,
) -> list[LastingEntry]:
    """Return the lines of GRUB's drop-in that remove words and name the default kernel."""
    if not removed and kernel is None:
        return []
    loader = judge_loader(look_for_loaders(session, facts), chosen)
    if loader is not None:
        if kernel is None:
            what, hint = (
                f"remove {removed[0].removeprefix(REMOVAL)}",
                "use the system's tool, such as `grubby` or `rpm-ostree kargs`, or change the loader's files yourself",
            )
        else:
            what, hint = (
                f"make {kernel} the default",
                "use the loader's tool, such as `grubby --set-default KERNEL` or `bootctl set-default ENTRY.conf`",
            )
        raise Refused(f"cannot {what}: {loader.reason}", hint=loader.hint or hint)
    texts = read_grub(session)
    old = kept_entries({form: file for form, file in kept.items() if form == "grub.d"})
    added = [one.knob.removeprefix("boot:") for one in refusals if one.kind is Why.AT_BOOT]
    in_files = words_in_grub(texts)
    found = [place_removal(word, in_files, old, added) for word in removed]
    lines = [entry for entry in found if entry is not None]
    if kernel is not None:
        menu, environment = _menu_of_grub(session)
        lines.append(place_kernel(kernel, menu, str(facts.value("kernel.command_line") or ""), texts, environment))
    return lines


def _menu_of_grub(session: AgentSession) -> tuple[str, bytes]:
    """Return the texts of grub.cfg and grubenv."""
    readings = session.read([f"{folder}/{name}" for folder in _GRUB_FOLDERS for name in ("grub.cfg", "grubenv")])
    data = {path: one.data for path, one in readings.items() if one is not None and one.data is not None}
    folder = next((one for one in _GRUB_FOLDERS if f"{one}/grub.cfg" in data), _GRUB_FOLDERS[0])
    return data.get(f"{folder}/grub.cfg", b"").decode(errors="replace"), data.get(f"{folder}/grubenv", b"")


def _no_loader(
    session: AgentSession, refusals: Sequence[Refusal], facts: FactBook, chosen: str | None
) -> NoLoader | None:
    """Return why kernel arguments cannot be kept. Return None if they can, or if there are none."""
    if all(one.kind not in {Why.AT_BOOT, Why.READ_ONLY} for one in refusals):
        return None
    return judge_loader(look_for_loaders(session, facts), chosen)


def _refuse_foreign_system(session: AgentSession, facts: FactBook) -> None:
    if facts.value("os.id") == "nixos":
        raise Refused(
            "cannot keep settings: NixOS generates /etc from its own configuration",
            hint="write the settings as a module with `ktrial export … --to nixos`",
        )
    if not session.list([_SYSTEMD])[_SYSTEMD]:
        raise Refused(
            "cannot keep settings: systemd does not run here, and only systemd would read the files at boot",
            hint="write the settings for your system with `ktrial export`",
        )


def _proof(entry: LedgerEntry) -> Proof:
    verdict = "refuted" if entry.refuted else str(entry.verdict)
    return Proof(verdict=verdict, text=verdict_sentence(entry))


def _better(named: NamedSettings, machine: str) -> LedgerEntry:
    """Return the verdict on an arm. Raise Refused unless the arm was better on this machine."""
    entry, origin = named.entry, named.request.origin.removeprefix("trial ")
    settings = " ".join(f"{one.knob}={one.value}" for one in named.request.settings)
    by_name = f"keep the settings anyway, by name: {settings}" if settings else "make the change permanent yourself"
    if entry is None or entry.verdict is None:
        hint = f"continue the trial with `ktrial trial resume {origin.partition('/')[0]}`"
        raise Refused(f"cannot keep {origin}: it has no verdict yet", hint=hint)
    if entry.verdict != "better" or entry.refuted:
        raise Refused(f"cannot keep {origin}, which is {verdict_sentence(entry)}", hint=by_name)
    if entry.machine != machine:
        raise Refused(
            f"cannot keep {origin}: it was measured on another machine ({entry.machine})",
            hint=f"repeat the trial here with `ktrial retest {entry.trial}`, or {by_name}",
        )
    return entry


def _rivals(session: AgentSession, catalog: Catalog, keep: KeepPlan, facts: FactBook) -> tuple[Rival, ...]:
    claims = gather(session)
    services = tuple(facts.value("services.active") or ())
    of_words: tuple[Rival, ...] = ()
    if any(entry.form == "grub.d" for entry in keep.entries):
        of_words = tuple(rivals_of_words(keep.entries, read_grub(session)))
    if any(DEFAULT_KERNEL in entry.values for entry in keep.entries):
        saved = saved_rival(_menu_of_grub(session)[1], "the saved entry of grubenv")
        of_words += (saved,) if saved is not None else ()
    return of_words + tuple(
        rival
        for entry in keep.entries
        if entry.form != "grub.d"
        for address in entry.values
        for rival in rivals_of(keep.changes[address], entry.form, catalog.knobs, claims, services)
    )


def show_keep(keep: KeepPlan, *, next_boot: bool) -> None:
    from ktrial.kit.tables import columns
    from ktrial.tuning.lasting.keep_text import keep_text

    sys.stdout.write(keep_text(keep, next_boot=next_boot, width=columns()))


def report_unwritten(keep: KeepPlan, plan: dict[str, Any], *, as_json: bool, is_complete: bool) -> int:
    """Report a plan that writes nothing, and return 0. Raise Refused if none of its settings can be kept."""
    from ktrial.cli.options import write_json
    from ktrial.tuning.lasting.keep_text import keep_json

    if as_json:
        write_json(keep_json(keep, plan, None))
    if not is_complete and keep.left_out:
        first = keep.left_out[0]
        what = first.address if first.value is None else f"{first.address}={first.value}"
        raise Refused(f"cannot keep {what}: {first.reason}", hint=first.hint)
    return 0


def confirm_guarded(guarded: Sequence[GuardedWord], confirmed: Collection[str], *, may_ask: bool) -> None:
    """Ask the user to confirm each kernel argument of `guarded` whose name is not in `confirmed`.

    If `may_ask` is false, raise Refused instead. Raise BadInput if a name in `confirmed` needs no confirmation.
    """
    from ktrial.tuning.plans.confirm import must_type

    foreign = sorted(set(confirmed) - {one.name for one in guarded})
    if foreign:
        needed = ", ".join(one.name for one in guarded)
        raise BadInput(
            f"--yes-security {foreign[0]}: {foreign[0]} needs no confirmation here",
            hint=f"leave out --yes-security {foreign[0]}"
            + (f"; here only {needed} may be confirmed" if needed else ""),
        )
    left = [one for one in guarded if one.name not in confirmed]
    if left and not may_ask:
        words = " ".join(f"--yes-security {one.name}" for one in left)
        raise Refused(
            f"cannot use {left[0].word}, which {_warning(left[0])}",
            hint=f"add {words} if you accept the risk",
        )
    for one in left:
        must_type(f"{one.word} {_warning(one)}", one.name)


def _warning(word: GuardedWord) -> str:
    return "weakens the protection of this machine" + (f": {word.price}" if word.price else "")


def refuse_edited(kept: Mapping[Form, KeptFile]) -> None:
    """Raise Refused if somebody edited a kept file."""
    from ktrial.tuning.lasting.keep_text import edited_text

    edited = [file for file in kept.values() if file.is_edited]
    if edited:
        raise Refused(
            f"cannot change {PLACES[edited[0].form]}: somebody has edited it\n{edited_text(edited[0])}",
            hint="undo the edit, or move it to a file of your own",
        )


def refuse_unwritable(session: AgentSession, plan: Mapping[str, Any]) -> None:
    """Raise Refused for a file that cannot be written, as in a read-only /etc or a missing folder."""
    for step in checked(session, plan):
        if step.path in PLACES.values() and step.outcome in {"refused", "absent", "forbidden"}:
            raise Refused(f"cannot keep settings: {step.message}", hint=_way_out(plan, step))


def _way_out(plan: Mapping[str, Any], step: Checked) -> str:
    holds = [one.get("holds") or {} for one in plan["steps"] if one.get("path") == step.path]
    if step.outcome != "refused" and any("kernel" in line for one in holds for line in one.get("grub.d", ())):
        return "run `ktrial keep --undo boot:kernel` if the kept kernel is no longer installed"
    if step.outcome == "forbidden":
        return "leave out the setting that ktrial refuses"
    return "write the settings elsewhere with `ktrial export`"


def refuse_losing(rivals: Sequence[Rival], *, of_boot: bool) -> None:
    """Raise Refused if another file or tool overrides a kept value; `of_boot` is set if a trial boot is kept."""
    winning = [one for one in rivals if one.wins]
    if winning:
        first = winning[0]
        more = f", as do {len(winning) - 1} more" if len(winning) > 1 else ""
        value = f" (= {first.value})" if first.value is not None else ""
        raise Refused(
            f"cannot keep {first.address}: {first.place}{value} overrides it {first.when}{more}",
            hint=f"remove that override{'' if of_boot else ', or add --anyway'}",
        )

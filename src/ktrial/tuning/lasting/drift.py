# SPDX-License-Identifier: Apache-2.0
"""Compare what ktrial keeps with what is live, and with the files as they are now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import KnobState
from ktrial.machine.transactions import Journaled, Status
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.exports.model import UNTESTED
from ktrial.tuning.knobs.find import absence, successors
from ktrial.tuning.knobs.knob import PLACEHOLDERS, Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.value import active_text, same_value
from ktrial.tuning.lasting.kept_files import kept_entries, kept_transactions
from ktrial.tuning.lasting.kept_text import read_kept
from ktrial.tuning.lasting.live_words import look_at_word
from ktrial.tuning.lasting.model import PLACES, Form, KeptFile, LastingEntry
from ktrial.tuning.lasting.scheduler_files import SCHEDULER, look_at_scheduler

#: `pending` takes effect at the next boot, `no-device` is a device that is not there now.
DriftState = Literal["live", "pending", "no-device", "differs", "gone", "unreadable"]
_DRIFTED = frozenset(("differs", "gone", "unreadable"))
FACTS = ("kernel.release", "kernel.command_line")


class KeptSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One kept setting: its value, the live one, and why it is kept. `written_by` names who wrote another value."""

    address: str
    file: str
    value: str
    now: str | None
    state: DriftState
    reason: str
    kept_unix_ms: int | None
    detail: str | None = None
    written_by: str | None = None

    @property
    def has_drifted(self) -> bool:
        return self.state in _DRIFTED


class DriftReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is kept, and the files that somebody edited."""

    settings: tuple[KeptSetting, ...]
    edited: tuple[KeptFile, ...]
    kernel: str | None

    @property
    def other_kernels(self) -> dict[str, str]:
        """Return the settings whose verdict comes from another kernel, each with that kernel's release."""
        found = {}
        for one in self.settings:
            told = None if one.reason.startswith(UNTESTED) else re.search(r"\bLinux (\S+?)[,;]?(?:\s|$)", one.reason)
            if told is not None and self.kernel is not None and told[1] != self.kernel:
                found[one.address] = told[1]
        return found

    @property
    def has_drifted(self) -> bool:
        return bool(self.edited) or any(one.has_drifted for one in self.settings)


def find_drift(machine: Machine, catalog: Catalog, status: Status, files: Mapping[Form, KeptFile]) -> DriftReport:
    """Return the state of each kept setting, and the files that somebody edited."""
    entries = kept_entries(files)
    addresses = [address for entry in entries for address in entry.values]
    names = dict.fromkeys(address.partition("@")[0] for address in addresses)
    knobs = [catalog.knobs[name] for name in names if name in catalog.knobs]
    selectors = [address.partition("@")[2] or None for address in addresses]
    states = observe(machine, knobs, selectors) if knobs else {}
    inspection = _Inspection(machine, catalog, states, machine.facts(FACTS), kept_transactions(status))
    found = tuple(inspection.at(entry, address) for entry in entries for address in entry.values)
    return DriftReport(
        settings=found,
        edited=tuple(file for file in files.values() if file.is_edited),
        kernel=inspection.facts.value("kernel.release"),
    )


class _Inspection(NamedTuple):
    """A reading of the machine and the journal."""

    machine: Machine
    catalog: Catalog
    states: Mapping[str, KnobState]
    facts: FactBook
    transactions: Sequence[Journaled]

    def at(self, entry: LastingEntry, address: str) -> KeptSetting:
        value = entry.values[address]
        state: DriftState
        if entry.form == "grub.d":
            waits = is_pending(entry.form, address, value, self.transactions, can_be_written=False)
            word = look_at_word(entry, str(self.facts.value("kernel.command_line") or ""), is_pending=waits)
            state, now, detail = word.state, word.now, word.detail
        elif address == SCHEDULER:
            waits = is_pending(entry.form, address, value, self.transactions, can_be_written=False)
            word = look_at_scheduler(entry, self.machine, is_pending=waits)
            state, now, detail = word.state, word.now, word.detail
        else:
            state, now, detail = self._state(entry.form, address, value)
        return KeptSetting(
            address=address,
            file=PLACES[entry.form],
            value=value,
            now=now,
            state=state,
            reason=entry.reasons.get(address, ""),
            kept_unix_ms=_began(address, PLACES[entry.form], self.transactions),
            detail=detail,
        )

    def _state(self, form: Form, address: str, value: str) -> tuple[DriftState, str | None, str | None]:
        """Return the state of a setting, its live value, and a detail."""
        name, _, label = address.partition("@")
        knob, state = self.catalog.knobs.get(name), self.states.get(name)
        if knob is None or state is None:
            return "unreadable", None, "the catalog no longer has this knob"
        instance = next((one for one in state.instances if one.label == label), None)
        if instance is None:
            folder = _folder_of_device(knob, label)
            if folder is not None and not self.machine.list([folder])[folder]:
                return "no-device", None, f"no {folder.rpartition('/')[2]} now"
            replaced = successors(knob, self.catalog.knobs)
            return "gone", None, absence(knob, state, self.facts) + (f"; {replaced}" if replaced else "")
        shown = instance.reading.text
        if shown is None:
            return "unreadable", None, instance.reading.unreadable or instance.reading.invalid
        now = active_text(knob, shown)
        if same_value(knob, now, value):
            return "live", now, None
        if is_pending(form, address, value, self.transactions, can_be_written=instance.reading.writable):
            return "pending", now, "from the next boot on"
        return "differs", now, None


def _folder_of_device(knob: Knob, label: str) -> str | None:
    """Return the folder that exists only while the knob's device or module exists; None for other knobs."""
    place = knob.files[0]
    if place.startswith("/sys/module/"):
        return "/".join(place.split("/")[:4])
    if not knob.placeholders:
        return None
    start, _, _ = place.partition("{")
    name = label.split("/", maxsplit=1)[0]
    return start + name.removeprefix(PLACEHOLDERS[knob.placeholders[0]][1])


def _began(address: str, path: str, transactions: Sequence[Journaled]) -> int | None:
    """Return when a transaction added the setting to its file, as Unix time in ms; None if no transaction did."""
    oldest: int | None = None
    for one in transactions:  # the newest first
        step = next((step for step in one.steps if step.path == path), None)
        if step is None:
            continue
        oldest = one.began_unix_ms
        if not (isinstance(step.old, str) and f"# {address}: " in step.old):
            break
    return oldest


def is_pending(
    form: Form, address: str, value: str, transactions: Iterable[Journaled], *, can_be_written: bool
) -> bool:
    """Return whether, since this boot began, somebody kept the value without changing the live value."""
    for one in transactions:
        step = next((step for step in one.steps if step.path == PLACES[form]), None)
        if step is None:
            continue
        if any(step.knob == address for step in one.steps):
            return False
        before = read_kept(form, read_bytes(step.old).decode(errors="replace") if step.old is not None else "")
        if not any(entry.values.get(address) == value for entry in before):
            is_later = bool((one.sources or {}).get("next_boot")) or not can_be_written
            return one.this_boot and is_later
    return False

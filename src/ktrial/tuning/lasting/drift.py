# SPDX-License-Identifier: Apache-2.0
"""Compare what ktrial keeps with what is live, and with the files as they are now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import KnobState
from ktrial.machine.transactions import Journaled, Status
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.find import absence, successors
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.value import active_text, same_value
from ktrial.tuning.lasting.kept_files import kept_entries, kept_transactions
from ktrial.tuning.lasting.model import PLACES, Form, KeptFile

#: `pending` takes effect at the next boot, `no-device` is a device that is not there now.
DriftState = Literal["live", "pending", "no-device", "differs", "gone", "unreadable"]
_DRIFTED = frozenset(("differs", "gone", "unreadable"))
FACTS = ("kernel.release",)


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
    """Everything that is kept, the files that somebody edited, and verdicts that were reached on another kernel."""

    settings: tuple[KeptSetting, ...]
    edited: tuple[KeptFile, ...]
    kernel: str | None
    other_kernels: Mapping[str, str] = {}

    @property
    def has_drifted(self) -> bool:
        return bool(self.edited) or any(one.has_drifted for one in self.settings)


def find_drift(machine: Machine, catalog: Catalog, status: Status, files: Mapping[Form, KeptFile]) -> DriftReport:
    """Return how the kept settings stand, with one look at the machine."""
    entries = kept_entries(files)
    addresses = [address for entry in entries for address in entry.values]
    names = dict.fromkeys(address.partition("@")[0] for address in addresses)
    knobs = [catalog.knobs[name] for name in names if name in catalog.knobs]
    selectors = [address.partition("@")[2] or None for address in addresses]
    states = observe(machine, knobs, selectors) if knobs else {}
    facts = machine.facts(FACTS)
    transactions = kept_transactions(status)
    found = []
    for entry in entries:
        for address, value in entry.values.items():
            state, now, detail = _look(address, value, states, catalog, facts)
            began = _began(address, PLACES[entry.form], transactions)
            if state == "differs" and _is_pending(address, PLACES[entry.form], transactions):
                state, detail = "pending", "from the next boot on"
            found.append(
                KeptSetting(
                    address=address,
                    file=PLACES[entry.form],
                    value=value,
                    now=now,
                    state=state,
                    reason=entry.reasons.get(address, ""),
                    kept_unix_ms=began,
                    detail=detail,
                )
            )
    kernel = facts.value("kernel.release")
    return DriftReport(
        settings=tuple(found),
        edited=tuple(file for file in files.values() if file.is_edited),
        kernel=kernel,
        other_kernels=other_kernels(found, kernel),
    )


def _look(
    address: str, value: str, states: Mapping[str, KnobState], catalog: Catalog, facts: FactBook
) -> tuple[DriftState, str | None, str | None]:
    """Return the state of a setting, its live value, and a detail."""
    name, _, label = address.partition("@")
    knob, state = catalog.knobs.get(name), states.get(name)
    if knob is None or state is None:
        return "unreadable", None, "the catalog no longer has this knob"
    instance = next((one for one in state.instances if one.label == label), None)
    if instance is None and knob.placeholders:
        return "no-device", None, f"no {label} now"
    if instance is None:
        replaced = successors(knob, catalog.knobs)
        return "gone", None, absence(knob, state, facts) + (f"; {replaced}" if replaced else "")
    shown = instance.reading.text
    if shown is None:
        return "unreadable", None, instance.reading.unreadable or instance.reading.invalid
    now = active_text(knob, shown)
    return ("live" if same_value(knob, now, value) else "differs"), now, None


def _began(address: str, path: str, transactions: Sequence[Journaled]) -> int | None:
    """Return when the setting came into its file."""
    oldest: int | None = None
    for one in transactions:  # the newest first
        step = next((step for step in one.steps if step.path == path), None)
        if step is None:
            continue
        oldest = one.began_unix_ms
        if not (isinstance(step.old, str) and f"# {address}: " in step.old):
            break
    return oldest


def _is_pending(address: str, path: str, transactions: Iterable[Journaled]) -> bool:
    """Return whether the setting was kept during this boot without a write of its live value."""
    for one in transactions:
        if any(step.path == path for step in one.steps):
            return one.this_boot and all(step.knob != address for step in one.steps)
    return False


def other_kernels(settings: Iterable[KeptSetting], kernel: str | None) -> dict[str, str]:
    """Map the settings whose verdict was reached on another kernel to that kernel."""
    found = {}
    for one in settings:
        told = re.search(r"\bLinux (\S+?)[,;]?(?:\s|$)", one.reason)
        if told is not None and kernel is not None and told[1] != kernel:
            found[one.address] = told[1]
    return found

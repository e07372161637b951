# SPDX-License-Identifier: Apache-2.0
"""The ledger: all that was tried on this machine, `ktrial.ledger/1`, and what of it still holds."""

# Annotations are not put off: msgspec would compile each of them anew at every start.
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict

SCHEMA: Literal["ktrial.ledger/1"] = "ktrial.ledger/1"
#: `kept` is in force now; `refused` was not shown to be better; `not applied` was, and is not in force.
Standing = Literal["kept", "refused", "not applied", "untested", "unknown"]
_SHOWN = 3
_DECIDED = ("better", "worse", "equivalent")


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One arm of a trial, by the primary outcome.

    `changes` are what it changed beside the control, `workload` what was measured, `held` the values of knobs that
    interact with those, where they are known. `verdict` is null while the trial goes on. `superseded_by` is the later
    trial of the same, `refuted` says that it found otherwise.
    """

    trial: str
    arm: str
    started_unix_ms: int
    machine: str
    kernel: str | None
    scope: str
    control: str
    changes: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    placebo: bool = False
    workload: str
    outcome: str
    direction: Literal["lower", "higher"] | None = None
    verdict: Verdict | None = None
    effect: Effect | None = None
    blocks: int = 0
    over: bool = False
    part: str | None = None
    held: Mapping[str, str] = {}
    superseded_by: str | None = None
    refuted: bool = False
    manual: str | None = None

    @property
    def what(self) -> str:
        """`vm.swappiness=10, …`: what was tried, the first of many settings."""
        told = [] if self.manual is None else [self.manual]
        told += [f"{name}={value}" for name, value in {**self.changes, **self.environment}.items()]
        if len(told) > _SHOWN + 1:
            told[_SHOWN:] = [f"and {len(told) - _SHOWN} more"]
        return ", ".join(told) or ("nothing: a placebo" if self.placebo else "nothing")

    def is_about(self, knob: str) -> bool:
        """Return whether it changed the knob, or one of its instances where an address is given."""
        return any(knob in {address, address.partition("@")[0]} for address in self.changes)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """`trials` are the entries of each trial that is in it, of screenings none."""

    schema: Literal["ktrial.ledger/1"] = SCHEMA
    trials: Mapping[str, tuple[LedgerEntry, ...]] = {}

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, the newest first, each with the later one that stands in its place."""
        return link_entries([entry for entries in self.trials.values() for entry in entries])


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as it is: what an entry is held against. `values` are shown texts by address."""

    machine: str
    kernel: str | None
    values: Mapping[str, str]


def link_entries(entries: Iterable[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return the newest first; of those that tried the same, each knows the next one that was decided."""
    later: dict[bytes, LedgerEntry] = {}
    found = []
    for entry in sorted(entries, key=lambda one: (-one.started_unix_ms, one.trial)):
        key = msgspec.json.encode(
            (
                (entry.machine, entry.workload, entry.outcome, entry.control),
                (entry.changes, entry.environment, entry.manual),
            ),
            order="deterministic",
        )
        after = later.get(key)
        if after is not None and after.trial != entry.trial:
            refuted = entry.verdict in _DECIDED and after.verdict in _DECIDED and entry.verdict != after.verdict
            found.append(msgspec.structs.replace(entry, superseded_by=after.trial, refuted=refuted))
        else:
            found.append(entry)
        if entry.verdict in _DECIDED:
            later[key] = entry
    return tuple(found)


def changed_since(entry: LedgerEntry, now: Now) -> tuple[str, ...]:
    """Return what is not as it was when it was measured: then it was measured under other settings."""
    told = []
    if entry.kernel is not None and now.kernel is not None and entry.kernel != now.kernel:
        told.append(f"the kernel was {entry.kernel}, it is {now.kernel}")
    if entry.machine != now.machine:
        told.append(f"the machine was {entry.machine}")
    for address, before in entry.held.items():
        value = now.values.get(address)
        if value is not None and value != before and address not in entry.changes:
            told.append(f"{address} was {before}, it is {value}")
    return tuple(told)


def standing(entry: LedgerEntry, now: Now) -> Standing:
    """Return what came of it on this machine."""
    if entry.verdict is None:
        return "untested"
    if entry.manual is not None:
        return "unknown"
    values = [now.values.get(address) for address in entry.changes]
    if entry.changes and not entry.environment:
        if None in values:
            return "unknown"
        if values == list(entry.changes.values()):
            return "kept"
    return "not applied" if entry.verdict == "better" else "refused"


def of_knob(entries: Sequence[LedgerEntry], knob: str) -> tuple[LedgerEntry, ...]:
    """Return those that changed the knob, and nothing but it first."""
    about = [entry for entry in entries if entry.is_about(knob)]
    return tuple(sorted(about, key=lambda entry: len(entry.changes) + len(entry.environment)))

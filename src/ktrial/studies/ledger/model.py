# SPDX-License-Identifier: Apache-2.0
"""The ledger, `ktrial.ledger/1`: everything that was tried on this machine, and whether it still holds."""

# No `from __future__ import annotations`: msgspec would evaluate every string annotation at each start.
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict

SCHEMA: Literal["ktrial.ledger/1"] = "ktrial.ledger/1"
#: `kept` is in force now. `refused` was not shown to be better. `not applied` was better, but is not in force.
Standing = Literal["kept", "refused", "not applied", "untested", "unknown"]
_SHOWN = 3
_DECIDED = ("better", "worse", "equivalent")


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One arm of a trial, judged by the primary outcome.

    `changes` are its settings that differ from the control. `workload` identifies what was measured. `held` contains
    known values of knobs that interact with the changed knobs. `verdict` is None, and missing in JSON, while the trial
    runs. `superseded_by` is a later trial of the same change; `refuted` is true if the later verdict differs. A search
    for several outcomes may have confirmed the arm. In that case `outcome` is the first outcome in which the arm is
    better, and `worse` lists the outcomes in which it is worse.
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
    worse: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The arm's first changes as text, such as `vm.swappiness=10, …`; without changes, the name of the arm.

        A placebo without changes is `nothing (a placebo)`.
        """
        parts = [] if self.manual is None else [self.manual]
        parts += [f"{name}={value}" for name, value in {**self.changes, **self.environment}.items()]
        if len(parts) > _SHOWN + 1:
            parts[_SHOWN:] = [f"and {len(parts) - _SHOWN} more"]
        return ", ".join(parts) or ("nothing (a placebo)" if self.placebo else self.arm)

    def is_about(self, knob: str) -> bool:
        """Return whether the arm changed the knob; `knob` may also be the address of one instance."""
        return any(knob in {address, address.partition("@")[0]} for address in self.changes)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The whole ledger. `trials` maps each trial to its entries; a trial that gives no verdicts has none."""

    schema: Literal["ktrial.ledger/1"] = SCHEMA
    trials: Mapping[str, tuple[LedgerEntry, ...]] = {}

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, the newest first, each linked to the later trial that supersedes it."""
        return link_entries([entry for entries in self.trials.values() for entry in entries])


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of the machine. `values` maps addresses to values as text."""

    machine: str
    kernel: str | None
    values: Mapping[str, str]


def link_entries(entries: Iterable[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return the entries, newest first, each linked to the next decided trial of the same change."""
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
    changes = []
    if entry.kernel is not None and now.kernel is not None and entry.kernel != now.kernel:
        changes.append(f"the kernel was {entry.kernel}, now it is {now.kernel}")
    if entry.machine != now.machine:
        changes.append(f"the machine was {entry.machine}")
    for address, before in entry.held.items():
        value = now.values.get(address)
        if value is not None and value != before and address not in entry.changes:
            changes.append(f"{address} was {before}, now it is {value}")
    return tuple(changes)


def standing(entry: LedgerEntry, now: Now) -> Standing:
    """Return what became of the change here.

    Return `untested` without a verdict, and `unknown` if ktrial cannot see whether the change is in force. Otherwise
    return `kept` for a change in force, `not applied` for a better arm, and `refused` for any other arm.
    """
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
    """Return the entries of arms that changed the knob, the entries with the fewest other changes first."""
    about = [entry for entry in entries if entry.is_about(knob)]
    return tuple(sorted(about, key=lambda entry: len(entry.changes) + len(entry.environment)))

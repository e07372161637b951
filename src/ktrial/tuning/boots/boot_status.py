# SPDX-License-Identifier: Apache-2.0
"""What the agent knows about boot attempts, and the state of the present one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.machine.transactions import decode_reply
from ktrial.tuning.boots.entry import REHEARSAL, TRIAL

BootState = Literal[
    "nothing",
    "prepared",
    "rehearsal-armed",
    "rehearsed",
    "rehearsal-failed",
    "armed",
    "checking",
    "healthy",
    "failing",
    "not-started",
    "did-not-come-up",
    "unhealthy",
    "cut-short",
    "gave-up",
    "left",
]
EventKind = Literal["rehearsed", "armed", "begun", "started", "healthy", "failed", "fell-back", "left"]
#: Events that end a boot.
_ENDS = frozenset(("failed", "fell-back", "left", "healthy"))


class AttemptEntry(msgspec.Struct, frozen=True):
    """An entry that the agent wrote, and the kernel arguments that the entry adds."""

    id: str
    title: str = ""
    words: tuple[str, ...] = ()
    kernel: str = ""


class BootEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the agent's boot log: what happened to an entry, why, and the last lines of the kernel's log.

    `at` is Unix time in seconds. `transaction` is None if the log does not name it.
    """

    event: EventKind
    entry: str
    boot_id: str
    at: float
    loader: str = ""
    why: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    transaction: int | None = None


class BootStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's reply to `boot-status`.

    `armed` names the entry that the loader boots next, `running` the entry that booted. Each is None for an entry that
    ktrial did not write.
    `guards` are the units that must be active for a boot to be healthy.
    """

    transaction: int | None = None
    entries: tuple[AttemptEntry, ...] = ()
    loader: str | None = None
    armed: str | None = None
    running: str | None = None
    boot_id: str = ""
    guards: tuple[str, ...] = ()
    events: tuple[BootEvent, ...] = ()

    def of_attempt(self) -> tuple[BootEvent, ...]:
        """Return the events of the present attempt, oldest first; all events if its transaction is unknown."""
        return tuple(
            one for one in self.events if self.transaction is None or one.transaction in {None, self.transaction}
        )

    @property
    def is_of_trial(self) -> bool:
        """Return whether a boot of a trial is prepared or running; a trial's entries have the names of its arms."""
        names = [one.id for one in self.entries]
        return any(is_arm(name) for name in (*names, self.running) if name is not None)

    def entry(self, name: str) -> AttemptEntry | None:
        return next((one for one in self.entries if one.id == name), None)


def is_arm(entry: str) -> bool:
    """Return whether an entry belongs to an arm of a trial."""
    return entry not in {REHEARSAL, TRIAL}


def decode_boot_status(reply: Mapping[str, Any]) -> BootStatus:
    """Return the decoded reply. Raise AgentError if it is malformed."""
    return decode_reply("boot-status", reply, BootStatus)


def state_of(status: BootStatus) -> tuple[BootState, BootEvent | None]:
    """Return the state of the attempt, and the event that shows this state; the event is None if the log lacks it."""
    events = status.of_attempt()
    if status.running is not None:
        own = [one for one in events if one.boot_id == status.boot_id and one.entry == status.running]
        ended = next((one for one in reversed(own) if one.event in {"healthy", "failed"}), None)
        if ended is None:
            return "checking", own[-1] if own else None
        return ("healthy" if ended.event == "healthy" else "failing"), ended
    if status.transaction is None:
        return "nothing", None
    if status.armed is not None:
        armed = next((one for one in reversed(events) if one.event == "armed"), None)
        return ("rehearsal-armed" if status.armed == REHEARSAL else "armed"), armed
    return _of_last(status, events)


def is_being_checked(status: BootStatus) -> bool:
    """Return whether the agent is still checking the health of this boot."""
    state, last = state_of(status)
    return state == "checking" and last is not None and last.event == "started" and status.transaction is not None


def last_attempt(status: BootStatus) -> tuple[BootState, BootEvent] | None:
    """Return the newest outcome of a boot in the log, and the event that shows it; None if the log has no outcome."""
    at = next((at for at in reversed(range(len(status.events))) if status.events[at].event in _ENDS), None)
    return None if at is None else (_ending(status.events, at), status.events[at])


def _ending(events: tuple[BootEvent, ...], at: int) -> BootState:
    """Return how a boot ended, from the event with index `at` and the events since its entry was armed."""
    end = events[at]
    if end.event in {"healthy", "left"}:
        return "left"
    if end.entry == REHEARSAL:
        return "rehearsal-failed"
    if end.event == "fell-back":
        return "did-not-come-up"
    armed = max((place for place in range(at) if events[place].event == "armed"), default=-1)
    own = events[armed + 1 : at]
    boots = {one.boot_id for one in own if one.event == "started"}
    if not boots:
        return "not-started"
    if end.boot_id not in boots:
        # A later boot has recorded it.
        return "cut-short"
    return "gave-up" if any(one.event == "healthy" for one in own) else "unhealthy"


def _of_last(status: BootStatus, events: tuple[BootEvent, ...]) -> tuple[BootState, BootEvent | None]:
    """Return the state of the attempt while the default entry runs and nothing is armed."""
    for at, one in reversed(list(enumerate(events))):
        if one.event in {"armed", "started"} and one.boot_id == status.boot_id:
            # The entry was armed in this boot and no longer is, so somebody disarmed it.
            continue
        if one.event in {"armed", "started"} and one.entry != REHEARSAL:
            return "did-not-come-up", one
        if one.event in _ENDS:
            return _ending(events, at), one
        if one.event == "rehearsed":
            return "rehearsed", one
    return "prepared", None


def rehearsal_of(status: BootStatus, loader: str) -> BootEvent | None:
    """Return the newest rehearsal with this loader that led back to the default entry; None if there is none."""
    found = (one for one in reversed(status.events) if one.event == "rehearsed" and one.loader == loader)
    return next(found, None)

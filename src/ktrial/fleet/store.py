# SPDX-License-Identifier: Apache-2.0
"""Stores fleets' trials in the database, and gives each to one coordinator at a time.

The database's clock decides how long a coordinator holds a trial. Each coordinator that takes over gets a higher fence
than the coordinator before; machines refuse plans with a lower fence than they have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ktrial.fleet.log import FleetBegan, FleetEvent, FleetStanding, TakenOver, decode, encode
from ktrial.kit.errors import BadInput, Busy, KtrialError, UnknownName
from ktrial.results.store.database import Database
from ktrial.results.store.runs import is_gone
from ktrial.results.store.schema import fleet_events, fleets

#: Seconds that a coordinator holds a trial after it last renewed its lease.
LEASE_S = 120.0


class Holder(NamedTuple):
    """The coordinator of a trial, and the seconds left of its lease."""

    holder: str
    left_s: float

    @property
    def text(self) -> str:
        return holder_text(self.holder)


class StoredFleets:
    """The fleets' trials of a store. `open_database` is called only when something is read or written."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open_database = open_database

    def begin(self, first: FleetBegan) -> None:
        """Store everything that was fixed before the first run."""
        with self._open_database().writing() as connection:
            if self._row(connection, first.fleet) is not None:
                raise KtrialError(f"cannot store {first.fleet}: it exists already", hint="run the same command again")
            now_ms = _now_ms(connection)
            connection.execute(
                sa.insert(fleets).values(
                    fleet=first.fleet, started_unix_ms=now_ms, holder=None, fence=0, held_until_unix_ms=0
                )
            )
            self._append(connection, first.fleet, [first])

    def take(self, fleet: str, holder: str, *, from_others: bool = False) -> CoordinatorLease:
        """Take the lease of a trial. Raise Busy if another coordinator holds the lease, unless `from_others` is set."""
        database = self._open_database()
        with database.writing() as connection:
            row = self._row_there(connection, fleet, lock=True)
            now_ms = _now_ms(connection)
            is_held = row.holder not in {None, holder} and row.held_until_unix_ms > now_ms and not is_gone(row.holder)
            if is_held and not from_others:
                left_s = (row.held_until_unix_ms - now_ms) / 1000
                raise Busy(
                    "busy",
                    f"{holder_text(row.holder)} coordinates {fleet} now",
                    hint=f"wait until that process ends, or repeat this command in {left_s:.0f} s if it has died",
                )
            fence = max(row.fence + 1, now_ms // 1000)
            self._hold(connection, fleet, holder, fence, now_ms + int(1000 * LEASE_S))
            self._append(connection, fleet, [TakenOver(holder=holder, fence=fence, at_unix_ms=now_ms)])
        return CoordinatorLease(self, fleet, holder, fence)

    def holder_of(self, fleet: str) -> Holder | None:
        """Return the coordinator of a trial; None if nobody holds it now."""
        with self._open_database().reading() as connection:
            row = self._row_there(connection, fleet)
            left_ms = row.held_until_unix_ms - _now_ms(connection)
        is_held = row.holder is not None and left_ms > 0 and not is_gone(row.holder)
        return Holder(row.holder, left_ms / 1000) if is_held else None

    def is_held(self, fleet: str, fence: int) -> bool:
        """Return whether the coordinator with this fence still holds a trial."""
        with self._open_database().reading() as connection:
            row = self._row_there(connection, fleet)
            left_ms = row.held_until_unix_ms - _now_ms(connection)
        return row.fence == fence and row.holder is not None and left_ms > 0 and not is_gone(row.holder)

    def standing(self, fleet: str) -> FleetStanding:
        chosen = (
            sa.select(fleet_events.c.document)
            .join(fleets, fleets.c.key == fleet_events.c.fleet_key)
            .where(fleets.c.fleet == fleet)
            .order_by(fleet_events.c.number)
        )
        with self._open_database().reading() as connection:
            lines = [row.document for row in connection.execute(chosen)]
        try:
            return FleetStanding([decode(line) for line in lines])
        except msgspec.DecodeError as error:
            raise KtrialError(
                f"cannot read the log of {fleet}: another version of ktrial wrote it ({error})",
                hint="use the newest version of ktrial",
            ) from None

    def names(self) -> tuple[str, ...]:
        """Return the names of all fleets' trials, the newest first."""
        chosen = sa.select(fleets.c.fleet).order_by(fleets.c.started_unix_ms.desc(), fleets.c.key.desc())
        with self._open_database().reading() as connection:
            return tuple(row.fleet for row in connection.execute(chosen))

    def find(self, name: str | None) -> str:
        """Return the full name of a trial; `name` may be its beginning. Without `name`, choose the newest trial."""
        every = self.names()
        if not every:
            raise BadInput(
                "this store has no trial of a fleet", hint="run a trial: `ktrial fleet run TRIAL.toml -i INVENTORY`"
            )
        if name is None:
            return every[0]
        found = [one for one in every if one == name] or [one for one in every if one.startswith(name)]
        if len(found) > 1:
            raise BadInput(
                f"{len(found)} trials begin with {name!r}", hint=f"write more of the name, such as {found[0]}"
            )
        if not found:
            raise UnknownName("trial of a fleet", name, every, hint="run `ktrial fleet status` to see the newest trial")
        return found[0]

    def append(self, lease: CoordinatorLease, events: Sequence[FleetEvent]) -> None:
        """Append events to the log and renew the lease. Raise KtrialError if another coordinator has taken over."""
        with self._open_database().writing() as connection:
            self._renew(connection, lease)
            self._append(connection, lease.fleet, events)

    def let_go(self, lease: CoordinatorLease) -> None:
        with self._open_database().writing() as connection:
            mine = (fleets.c.fleet == lease.fleet) & (fleets.c.fence == lease.fence)
            connection.execute(sa.update(fleets).where(mine).values(holder=None, held_until_unix_ms=0))

    def _renew(self, connection: sa.Connection, lease: CoordinatorLease) -> None:
        row = self._row_there(connection, lease.fleet, lock=True)
        if row.fence != lease.fence or row.holder != lease.holder:
            who = "another coordinator" if row.holder is None else holder_text(row.holder)
            raise KtrialError(
                f"{who} has taken over {lease.fleet}",
                hint="run `ktrial fleet status` to see its progress",
            )
        until_ms = _now_ms(connection) + int(1000 * LEASE_S)
        self._hold(connection, lease.fleet, lease.holder, lease.fence, until_ms)

    @staticmethod
    def _hold(connection: sa.Connection, fleet: str, holder: str, fence: int, until_ms: int) -> None:
        values = {"holder": holder, "fence": fence, "held_until_unix_ms": until_ms}
        connection.execute(sa.update(fleets).where(fleets.c.fleet == fleet).values(**values))

    @staticmethod
    def _row(connection: sa.Connection, fleet: str, *, lock: bool = False) -> sa.Row[Any] | None:
        chosen = sa.select(fleets).where(fleets.c.fleet == fleet)
        return connection.execute(chosen.with_for_update() if lock else chosen).one_or_none()

    def _row_there(self, connection: sa.Connection, fleet: str, *, lock: bool = False) -> sa.Row[Any]:
        row = self._row(connection, fleet, lock=lock)
        if row is None:
            raise KtrialError(
                f"{fleet} is not in this store any more", hint="name the store of this trial with --store"
            )
        return row

    def _append(self, connection: sa.Connection, fleet: str, events: Sequence[FleetEvent]) -> None:
        key = connection.execute(sa.select(fleets.c.key).where(fleets.c.fleet == fleet)).scalar_one()
        last = connection.execute(
            sa.select(sa.func.max(fleet_events.c.number)).where(fleet_events.c.fleet_key == key)
        ).scalar()
        first = 0 if last is None else last + 1
        rows = [
            {"fleet_key": key, "number": number, "document": encode(event)}
            for number, event in enumerate(events, first)
        ]
        if rows:
            connection.execute(sa.insert(fleet_events), rows)


class CoordinatorLease(NamedTuple):
    """A coordinator's lease of a trial."""

    fleets: StoredFleets
    fleet: str
    holder: str
    fence: int

    def append(self, *events: FleetEvent) -> None:
        """Append events and renew the lease; without events only renew it."""
        self.fleets.append(self, events)

    def let_go(self) -> None:
        """Release the lease, so that another coordinator can take the trial at once."""
        self.fleets.let_go(self)


def holder_text(holder: str) -> str:
    """Return how messages name a coordinator: the process and its machine."""
    where, _, rest = holder.partition("/")
    words = rest.split()
    return f"process {words[2]} on {where}" if len(words) == 4 else holder


def _now_ms(connection: sa.Connection) -> int:
    """Return the time of the database, because coordinators' clocks may differ."""
    is_server = connection.dialect.name == "postgresql"
    asked = "extract(epoch FROM clock_timestamp()) * 1000" if is_server else "(julianday('now') - 2440587.5) * 86400000"
    return int(connection.execute(sa.text(f"SELECT {asked}")).scalar_one())

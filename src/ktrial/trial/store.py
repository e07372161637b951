# SPDX-License-Identifier: Apache-2.0
"""Stores trials and noise profiles in the database. A log only grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from ktrial.judge.model.log import Event, decode, encode, protocol_in
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.results.store.database import Database
from ktrial.results.store.schema import noise_profiles, trial_events, trials
from ktrial.trial.kept_trial import KeptTrial
from ktrial.trial.record import StoredTrial

_TRIALS = sa.select(trials.c.document).order_by(trials.c.started_unix_ms.desc(), trials.c.key.desc())


class StoredTrials:
    """The stored trials. `open_database` is called only when something is read or written."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open_database = open_database

    def begin(self, trial: StoredTrial, first: Event) -> None:
        with self._open_database().writing() as connection:
            taken = connection.execute(sa.select(trials.c.key).where(trials.c.trial == trial.trial)).scalar()
            if taken is not None:
                raise KtrialError(
                    f"cannot store trial {trial.trial}: it exists already", hint="run the same command again"
                )
            self._insert(connection, trial)
            self._append(connection, trial.trial, [first])

    def append(self, trial: str, events: Sequence[Event]) -> None:
        """Append events to a trial's log, and return when the events are on disk."""
        with self._open_database().writing() as connection:
            self._append(connection, trial, events)

    def hold(self) -> None:
        """Keep the store open until ktrial ends, because reopening it for each event is slow."""
        self._open_database().hold()

    def log(self, trial: str) -> tuple[Event, ...]:
        chosen = (
            sa.select(trial_events.c.document)
            .join(trials, trials.c.key == trial_events.c.trial_key)
            .where(trials.c.trial == trial)
            .order_by(trial_events.c.number)
        )
        with self._open_database().reading() as connection:
            lines = [row.document for row in connection.execute(chosen)]
        return decode("".join(f"{line}\n" for line in lines).encode(), f"trial {trial}")

    def all(self, name: str | None = None) -> tuple[StoredTrial, ...]:
        """Return the trials, newest first. With `name`, return only trials with this name or this protocol name."""
        if name is None:
            return self._select(_TRIALS)
        begins = trials.c.trial.startswith(f"{name}-", autoescape=True)
        candidates = self._select(_TRIALS.where(begins | (trials.c.trial == name)))
        return tuple(one for one in candidates if name in {one.file.name, one.trial})

    def _select(self, chosen: sa.Select[Any]) -> tuple[StoredTrial, ...]:
        with self._open_database().reading() as connection:
            try:
                return tuple(msgspec.json.decode(row.document, type=StoredTrial) for row in connection.execute(chosen))
            except msgspec.ValidationError as error:
                raise KtrialError(
                    f"cannot read the stored trials: another version of ktrial wrote one of them ({error})",
                    hint="use the newest version of ktrial, or another store with --store",
                ) from None

    def find(self, name: str | None) -> StoredTrial:
        """Return the trial with this name or this unique prefix; without a name, the newest trial."""
        found = self._select(_TRIALS.limit(1) if name is None else _TRIALS.where(trials.c.trial == name))
        if name and not found:
            candidates = self._select(_TRIALS.where(trials.c.trial.startswith(name, autoescape=True)))
            found = tuple(one for one in candidates if one.trial.startswith(name))  # SQLite ignores case
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(one.trial for one in found[:3])
            raise BadInput(f"{len(found)} trials begin with {name!r}", hint=f"write more of the name: {some}")
        every = [one.trial for one in self.all()]
        if name is None or not every:
            raise BadInput("no trials yet", hint="for example  ktrial try vm.swappiness=10")
        raise UnknownName("trial", name, every, hint="use a trial that `ktrial trial list` lists")

    def profiles(self, suite: str | None, machine: str) -> tuple[NoiseProfile, ...]:
        chosen = (
            sa.select(noise_profiles.c.document)
            .where(noise_profiles.c.machine == machine)
            .order_by(noise_profiles.c.made_unix_ms.desc(), noise_profiles.c.key.desc())
        )
        if suite is not None:
            chosen = chosen.where(noise_profiles.c.suite == suite)
        with self._open_database().reading() as connection:
            return tuple(msgspec.json.decode(row.document, type=NoiseProfile) for row in connection.execute(chosen))

    def keep_profile(self, profile: NoiseProfile) -> None:
        with self._open_database().writing() as connection:
            connection.execute(
                sa.insert(noise_profiles).values(
                    suite=profile.key.suite,
                    machine=profile.key.machine,
                    made_unix_ms=profile.made_unix_ms,
                    document=msgspec.json.encode(profile).decode(),
                )
            )

    def of_session(self, session: str) -> tuple[KeptTrial, ...]:
        """Return the trials whose runs are in a session, oldest first."""
        found = self._select(_TRIALS.where(trials.c.session == session))
        return tuple(self._load(one) for one in reversed(found))

    def named(self, name: str) -> KeptTrial | None:
        found = self._select(_TRIALS.where(trials.c.trial == name))
        return self._load(found[0]) if found else None

    def bring(self, trials: Iterable[KeptTrial]) -> None:
        """Store trials from another store, all or none. Leave out noise profiles, which describe another machine."""
        with self._open_database().writing() as connection:
            for kept in trials:
                self._insert(connection, kept.stored)
                self._append(connection, kept.stored.trial, kept.log)

    def _load(self, stored: StoredTrial) -> KeptTrial:
        log = self.log(stored.trial)
        first = protocol_in(log)
        return KeptTrial(stored=stored, log=log, noise=self._profile_with(first.profile) if first.profile else None)

    def _profile_with(self, differences: Mapping[str, tuple[float, ...]]) -> NoiseProfile | None:
        chosen = sa.select(noise_profiles.c.document).order_by(noise_profiles.c.made_unix_ms.desc())
        with self._open_database().reading() as connection:
            for row in connection.execute(chosen):
                found = msgspec.json.decode(row.document, type=NoiseProfile)
                if all(found.differences.get(name) == values for name, values in differences.items()):
                    return found
        return None

    @staticmethod
    def _insert(connection: sa.Connection, trial: StoredTrial) -> None:
        connection.execute(
            sa.insert(trials).values(
                trial=trial.trial,
                session=trial.session,
                protocol_sha256=trial.protocol_sha256,
                started_unix_ms=trial.started_unix_ms,
                document=msgspec.json.encode(trial).decode(),
            )
        )

    @staticmethod
    def _append(connection: sa.Connection, trial: str, events: Sequence[Event]) -> None:
        key = connection.execute(sa.select(trials.c.key).where(trials.c.trial == trial)).scalar_one()
        here = sa.select(sa.func.max(trial_events.c.number)).where(trial_events.c.trial_key == key)
        last = connection.execute(here).scalar() or 0
        lines = encode(events).decode().split("\n")[:-1]
        rows = [{"trial_key": key, "number": last + at, "document": line} for at, line in enumerate(lines, start=1)]
        connection.execute(sa.insert(trial_events), rows)

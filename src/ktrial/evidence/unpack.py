# SPDX-License-Identifier: Apache-2.0
"""Reads bundles: single sessions and runs, each checked, and a whole bundle as a source of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from ktrial.evidence.model import OTHER_COPY, BundledRun, BundledSession, Manifest, Packed, folder_of
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.json_strict import decode_as
from ktrial.results.model import StoredMeasurement, StoredRun, StoredSession

#: Key in the document of an imported session, for its first origin and the number of replaced names.
CAME = "bundle"


class Bundle(Protocol):
    """A bundle that has been read and checked."""

    @property
    def shown(self) -> str: ...

    @property
    def manifest(self) -> Manifest: ...

    def session(self, name: str) -> bytes:
        """Return the `session.json` of a session."""

    def runs(self, name: str) -> Iterator[bytes]: ...

    def raw(self, digest: str) -> bytes: ...

    def comparison(self) -> bytes | None:
        """Return the comparison that the bundle contains, if any."""

    @property
    def trials(self) -> tuple[str, ...]: ...

    def trial(self, name: str, part: str) -> bytes | None: ...

    @property
    def damaged(self) -> frozenset[str]:
        """Names of members that do not match their digest; empty if the reader rejects such bundles."""


def session_of(bundle: Bundle, packed: Packed) -> BundledSession:
    """Return a session that the manifest names. Raise BadInput if it is invalid."""
    where = f"{folder_of(packed.session)}/session.json in {bundle.shown}"
    try:
        session = decode_as(bundle.session(packed.session), BundledSession)
    except msgspec.DecodeError as error:
        raise BadInput(f"{where}: {error}", hint=OTHER_COPY) from None
    if session.session != packed.session or session.replaced != packed.replaced:
        raise BadInput(f"{where}: not the session that the manifest names", hint=OTHER_COPY)
    for digest in session.states.values():
        _check_there(bundle, digest, where)
    return session


def runs_of(bundle: Bundle, session: BundledSession) -> Iterator[tuple[StoredRun, Mapping[str, bytes]]]:
    """Yield each run with its raw output, which is read only when it is used. Raise BadInput for an invalid run."""
    seen: set[int] = set()
    for line, data in enumerate(bundle.runs(session.session), 1):
        where = f"{folder_of(session.session)}/runs.jsonl:{line} in {bundle.shown}"
        try:
            run = decode_as(data, BundledRun)
            told = () if run.document is None else run.document.get("measurements", ())
            measurements = tuple(msgspec.convert(one, StoredMeasurement) for one in told)
        except (msgspec.DecodeError, TypeError) as error:
            raise BadInput(f"{where}: {error}", hint=OTHER_COPY) from None
        if run.number in seen or run.state == "running":
            problem = "occurs twice" if run.number in seen else "is still running"
            raise BadInput(f"{where}: run {run.number} {problem}", hint=OTHER_COPY)
        seen.add(run.number)
        for digest in run.raw.values():
            _check_there(bundle, digest, where)
        _check_raw(run, where)
        stored = StoredRun(
            session=session.session,
            number=run.number,
            benchmark=run.benchmark,
            state=run.state,
            warm_up=run.warm_up,
            started_unix_ms=run.started_unix_ms,
            measurements=measurements,
            raw=run.raw,
            document=run.document,
        )
        yield stored, _Raw(bundle, run.raw)


def _check_there(bundle: Bundle, digest: str, where: str) -> None:
    if f"raw/{digest}" not in bundle.manifest.members:
        raise BadInput(f"{where}: raw output {digest[:12]}… is not in the bundle", hint=OTHER_COPY)


def _check_raw(run: BundledRun, where: str) -> None:
    """Raise BadInput if the record lists other raw output than the run has."""
    told = (run.document or {}).get("raw")
    if told is None:
        return
    if not isinstance(told, Mapping) or not all(isinstance(one, Mapping) for one in told.values()):
        raise BadInput(f"{where}: expected an object for each name in `raw`", hint=OTHER_COPY)
    if {name: one.get("sha256") for name, one in told.items()} != dict(run.raw):
        raise BadInput(f"{where}: the record lists other raw output than the run has", hint=OTHER_COPY)


class _Raw(Mapping[str, bytes]):
    """The raw output of one run, read from the bundle only when it is used."""

    def __init__(self, bundle: Bundle, names: Mapping[str, str]) -> None:
        self._bundle = bundle
        self._names = names

    def __getitem__(self, name: str) -> bytes:
        return self._bundle.raw(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def imported_session(session: BundledSession) -> StoredSession:
    came = {"origin": session.origin, "replaced": session.replaced}
    return msgspec.structs.replace(first(session), origin=CAME, document={**session.document, CAME: came})


def first(session: BundledSession) -> StoredSession:
    """Return the session as it was in the store that measured it."""
    return StoredSession(
        session=session.session,
        suite=session.suite,
        label=session.label,
        origin=session.origin,
        kernel_release=session.kernel_release,
        boot_id=session.boot_id,
        started_unix_ms=session.started_unix_ms,
        runs={},
        document=session.document,
    )


class BundleResults:
    """A bundle as `ReadResults`, with its sessions in their original form."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._sessions = {one.session: session_of(bundle, one) for one in bundle.manifest.sessions}

    def sessions(self) -> tuple[StoredSession, ...]:
        return tuple(sorted(map(first, self._sessions.values()), key=lambda one: -one.started_unix_ms))

    def runs(self, session: str) -> Iterator[StoredRun]:
        return (run for run, _ in runs_of(self._bundle, self._sessions[session]))

    def raw(self, digest: str) -> bytes:
        if f"raw/{digest}" not in self._bundle.manifest.members:
            raise UnknownName("raw output", digest, (), hint="ask the author of the bundle for a complete bundle")
        return self._bundle.raw(digest)

    def states(self, session: str) -> dict[str, str]:
        return dict(self._sessions[session].states)

    def is_scrubbed(self, session: str) -> bool:
        return bool(self._sessions[session].replaced)


class OwnMachine(NamedTuple):
    """What identifies results of this machine: the names of its installation, and the IDs of its boots."""

    names: frozenset[str]
    boots: frozenset[str]

    def has_measured(self, boot: str | None, document: Mapping[str, Any]) -> bool:
        """Return whether a session of this boot, with the facts in its document, was measured on this machine."""
        return boot in self.boots or fact_value(facts_of(document), "os.machine") in self.names


def facts_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of the machine in the document of a session."""
    told = document.get("machine")
    return told if isinstance(told, Mapping) else {}


def fact_value(facts: Mapping[str, Any], name: str) -> Any:
    """Return the value of a fact in a session's document; None unless it is a text or a number."""
    fact = facts.get(name)
    value = fact.get("value") if isinstance(fact, Mapping) else None
    return value if isinstance(value, str | int) else None

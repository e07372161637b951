# SPDX-License-Identifier: Apache-2.0
"""Packs sessions from a store into a bundle without names that identify people, and imports bundles."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ktrial.bench import packed_raw
from ktrial.bench.benchmark import Benchmark
from ktrial.evidence.model import OTHER_COPY, BundledRun, BundledSession, Packed, folder_of
from ktrial.evidence.reparse import read_again, reparse_run
from ktrial.evidence.trials import TrialKeeper, check_same_verdicts, members_of, new_trials
from ktrial.evidence.unpack import CAME, Bundle, imported_session, runs_of, session_of
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.scrub import Identity, Scrubber
from ktrial.results.model import StoredRun, StoredSession
from ktrial.results.ports import Results
from ktrial.trial.kept_trial import KeptTrial, cleaned

if TYPE_CHECKING:
    from ktrial.evidence.file import BundleWriter

#: Facts that may contain the machine's name.
_TELLING_FACTS = frozenset(("kernel.command_line", "kernel.version"))


class Sink(Protocol):
    """Accepts the members of a bundle."""

    def raw(self, data: bytes) -> str: ...

    def member(self, name: str, pieces: Iterable[bytes]) -> None: ...


class Scrubbing(msgspec.Struct, frozen=True, kw_only=True):
    """The names to replace, the secret for their placeholders, and the benchmarks whose output must stay readable."""

    identity: Identity
    salt: bytes
    benchmarks: Mapping[str, Benchmark]


class PackedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a new bundle.

    `left` lists names that are also ordinary words; ktrial replaced them in some places only. `spoiled` lists runs
    whose raw output no longer yields their numbers after names were replaced. `replaced` counts the names replaced in
    compared files and in the comparison's question, but not those in sessions.
    """

    sessions: tuple[Packed, ...]
    trials: tuple[str, ...] = ()
    left: tuple[str, ...]
    spoiled: tuple[str, ...]
    replaced: Mapping[str, int] = {}


class BroughtIn(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: new sessions and trials, and the sessions that the store already had."""

    imported: tuple[str, ...]
    skipped: tuple[str, ...]
    trials: tuple[str, ...] = ()


def make_bundle(
    path: Path,
    sessions: Sequence[StoredSession],
    results: Results,
    writer: BundleWriter,
    scrubbing: Scrubbing | None,
    trials: TrialKeeper | None = None,
) -> PackedBundle:
    """Write a bundle of the sessions and their trials to a file; without `scrubbing` all names remain."""
    made = pack(sessions, results, writer, scrubbing, trials)
    writer.write(path, made.sessions)
    return made


def pack(
    sessions: Sequence[StoredSession],
    results: Results,
    writer: BundleWriter,
    scrubbing: Scrubbing | None,
    trials: TrialKeeper | None = None,
) -> PackedBundle:
    """Add the sessions and their trials to a bundle that the caller writes later."""
    packed, left, spoiled, names = [], set(), [], []
    for session in sorted(sessions, key=lambda one: one.session):
        if session.runs.get("running"):
            raise Refused(
                f"cannot pack {session.session}: the session is still being measured",
                hint="wait until this session ends, or pack other sessions",
            )
        rest = () if trials is None else trials.of_session(session.session)
        one = _Packing(session, results, scrubbing, rest)
        one.put(writer)
        names += [kept.stored.trial for kept in rest]
        packed.append(Packed(session=session.session, replaced=one.replaced))
        left |= one.left
        spoiled += one.spoiled
    return PackedBundle(sessions=tuple(packed), trials=tuple(names), left=tuple(sorted(left)), spoiled=tuple(spoiled))


def bring_back(
    bundle: Bundle, results: Results, scrubbing: Scrubbing | None, trials: TrialKeeper | None = None
) -> BroughtIn:
    """Import the sessions and trials of a bundle.

    If the store has a session or trial of the same name with other content, import nothing. `scrubbing` holds
    the names that ktrial would replace in a bundle of this store. With them, ktrial also recognises sessions of this
    store in which names were replaced.
    """
    there = {one.session: one for one in results.sessions()}
    imported, skipped = [], []
    packings: list[_Packing] = []
    for packed in bundle.manifest.sessions:
        session = _checked(bundle, packed)
        if packed.session not in there:
            imported.append(session)
        elif (same := _same(there[packed.session], bundle, results, scrubbing, trials)) is not None:
            skipped.append(packed.session)
            packings.append(same)
        else:
            raise Refused(
                f"{bundle.shown}: session {packed.session} is already in the store with other content",
                hint=f"use another store: `ktrial --store FILE import {bundle.shown}`; nothing was imported",
            )
    fresh = () if trials is None else new_trials(bundle, trials, (kept for one in packings for kept in one.trials))
    for session in imported:
        places = {place: bundle.raw(digest) for place, digest in session.states.items()}
        results.save_all(imported_session(session), runs_of(bundle, session), places)
    if trials is not None:
        trials.bring(fresh)
    return BroughtIn(
        imported=tuple(one.session for one in imported),
        skipped=tuple(skipped),
        trials=tuple(one.stored.trial for one in fresh),
    )


def _checked(bundle: Bundle, packed: Packed) -> BundledSession:
    """Return a session after checking all its runs. Raise BadInput if one is invalid."""
    try:
        session = session_of(bundle, packed)
        for _ in runs_of(bundle, session):
            pass
    except BadInput as error:
        raise BadInput(error.message, hint=error.hint or OTHER_COPY) from None
    return session


class _Packing:
    """One session with its trials, to be added to a bundle."""

    def __init__(
        self, session: StoredSession, results: Results, scrubbing: Scrubbing | None, trials: Sequence[KeptTrial] = ()
    ) -> None:
        self._kept = tuple(trials)
        self._session = session
        self._results = results
        self._document = dict(session.document)
        came = self._document.pop(CAME) if session.origin == CAME and CAME in self._document else None
        self._origin = came["origin"] if came is not None else session.origin
        self.replaced: Mapping[str, int] | None = came["replaced"] if came is not None else None
        self._scrubbing = scrubbing if self.replaced is None else None
        self._scrubber: Scrubber | None = None
        self._done: dict[tuple[str, bool], tuple[str, int]] = {}
        self.spoiled: list[str] = []
        if self._scrubbing is not None:
            self._scrubber = self._learned(self._scrubbing)
        #: The trials as the bundle contains them; `_hashes` maps the old hash of each protocol to the new one.
        self.trials = tuple(cleaned(kept, self._clean) for kept in self._kept)
        self._hashes = {
            was.stored.protocol_sha256: now.stored.protocol_sha256
            for was, now in zip(self._kept, self.trials, strict=True)
        }

    @property
    def left(self) -> set[str]:
        """Names that are also ordinary words; some are still in the bundle."""
        return self._scrubber.left if self._scrubber is not None else set()

    def put(self, sink: Sink) -> None:
        for was, now in zip(self._kept, self.trials, strict=True):
            if was != now:
                check_same_verdicts(was, now)
            for name, data in members_of(now).items():
                sink.member(name, [data])
        folder = folder_of(self._session.session)
        sink.member(f"{folder}/runs.jsonl", (self._line(run, sink) for run in self._runs()))
        states = self._results.states(self._session.session)
        session = BundledSession(
            session=self._session.session,
            suite=self._session.suite,
            label=self._clean(self._session.label),
            origin=self._origin,
            kernel_release=self._session.kernel_release,
            boot_id=self._session.boot_id,
            started_unix_ms=self._session.started_unix_ms,
            document=self._clean(self._document),
            states={place: self._put(digest, sink)[0] for place, digest in states.items()},
            replaced=None,
        )
        if self._scrubber is not None:
            self.replaced = dict(sorted(self._scrubber.replaced.items()))
        sink.member(f"{folder}/session.json", [_line(msgspec.structs.replace(session, replaced=self.replaced))])

    def _runs(self) -> Iterator[StoredRun]:
        return self._results.runs(self._session.session)

    def _learned(self, scrubbing: Scrubbing) -> Scrubber:
        scrubber = Scrubber(scrubbing.identity, scrubbing.salt, self._names())
        scrubber.learn(self._document)
        for kept in self._kept:
            scrubber.learn(msgspec.to_builtins(kept))
        digests = set(self._results.states(self._session.session).values())
        for run in self._runs():
            scrubber.learn(run.document)
            digests |= set(run.raw.values())
        for digest in sorted(digests):
            try:
                for layer in packed_raw.layers(self._results.raw(digest)):
                    scrubber.learn(layer)
            except BadInput as error:
                raise self._closed(digest, error) from None
        return scrubber

    def _closed(self, digest: str, error: BadInput) -> Refused:
        """Return the error for raw output that ktrial cannot decode, and that may therefore contain names."""
        places = (f"run {run.number}, {name}" for run in self._runs() for name in run.raw if run.raw[name] == digest)
        where = next(places, "")
        return Refused(
            f"cannot pack {self._session.session}: the raw output of {where or 'its states'} may contain names "
            f"({error.message})",
            hint="use --keep-identity to pack this session with the names, or pack other sessions",
        )

    def _names(self) -> set[str]:
        """Return names of results and words of facts, which are never names of people or hosts."""
        names = {self._session.suite}
        for run in self._runs():
            names |= {run.benchmark, str((run.document or {}).get("tool")), *(one.outcome for one in run.measurements)}
        for kept in self._kept:
            names |= {kept.stored.trial, kept.protocol.name, *kept.protocol.outcomes}
            for arm in kept.protocol.arms:
                changes = kept.stored.arms[arm.name].changes
                names |= {arm.name, *changes, *changes.values()}
        for name, fact in (self._document.get("machine") or {}).items():
            if name not in _TELLING_FACTS and isinstance(fact, Mapping):
                names |= {word for part in str(fact.get("value")).split() for word in (part, *part.split("-"))}
        return names

    def _line(self, run: StoredRun, sink: Sink) -> bytes:
        raw = {name: self._results.raw(digest) for name, digest in run.raw.items()} if self._guarded(run) else {}
        clean = self._clean(run.document)
        place = None if clean is None else clean.get("trial")
        if isinstance(place, Mapping) and place.get("protocol_sha256") in self._hashes:
            clean = {**clean, "trial": {**place, "protocol_sha256": self._hashes[place["protocol_sha256"]]}}
        places_only = bool(raw) and self._changes_numbers(run, clean, raw, places_only=False)
        if places_only and self._changes_numbers(run, clean, raw, places_only=True):
            self.spoiled.append(f"{run.session}/{run.number}")
        put = {name: self._put(digest, sink, places_only=places_only) for name, digest in sorted(run.raw.items())}
        if clean is not None and "raw" in clean:
            sizes = {name: {"sha256": digest, "size_bytes": size} for name, (digest, size) in put.items()}
            clean = {**clean, "raw": sizes}
        return _line(
            BundledRun(
                number=run.number,
                benchmark=run.benchmark,
                state=run.state,
                warm_up=run.warm_up,
                started_unix_ms=run.started_unix_ms,
                raw={name: digest for name, (digest, _) in put.items()},
                document=clean,
            )
        )

    def _guarded(self, run: StoredRun) -> bool:
        """Return whether the scrubbed raw output must still yield the run's numbers."""
        if self._scrubbing is None or run.state != "ok":
            return False
        return reparse_run(run, {}, self._scrubbing.benchmarks).unread is None

    def _changes_numbers(self, run: StoredRun, clean: Any, raw: Mapping[str, bytes], *, places_only: bool) -> bool:
        """Return whether replacing names makes the run's raw output yield other numbers."""
        assert self._scrubbing is not None, "only scrubbed sessions are guarded"
        assert self._scrubber is not None, "scrubbing creates a scrubber"
        counted = Counter(self._scrubber.replaced)
        without = {
            name: packed_raw.scrubbed(data, self._scrubber, places_only=places_only) for name, data in raw.items()
        }
        self._scrubber.replaced = counted
        if without == raw:
            return False
        after = msgspec.structs.replace(run, document=clean)
        benchmarks = self._scrubbing.benchmarks
        try:
            before = read_again(run, raw, benchmarks)[1:]
        except (KeyError, TypeError, AttributeError, ValueError):
            return False  # not the record of a measurement, so its output is never re-read
        return before != read_again(after, without, benchmarks)[1:]

    def _put(self, digest: str, sink: Sink, *, places_only: bool = False) -> tuple[str, int]:
        """Add raw bytes to the bundle, scrubbed once; return their digest and size in the bundle."""
        key = (digest, places_only)
        if key not in self._done:
            data = self._results.raw(digest)
            if self._scrubber is not None:
                data = packed_raw.scrubbed(data, self._scrubber, places_only=places_only)
            self._done[key] = (sink.raw(data), len(data))
        return self._done[key]

    def _clean(self, value: Any) -> Any:
        return value if self._scrubber is None else self._scrubber.document(value)


class _Digests:
    """A sink that keeps only the digests of members."""

    def __init__(self) -> None:
        self.members: dict[str, str] = {}

    def raw(self, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    def member(self, name: str, pieces: Iterable[bytes]) -> None:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        self.members[name] = digest.hexdigest()


def _same(
    session: StoredSession, bundle: Bundle, results: Results, scrubbing: Scrubbing | None, trials: TrialKeeper | None
) -> _Packing | None:
    """Return the store's session, unchanged or scrubbed, if it equals the bundle's session; otherwise None."""
    rest = () if trials is None else trials.of_session(session.session)
    folder = folder_of(session.session)
    wanted = {name: one.sha256 for name, one in bundle.manifest.members.items() if name.startswith(f"{folder}/")}
    for way in (None, scrubbing):
        found, one = _Digests(), _Packing(session, results, way, rest)
        one.put(found)
        own = {name: digest for name, digest in found.members.items() if name.startswith(f"{folder}/")}
        if own == wanted:
            return one
    return None


def _line(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value, order="sorted") + b"\n"

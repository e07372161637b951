# SPDX-License-Identifier: Apache-2.0
"""Bundles: sessions out of a store into one file, without what tells on somebody, and back into a store."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ktrial.bench import packed_raw
from ktrial.bench.benchmark import Benchmark
from ktrial.evidence.model import ANEW, BundledRun, BundledSession, Packed, folder_of
from ktrial.evidence.reparse import read_again, reparse_run
from ktrial.evidence.trials import TrialKeeper, check_same_verdicts, members_of, new_trials
from ktrial.evidence.unpack import CAME, Bundle, imported_session, runs_of, session_of
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.scrub import Identity, Scrubber
from ktrial.results.model import StoredRun, StoredSession
from ktrial.results.ports import Results
from ktrial.trial.kept_trial import KeptTrial, cleaned

#: Facts of a machine in which a name of it may stand.
_TELLING_FACTS = frozenset(("kernel.command_line", "kernel.version"))


class Sink(Protocol):
    """Takes the members of a bundle."""

    def raw(self, data: bytes) -> str: ...

    def member(self, name: str, pieces: Iterable[bytes]) -> None: ...


class Writer(Sink, Protocol):
    """Makes a bundle."""

    def opened(self, sessions: Iterable[Packed]) -> Bundle:
        """Return what was put in so far."""

    def write(self, path: Path, sessions: Iterable[Packed]) -> None: ...


class Scrubbing(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be taken out, the secret of the placeholders, and the adapters that must still read what is left."""

    identity: Identity
    salt: bytes
    benchmarks: Mapping[str, Benchmark]


class PackedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What went into a bundle. `left` are names that could not be told from other words, except by their place.

    `spoiled` are runs whose raw output no longer gives their numbers without the names in it. `replaced` counts what
    was replaced outside of the sessions, in compared files and in what was asked of them.
    """

    sessions: tuple[Packed, ...]
    trials: tuple[str, ...] = ()
    left: tuple[str, ...]
    spoiled: tuple[str, ...]
    replaced: Mapping[str, int] = {}


class BroughtIn(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a bundle: sessions that are new, and those that were there already, the same."""

    imported: tuple[str, ...]
    skipped: tuple[str, ...]
    trials: tuple[str, ...] = ()


def make_bundle(
    path: Path,
    sessions: Sequence[StoredSession],
    results: Results,
    writer: Writer,
    scrubbing: Scrubbing | None,
    trials: TrialKeeper | None = None,
) -> PackedBundle:
    """Write the sessions, and the trials that rest on them, to a file; without `scrubbing` as they are."""
    made = pack(sessions, results, writer, scrubbing, trials)
    writer.write(path, made.sessions)
    return made


def pack(
    sessions: Sequence[StoredSession],
    results: Results,
    writer: Writer,
    scrubbing: Scrubbing | None,
    trials: TrialKeeper | None = None,
) -> PackedBundle:
    """Put the sessions, and the trials that rest on them, into a bundle that is written later."""
    packed, left, spoiled, names = [], set(), [], []
    for session in sorted(sessions, key=lambda one: one.session):
        if session.runs.get("running"):
            raise Refused(f"{session.session} is being measured", hint="wait for its end, or name other sessions")
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
    """Put sessions and trials of a bundle into a store: nothing unless every one is new or there already, the same.

    `scrubbing` is what a bundle made here would be scrubbed with: a session that comes back so is the same.
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
                f"{bundle.shown}: session {packed.session} is in the store already, and not the same",
                hint="nothing was imported; import it into another store:  ktrial --store FILE import …",
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
    """Return a session with all its runs in order; raises BadInput."""
    try:
        session = session_of(bundle, packed)
        for _ in runs_of(bundle, session):
            pass
    except BadInput as error:
        raise BadInput(error.message, hint=error.hint or ANEW) from None
    return session


class _Packing:
    """One session with its trials on its way into a bundle."""

    def __init__(
        self,
        session: StoredSession,
        results: Results,
        scrubbing: Scrubbing | None,
        trials: Sequence[KeptTrial] = (),
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
        #: The trials as they go into it, and the hash of each protocol by the one that it had.
        self.trials = tuple(cleaned(kept, self._clean) for kept in self._kept)
        self._hashes = {
            was.stored.protocol_sha256: now.stored.protocol_sha256
            for was, now in zip(self._kept, self.trials, strict=True)
        }

    @property
    def left(self) -> set[str]:
        """Names that could not be told from other words."""
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
        """Nobody knows whose names stand in what cannot be opened."""
        places = (f"run {run.number}, {name}" for run in self._runs() for name in run.raw if run.raw[name] == digest)
        where = next(places, "")
        return Refused(
            f"{self._session.session}: the raw output of {where or 'its states'} may hold names: {error.message}",
            hint="--keep-identity packs it as it is, with all names; or name other sessions",
        )

    def _names(self) -> set[str]:
        """Names of results and words of the machine's facts: no name of a person or a host is looked for in them."""
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
        """Return whether the numbers of the run must come out of its raw output again."""
        if self._scrubbing is None or run.state != "ok":
            return False
        return reparse_run(run, {}, self._scrubbing.benchmarks).unread is None

    def _changes_numbers(self, run: StoredRun, clean: Any, raw: Mapping[str, bytes], *, places_only: bool) -> bool:
        """Return whether the run's raw output gives other numbers without the names in it."""
        assert self._scrubbing is not None, "only a session that is scrubbed is guarded"
        assert self._scrubber is not None, "it has a scrubber then"
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
            return False  # no record of a measurement: nothing is read from its output
        return before != read_again(after, without, benchmarks)[1:]

    def _put(self, digest: str, sink: Sink, *, places_only: bool = False) -> tuple[str, int]:
        """Raw bytes into the bundle, scrubbed once; their digest and size there."""
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
    """A sink that keeps the digests of members alone."""

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
    session: StoredSession,
    bundle: Bundle,
    results: Results,
    scrubbing: Scrubbing | None,
    trials: TrialKeeper | None,
) -> _Packing | None:
    """How the store's session is the bundle's: as it is, or as it would go into a bundle; None if it is neither."""
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

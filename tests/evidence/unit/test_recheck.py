# SPDX-License-Identifier: Apache-2.0
"""What a recheck says of a bundle: which run, file or record it convicts, and what it could not read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from ktrial.bench.record import RunRecord
from ktrial.evidence.differences import Difference, RecheckResult, UnreadData
from ktrial.evidence.model import BundledRun, BundledSession, BundleMember, Manifest, Packed
from ktrial.evidence.recheck import Readers, recheck
from ktrial.evidence.recheck_trial import trial_differences
from ktrial.evidence.trials import check_same_verdicts, members_of, trial_in
from ktrial.evidence.unpack import BundleResults, runs_of, session_of
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.log import RunEnded
from ktrial.judge.model.query import AskedComparison, ImportOptions
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.results.foreign import ForeignResults, ForeignRun, Importer
from ktrial.results.import_file import document_of
from ktrial.results.model import StoredMeasurement, StoredRun, StoredSession
from ktrial.trial.kept_trial import KeptTrial
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.bench import FakeBenchmark
from tests.support.comparisons import two_arms
from tests.support.stores import a_record, a_run, a_session
from tests.support.told_trials import a_trial

TIME = {"outcome": "time", "value": 1.5, "unit": "s", "direction": "lower", "original": "1.5 s"}
NOTE = "the bundle contains no comparison: only raw output was re-read"


the_catalog = cache(load_catalog)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Bundle:
    """A bundle made of memory. Implements `Bundle`."""

    shown = "b.tar.zst"

    def __init__(self) -> None:
        self.damaged: frozenset[str] = frozenset()
        self.trials: tuple[str, ...] = ()
        self.files: dict[str, bytes] = {}
        self._sessions: dict[str, BundledSession] = {}
        self._runs: dict[str, list[BundledRun]] = {}
        self._raw: dict[str, bytes] = {}

    def add(self, *runs: StoredRun, session: str = "s1", raw: Mapping[str, bytes] | None = None, **fields: Any) -> None:
        """A session; its first run has this raw output."""
        values: dict[str, Any] = {
            "suite": "quick",
            "label": "stock",
            "origin": "bench",
            "kernel_release": None,
            "boot_id": None,
            "started_unix_ms": 1_700_000_000_000,
            "document": {},
            "states": {},
            "replaced": None,
        }
        self._sessions[session] = BundledSession(session=session, **{**values, **fields})
        self._runs[session] = [
            BundledRun(
                number=run.number,
                benchmark=run.benchmark,
                state=run.state,
                warm_up=False,
                started_unix_ms=1,
                raw={} if place else {name: self.keep(data) for name, data in (raw or {}).items()},
                document={name: told for name, told in (run.document or {}).items() if name != "raw"},
            )
            for place, run in enumerate(runs)
        ]

    def keep(self, data: bytes) -> str:
        """Raw bytes; their digest."""
        self._raw[digest_of(data)] = data
        return digest_of(data)

    @property
    def manifest(self) -> Manifest:
        sessions = tuple(Packed(session=name, replaced=one.replaced) for name, one in self._sessions.items())
        return Manifest(sessions=sessions, members={f"raw/{one}": BundleMember(one, 1) for one in self._raw})

    def session(self, name: str) -> bytes:
        return msgspec.json.encode(self._sessions[name])

    def runs(self, name: str) -> Iterator[bytes]:
        return iter([msgspec.json.encode(run) for run in self._runs[name]])

    def raw(self, digest: str) -> bytes:
        return self._raw[digest]

    def comparison(self) -> bytes | None:
        return None

    def trial(self, name: str, part: str) -> bytes | None:
        return self.files.get(f"trials/{name}/{part}")


def checked(
    bundle: Bundle, published: Comparison | None = None, again: Any = None, found: ForeignResults | None = None
) -> RecheckResult:
    """What is found; `found` is what the file of an import tells now."""

    def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
        if found is None:
            raise BadInput(f"{name} is strange: {data!r} {options.label}")
        return found

    importer = Importer(name="other", what="", sniff=lambda data, name: False, read=read)
    readers = Readers(
        benchmarks={"tool": FakeBenchmark(name="tool")},
        importers={"other": importer},
        catalog=the_catalog(),
        again=again,
    )
    return recheck(bundle, published, readers).found


# Runs of ktrial's own


def test_all_runs_of_all_sessions_are_looked_at() -> None:
    bundle = Bundle()
    bundle.add(a_record(1, "tool", measurements=[TIME]), raw={"stdout": b"time 1.5"})
    bundle.add(
        a_record(1, "tool", measurements=[TIME]),
        a_record(2, "make", measurements=[TIME]),
        a_record(3, "tool", exit=None),
        session="s2",
        raw={"stdout": b"time 2.5"},
    )
    found = checked(bundle)
    assert (found.file, found.runs, found.outcomes, found.question_sha256) == ("b.tar.zst", 4, 0, None)
    assert found.notes == (NOTE,)
    assert [(one.kind, one.where) for one in found.differences] == [
        ("measurement", "s2/1, tool"),
        ("measurement", "s2/3, tool"),
    ]
    assert found.differences[1].told.startswith("invalid run record: ")
    assert [one.run for one in found.unread] == ["s2/2"]
    assert found.unread[0].reason.startswith("unknown benchmark make")


# Members that were changed


@pytest.mark.parametrize(
    "member, where",
    [
        (f"raw/{digest_of(b'time 1.5')}", ["s1/1, raw output stdout"]),
        (f"raw/{digest_of(b'state')}", ["s1, the machine's state (control)", "s2, the machine's state (case)"]),
        ("sessions/s1/runs.jsonl", ["s1, its runs"]),
        ("sessions/s1/session.json", ["s1, its description"]),
        ("comparison.json", ["the comparison"]),
        (f"raw/{digest_of(b'a file')}", [f"a compared file, {digest_of(b'a file')[:12]}…"]),
        ("trials/t/trial.json", ["trial t, its protocol"]),
        ("trials/t/log.jsonl", ["trial t, its log"]),
        ("trials/t/noise.json", ["trial t, its noise profile"]),
    ],
)
def test_a_member_that_was_changed_is_named_by_what_it_belongs_to(member: str, where: list[str]) -> None:
    bundle = Bundle()
    states = {"control": bundle.keep(b"state"), "other": bundle.keep(b"other")}
    bundle.add(a_record(1, "tool", measurements=[TIME]), raw={"stdout": b"time 1.5", "stderr": b""}, states=states)
    older = {"started_unix_ms": 1, "states": {"case": digest_of(b"state")}}
    bundle.add(a_record(1, "tool", measurements=[TIME]), session="s2", raw={"stdout": b" time 1.5"}, **older)
    bundle.damaged = frozenset({member})
    told = f"{member} was changed: it does not match its digest"
    found = [one for one in checked(bundle).differences if one.kind == "hash"]
    assert found == [Difference(kind="hash", where=place, told=told) for place in where]


# Imports

RUN = ForeignRun(
    group="stock",
    benchmark="theirs",
    number=1,
    measurements=(StoredMeasurement(outcome="time", value=1.5, unit="s", direction="lower", original="1.5"),),
    block="a",
    attributes={"host": "desk"},
)
OPTIONS = {"options": msgspec.to_builtins(ImportOptions(label="mine")), "format": "other", "file": "r.txt"}


def stored(*runs: ForeignRun) -> list[StoredRun]:
    return [msgspec.structs.replace(a_record(run.number, "theirs"), document=document_of(run)) for run in runs]


def imported(*runs: ForeignRun, document: Mapping[str, Any] = OPTIONS, **fields: Any) -> Bundle:
    bundle = Bundle()
    origin = {"origin": "import:other", "document": document, "raw": {"file": b"theirs"}}
    bundle.add(*stored(*runs), **{**origin, **fields})
    return bundle


def results(*runs: ForeignRun) -> ForeignResults:
    return ForeignResults(format="other", runs=runs)


SECOND = msgspec.structs.replace(RUN, number=2)


def test_an_import_that_reads_the_same_is_in_order() -> None:
    found = checked(imported(RUN, SECOND), found=results(RUN, SECOND))
    assert (found.runs, found.differences, found.unread) == (2, (), ())


@pytest.mark.parametrize("lacking", [{"raw": {}}, {"document": {"format": "other", "file": "r.txt"}}])
def test_imported_runs_without_their_file_or_how_it_was_read_are_unread(lacking: Any) -> None:
    found = checked(imported(RUN, SECOND, **lacking), found=results())
    reason = "the imported file is missing"
    assert (found.differences, found.unread) == (
        (),
        tuple(UnreadData(run=f"s1/{one}", reason=reason) for one in (1, 2)),
    )


@pytest.mark.parametrize(
    "document, told",
    [
        (OPTIONS, "r.txt is strange: b'theirs' mine"),
        (OPTIONS | {"format": "lost"}, "lost"),
        (OPTIONS | {"options": {"label": 1}}, "expected `str | null`"),
        ({name: told for name, told in OPTIONS.items() if name != "format"}, "'format'"),
    ],
)
def test_a_file_that_cannot_be_read_any_more_is_named(document: Mapping[str, Any], told: str) -> None:
    (found,) = checked(imported(RUN, document=document)).differences
    assert (found.kind, found.where) == ("measurement", "s1, its file")
    assert found.told.startswith("cannot read the imported file: ")
    assert told in found.told


MORE = StoredMeasurement(outcome="more", value=2.0, unit="s", direction=None, original="2")
FACTS: dict[str, Any] = {
    "block": {"block": "b"},
    "failure": {"failure": "it crashed"},
    "attributes": {"attributes": {"host": "other"}},
}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("replaced", [None, {}, {"host": 1}])
def test_what_is_told_of_a_run_is_compared_where_no_name_was_replaced(name: str, replaced: Any) -> None:
    now = msgspec.structs.replace(RUN, **FACTS[name])
    found = checked(imported(RUN, replaced=replaced), found=results(now)).differences
    told = f"{name}: stored {getattr(RUN, name)}, the file has {getattr(now, name)}"
    where = "s1/1, theirs"
    assert found == (() if replaced else (Difference(kind="measurement", where=where, told=told),))


@pytest.mark.parametrize("field, value", [("value", 1.6), ("unit", "B"), ("direction", None), ("original", "1.50")])
def test_any_part_of_an_imported_measurement_is_compared(field: str, value: Any) -> None:
    """Where names were replaced, too."""
    measured = msgspec.structs.replace(RUN.measurements[0], **{field: value})
    now = msgspec.structs.replace(RUN, measurements=(measured,))
    (found,) = checked(imported(RUN, replaced={"host": 1}), found=results(now)).differences
    assert found.told.startswith("time: stored (1.5, 's', 'lower', '1.5'), the file has (")


def test_a_measurement_that_one_side_lacks_is_named() -> None:
    with_more = msgspec.structs.replace(RUN, measurements=(*RUN.measurements, MORE))
    for before, now, told in (
        (RUN, with_more, "more: stored nothing, the file has (2.0, 's', None, '2')"),
        (with_more, RUN, "more: stored (2.0, 's', None, '2'), the file has nothing"),
    ):
        assert [one.told for one in checked(imported(before), found=results(now)).differences] == [told]


def test_a_run_that_the_file_does_not_have_is_named() -> None:
    found = checked(imported(RUN, SECOND), found=results(RUN)).differences
    assert found == (Difference(kind="measurement", where="s1/2, theirs", told="the file does not contain this run"),)


# Comparisons and trials


def published(**fields: Any) -> Comparison:
    asked = AskedComparison(sources=())
    return msgspec.structs.replace(two_arms(4), **{"asked": asked, "asked_sha256": asked.sha256, **fields})


def test_a_comparison_that_comes_out_is_counted_and_has_no_note() -> None:
    before = published()
    found = checked(Bundle(), before, lambda *_: before)
    assert (found.outcomes, found.question_sha256) == (len(before.outcomes), before.asked_sha256)
    assert (found.differences, found.notes) == ((), ())


def test_a_question_that_was_changed_is_named_though_nothing_comes_out() -> None:
    def again(*_: object) -> Comparison:
        raise KtrialError("the arm is missing")

    before = published(asked_sha256="abc")
    assert before.asked is not None
    assert checked(Bundle(), before, again).differences == (
        Difference(
            kind="question",
            where="the question",
            told=f"the question was changed: its digest is {before.asked.sha256}, but abc is stored",
        ),
        Difference(
            kind="comparison",
            where="the comparison",
            told="cannot recompute the comparison: the arm is missing",
        ),
    )


def test_a_trial_that_is_damaged_is_named_and_the_next_is_read() -> None:
    bundle = Bundle()
    bundle.trials = ("one", "two")
    found = checked(bundle)
    assert found.notes == (NOTE,)
    assert found.differences == tuple(
        Difference(
            kind="trial",
            where=f"trial {name}",
            told=f"cannot read the trial: b.tar.zst: trials/{name}/trial.json is not in the bundle",
        )
        for name in bundle.trials
    )


def test_the_comparison_of_a_trial_that_is_not_there_is_named() -> None:
    told = a_trial().told()
    assert checked(Bundle(), told).differences == (
        Difference(
            kind="comparison",
            where="the comparison",
            told="the comparison belongs to the trial swappiness-abcdef, which is not in the bundle",
        ),
    )


class Records:
    """The records of a trial, as a store has them; without any there is no session either."""

    def __init__(self, *records: RunRecord) -> None:
        self._records = records

    def sessions(self) -> tuple[StoredSession, ...]:
        known = {one.session.session: msgspec.to_builtins(one.session) for one in self._records}
        return tuple(a_session(name, document=document) for name, document in known.items())

    def runs(self, session: str) -> tuple[StoredRun, ...]:
        documents = [(one.run, msgspec.to_builtins(one)) for one in self._records]
        return tuple(a_run(number, session=session, document=document) for number, document in documents)


def test_a_trial_whose_session_is_not_there_is_named() -> None:
    kept = a_trial()
    (found,) = trial_differences(KeptTrial(stored=kept.stored, log=kept.log), Records())  # type: ignore[arg-type]
    assert (found.kind, found.where) == ("trial", "trial swappiness-abcdef, its runs")
    assert found.told == "cannot find the runs of swappiness-abcdef in the store"


def test_of_a_visit_that_was_broken_off_and_made_again_only_the_whole_one_is_missed() -> None:
    """Two benchmarks in each visit: one visit of which the log says nothing began with the first of them alone."""
    kept = a_trial(void=False)
    replace = msgspec.structs.replace
    missed = next(one for one in kept.records if one.trial is not None and one.trial.block == 4)
    records: list[RunRecord] = []
    numbers: dict[int, int] = {}
    for one in kept.records:
        for benchmark in ("other", "other", "tool") if one is missed else ("other", "tool"):
            records.append(replace(one, run=len(records) + 1, benchmark=benchmark))
        numbers[one.run] = len(records)
    log = tuple(
        replace(event, run=numbers[event.run]) if isinstance(event, RunEnded) else event
        for event in kept.log
        if not (isinstance(event, RunEnded) and event.run == missed.run)
    )
    found = trial_differences(KeptTrial(stored=kept.stored, log=log), Records(*records))  # type: ignore[arg-type]
    last = numbers[missed.run]
    assert [one.where.rpartition(", ")[2] for one in found if "the log omits" in one.told] == [
        f"run {last - 1}",
        f"run {last}",
    ]


def test_the_comparison_of_a_trial_whose_records_are_none_is_named() -> None:
    kept = a_trial()
    bundle = Bundle()
    bundle.trials = (kept.stored.trial,)
    bundle.files = members_of(KeptTrial(stored=kept.stored, log=kept.log))
    bundle.add(a_record(7, "tool", exit=None), session=kept.stored.session)
    found = checked(bundle, kept.told())
    (one,) = [one for one in found.differences if one.kind == "comparison"]
    assert one.where == "the comparison"
    assert one.told.startswith(
        f"cannot recompute the comparison: run 7 of {kept.stored.session} has an invalid run record"
    )
    assert [one.partition(":")[0] for one in found.notes] == ["trial swappiness-abcdef"]
    assert found.outcomes == 4


# What bundles say of what they hold


def the_trial() -> tuple[Bundle, str]:
    """A bundle with a trial that is in order, and its name."""
    kept = a_trial()
    bundle = Bundle()
    bundle.files = members_of(KeptTrial(stored=kept.stored, log=kept.log))
    bundle.add(session=kept.stored.session)
    return bundle, kept.stored.trial


def test_a_trial_is_read_from_its_files() -> None:
    bundle, name = the_trial()
    assert trial_in(bundle, name).log == a_trial().log


@pytest.mark.parametrize(
    "part, data, told",
    [
        ("trial.json", None, "/trial.json is not in the bundle"),
        ("log.jsonl", None, "/log.jsonl is not in the bundle"),
        ("trial.json", b"{", " is malformed (input data was truncated"),
        ("noise.json", b"{}", " is malformed (object missing required field"),
        ("log.jsonl", b"{}", "/log.jsonl ends within a line"),
    ],
)
def test_a_trial_that_is_not_in_order_is_refused(part: str, data: bytes | None, told: str) -> None:
    bundle, name = the_trial()
    bundle.files.pop(f"trials/{name}/{part}", None)
    if data is not None:
        bundle.files[f"trials/{name}/{part}"] = data
    with pytest.raises(BadInput, match=re.escape(f"b.tar.zst: trials/{name}{told}")):
        trial_in(bundle, name)


def test_names_that_would_change_a_verdict_stay() -> None:
    kept = a_trial()
    before = KeptTrial(stored=kept.stored, log=kept.log)
    check_same_verdicts(before, before)
    with pytest.raises(
        KtrialError,
        match="names of hosts and users in swappiness-abcdef: that would change its verdicts",
    ):
        check_same_verdicts(before, KeptTrial(stored=kept.stored, log=kept.log[:1]))


def test_raw_output_is_found_by_its_digest_alone() -> None:
    bundle = Bundle()
    bundle.add(a_run(1, session="s1"), raw={"stdout": b"1"})
    results = BundleResults(bundle)
    assert results.raw(digest_of(b"1")) == b"1"
    with pytest.raises(UnknownName, match="raw output"):
        results.raw(digest_of(b"2"))
    ((_, raw),) = runs_of(bundle, session_of(bundle, bundle.manifest.sessions[0]))
    assert (len(raw), dict(raw)) == (1, {"stdout": b"1"})

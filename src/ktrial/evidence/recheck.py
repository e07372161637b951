# SPDX-License-Identifier: Apache-2.0
"""Rechecks a bundle: re-reads its raw output, recomputes its comparison, and reports every difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.bench.benchmark import Benchmark
from ktrial.evidence.differences import Difference, RecheckResult, UnreadData, comparison_differences
from ktrial.evidence.model import COMPARISON, folder_of, trials_of
from ktrial.evidence.recheck_trial import told_again, trial_differences, trial_note
from ktrial.evidence.reparse import BROKEN, reparse_run
from ktrial.evidence.trials import trial_in
from ktrial.evidence.unpack import Bundle, BundleResults
from ktrial.evidence.with_sources import Again, question_of, sessions_of
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, KtrialError, in_lower_case
from ktrial.results.foreign import ForeignRun, Importer
from ktrial.results.import_file import ForeignFile, ImportRequest, document_of, read_results
from ktrial.results.model import StoredRun, StoredSession
from ktrial.trial.kept_trial import KeptTrial
from ktrial.tuning.catalog.model import Catalog

OTHER_WRITER = "another version of ktrial wrote the comparison: its texts are not compared"


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to re-read raw output and imported files, and to recompute a comparison."""

    benchmarks: Mapping[str, Benchmark]
    importers: Mapping[str, Importer]
    catalog: Catalog
    again: Again


class Recomputed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a recheck, and the recomputed comparison if there is one."""

    found: RecheckResult
    comparison: Comparison | None


def recheck(bundle: Bundle, published: Comparison | None, readers: Readers) -> Recomputed:
    """Check everything in a bundle. Recompute `published`, the comparison of the bundle's data, unless it is None."""
    results = BundleResults(bundle)
    differences = list(_damaged(bundle, results))
    unread: list[UnreadData] = []
    runs = 0
    for session in results.sessions():
        kept = tuple(results.runs(session.session))
        runs += len(kept)
        told = list(_session(session, kept, results, readers))
        differences += [one for one in told if isinstance(one, Difference)]
        unread += [one for one in told if isinstance(one, UnreadData)]
    trials, wrong = _trials(bundle, results)
    differences += wrong
    again = None
    if published is not None and published.trial is not None:
        wrong, again = _trial(published, published.trial.trial, trials, results, readers)
        differences += wrong
    elif published is not None:
        wrong, again = _comparison(published, results, readers)
        differences += wrong
    found = RecheckResult(
        file=bundle.shown,
        runs=runs + (0 if again is None else _runs_of_files(again)),
        outcomes=0 if published is None else len(published.outcomes),
        question_sha256=None if published is None else published.asked_sha256,
        differences=tuple(differences),
        unread=tuple(unread),
        notes=_notes(published, again, trials),
    )
    return Recomputed(found=found, comparison=again)


def _notes(published: Comparison | None, again: Comparison | None, trials: Sequence[KeptTrial]) -> tuple[str, ...]:
    notes = tuple(map(trial_note, trials))
    if published is None:
        return notes or ("the bundle contains no comparison: only raw output was re-read",)
    return (*notes, OTHER_WRITER) if again is not None and again.writer != published.writer else notes


def _runs_of_files(again: Comparison) -> int:
    """Return the number of compared runs that come from files of other tools and belong to no session."""
    if again.asked is None:
        return 0
    of_files = {source.name for source in again.asked.sources if not source.sessions}
    only_files = not sessions_of(again.asked)
    return sum(arm.runs for arm in again.arms if only_files or arm.arm in of_files)


def _trials(bundle: Bundle, results: BundleResults) -> tuple[list[KeptTrial], list[Difference]]:
    """Return all readable trials, and all differences found in any trial."""
    found: list[KeptTrial] = []
    wrong: list[Difference] = []
    for name in bundle.trials:
        try:
            trial = trial_in(bundle, name)
        except BadInput as error:
            wrong.append(Difference(kind="trial", where=f"trial {name}", told=f"cannot read the trial: {error}"))
            continue
        found.append(trial)
        wrong += trial_differences(trial, results)
    return found, wrong


def _trial(
    published: Comparison, name: str, trials: Sequence[KeptTrial], results: BundleResults, readers: Readers
) -> tuple[list[Difference], Comparison | None]:
    """Return the differences between a trial's published comparison and the one recomputed from its log."""
    kept = next((one for one in trials if one.stored.trial == name), None)
    if kept is None:
        told = f"the comparison belongs to the trial {name}, which is not in the bundle"
        return [Difference(kind="comparison", where="the comparison", told=told)], None
    try:
        again = told_again(kept, results, readers.benchmarks, readers.catalog)
    except KtrialError as error:
        told = f"cannot recompute the comparison: {error.message}"
        return [Difference(kind="comparison", where="the comparison", told=told)], None
    return list(comparison_differences(published, again)), again


def _damaged(bundle: Bundle, results: BundleResults) -> Iterator[Difference]:
    """Yield the members that do not match their digest, and the runs to which they belong."""
    for member in sorted(bundle.damaged):
        digest = member.removeprefix("raw/")
        places = [
            *(
                f"{run.session}/{run.number}, raw output {name}"
                for session in results.sessions()
                for run in results.runs(session.session)
                for name, of_run in run.raw.items()
                if of_run == digest
            ),
            *(
                f"{session.session}, the machine's state ({place})"
                for session in results.sessions()
                for place, of_state in results.states(session.session).items()
                if of_state == digest
            ),
            *(
                f"{session.session}, {'its runs' if member.endswith('runs.jsonl') else 'its description'}"
                for session in results.sessions()
                if member.startswith(f"{folder_of(session.session)}/")
            ),
        ]
        for place in places or ["the comparison" if member == COMPARISON else f"a compared file, {digest[:12]}…"]:
            yield Difference(
                kind="hash", where=_place(member, place), told=f"{member} was changed: it does not match its digest"
            )


def _place(member: str, place: str) -> str:
    """Return the trial and the part of it that a member belongs to; `place` for other members."""
    if not member.startswith("trials/"):
        return place
    part = {"trial.json": "its protocol", "log.jsonl": "its log"}.get(member.rpartition("/")[2], "its noise profile")
    return f"trial {trials_of([member])[0]}, {part}"


def _session(
    session: StoredSession, runs: tuple[StoredRun, ...], results: BundleResults, readers: Readers
) -> Iterator[Difference | UnreadData]:
    if session.origin.startswith("import:"):
        yield from _imported(session, runs, results, readers)
        return
    for run in runs:
        raw = {name: results.raw(digest) for name, digest in run.raw.items()}
        found = reparse_run(run, raw, readers.benchmarks)
        name = f"{run.session}/{run.number}"
        if found.unread is not None and found.unread.startswith(BROKEN):
            yield Difference(kind="measurement", where=f"{name}, {run.benchmark}", told=found.unread)
        elif found.unread is not None:
            yield UnreadData(run=name, reason=found.unread)
        for change in found.changes:
            yield Difference(kind="measurement", where=f"{name}, {run.benchmark}", told=change)


def _imported(
    session: StoredSession, runs: tuple[StoredRun, ...], results: BundleResults, readers: Readers
) -> Iterator[Difference | UnreadData]:
    """Re-read the runs of another tool from the imported file, which is stored with the first run."""
    digest = next((run.raw["file"] for run in runs if "file" in run.raw), None)
    document = session.document
    if digest is None or "options" not in document:
        for run in runs:
            yield UnreadData(run=f"{run.session}/{run.number}", reason="the imported file is missing")
        return
    try:
        wanted = ImportRequest(
            options=msgspec.convert(document["options"], ImportOptions), as_format=document["format"]
        )
        read = read_results(ForeignFile(document["file"], results.raw(digest)), wanted, readers.importers)
    except (BadInput, msgspec.ValidationError, KeyError) as error:
        told = f"cannot read the imported file: {in_lower_case(str(error))}"
        yield Difference(kind="measurement", where=f"{session.session}, its file", told=told)
        return
    numbered = {run.number: run for run in read.runs}
    for run in runs:
        where = f"{run.session}/{run.number}, {run.benchmark}"
        for told in _foreign_changes(run, numbered.get(run.number), whole=not results.is_scrubbed(session.session)):
            yield Difference(kind="measurement", where=where, told=told)


def _foreign_changes(run: StoredRun, now: ForeignRun | None, *, whole: bool) -> Iterator[str]:
    """Yield how a run differs from the file.

    With `whole`, also compare attributes, in which names may have been replaced.
    """
    if now is None:
        yield "the file does not contain this run"
        return
    kept = {one.outcome: (one.value, one.unit, one.direction, one.original) for one in run.measurements}
    told = {one.outcome: (one.value, one.unit, one.direction, one.original) for one in now.measurements}
    for outcome in dict.fromkeys((*kept, *told)):
        if kept.get(outcome) != told.get(outcome):
            yield f"{outcome}: stored {kept.get(outcome, 'nothing')}, the file has {told.get(outcome, 'nothing')}"
    document, again = dict(run.document or {}), document_of(now)
    for name in ("block", "part_of", "failure", "attributes", "in_order") if whole else ():
        if document.get(name) != again.get(name):
            yield f"{name}: stored {document.get(name)}, the file has {again.get(name)}"


def _comparison(
    published: Comparison, results: BundleResults, readers: Readers
) -> tuple[list[Difference], Comparison | None]:
    question = question_of(published)
    found = []
    if question.sha256 != published.asked_sha256:
        told = f"the question was changed: its digest is {question.sha256}, but {published.asked_sha256} is stored"
        found.append(Difference(kind="question", where="the question", told=told))
    digests = {file.path: file.sha256 for source in question.sources for file in source.files}
    try:
        again = readers.again(published, results, lambda path: results.raw(digests[path]))
    except KtrialError as error:
        told = f"cannot recompute the comparison: {error.message}"
        return [*found, Difference(kind="comparison", where="the comparison", told=told)], None
    return [*found, *comparison_differences(published, again)], again

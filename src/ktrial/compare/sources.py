# SPDX-License-Identifier: Apache-2.0
"""Resolution of command-line words (labels, sessions, result files) to the arms of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from ktrial.compare.arms import Arm, ComparedRun
from ktrial.compare.runs import from_file, from_store
from ktrial.judge.model.query import AskedFile, AskedSource, ImportOptions
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.results.foreign import Importer, slug, stem
from ktrial.results.import_file import ForeignFile, ImportRequest, read_results
from ktrial.results.model import StoredSession
from ktrial.results.ports import ReadResults

#: With more arms than this, a column probably names runs, not configurations.
MOST_ARMS = 50
_BEGIN = "begin"
#: The benchmark of tables that name none, if each arm has files with other names.
_TABLE = "table"


class ComparedSource(msgspec.Struct, frozen=True, kw_only=True):
    """One word of the command line: `name` is the arm, if given; `files` are the files that it stands for, if any."""

    word: str
    name: str | None
    target: str
    files: tuple[str, ...] = ()


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read files, and the importers for them."""

    options: ImportOptions
    as_format: str | None
    importers: Mapping[str, Importer]
    read: Callable[[str], bytes]


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """The arms in the order of the words, the sources that each word resolved to, and the sessions of trials."""

    arms: tuple[Arm, ...]
    sources: tuple[AskedSource, ...]
    of_trials: tuple[str, ...] = ()


def gather(sources: Sequence[ComparedSource], results: Callable[[], ReadResults], reading: ReadingOptions) -> Gathered:
    """Return the arms that `sources` name. `results` opens the store, and is called only if a source needs it."""
    found: dict[str, Arm] = {}
    given: dict[str, ComparedSource] = {}
    resolved: list[AskedSource] = []
    of_trials: list[str] = []
    collisions: list[tuple[str, ComparedSource, ComparedSource]] = []
    whole = True
    for source in sources:
        if source.files:
            arms, files = _of_files(source.name, source.files, reading)
            resolved.append(AskedSource(name=source.name, files=tuple(files)))
        else:
            arms = _of_store(source, results())
            of_trial = is_of_trial(arms)
            resolved.append(AskedSource(name=None if of_trial else arms[0].name, sessions=arms[0].sources))
            of_trials += arms[0].sources if of_trial else ()
        for arm in arms:
            earlier = given.get(arm.name)
            named = earlier is not None and source.name == earlier.name == arm.name
            if earlier is not None and not named and not is_of_trial((arm, found[arm.name])):
                collisions.append((arm.name, source, earlier))
            given[arm.name] = source
        whole = whole and len(arms) == 1
        _add(found, arms, source.word)
    if collisions and not (whole and len(found) > 1 and all(source.files for source in sources)):
        raise _collision(*collisions[0])
    return Gathered(
        arms=_of_one_benchmark(found.values(), reading), sources=tuple(resolved), of_trials=tuple(of_trials)
    )


def gather_again(sources: Sequence[AskedSource], results: ReadResults, reading: ReadingOptions) -> tuple[Arm, ...]:
    """Return the arms of a stored question. Raise UnknownName if a session is not in `results`."""
    found: dict[str, Arm] = {}
    there = {one.session: one for one in results.sessions()}
    for source in sources:
        for name in source.sessions:
            if name not in there:
                raise UnknownName("session", name, there, hint="import a bundle that contains this session")
        if source.files:
            arms, _ = _of_files(source.name, [one.path for one in source.files], reading)
        else:
            arms = _of_sessions(source.name or "", [there[name] for name in source.sessions], results)
        _add(found, arms, source.name or "a file")
    return _of_one_benchmark(found.values(), reading)


def _of_one_benchmark(arms: Iterable[Arm], reading: ReadingOptions) -> tuple[Arm, ...]:
    """Give tables that name no benchmark a common name, unless two arms already share a name from their files."""
    made = tuple(arms)
    held = [{run.benchmark for run in arm.runs if _is_of_table(run, reading)} for arm in made]
    count = Counter(name for names in held for name in names)
    if not count or max(count.values()) > 1 or sum(map(bool, held)) < 2:
        return made
    return tuple(
        msgspec.structs.replace(
            arm,
            runs=tuple(
                msgspec.structs.replace(run, benchmark=_TABLE) if _is_of_table(run, reading) else run
                for run in arm.runs
            ),
        )
        for arm in made
    )


def _is_of_table(run: ComparedRun, reading: ReadingOptions) -> bool:
    file = run.name.rpartition("#")[0]
    return reading.options.benchmark is None and bool(reading.options.values) and run.benchmark == slug(stem(file))


def _add(found: dict[str, Arm], arms: Sequence[Arm], word: str) -> None:
    for arm in arms:
        found[arm.name] = _join_arms(found[arm.name], arm) if arm.name in found else arm
    if len(found) > MOST_ARMS:
        raise BadInput(
            f"with {word} there are {len(found)} groups, too many for one comparison (maximum {MOST_ARMS})",
            hint="name fewer sessions and files; in a table, use --where, or --by with a column that has fewer values",
        )


def pick_control(arms: Sequence[Arm], wanted: str | None) -> tuple[Arm, tuple[Arm, ...]]:
    """Return the control (the arm `wanted`, by default the first) and all other arms.

    Raise BadInput for an unknown name, or if there is only one arm.
    """
    names = [arm.name for arm in arms]
    if wanted is not None and wanted not in names:
        raise UnknownName("arm", wanted, names, hint=f"use one of: {', '.join(names)}")
    if len(arms) < 2:
        what = f"there is only one group, {names[0]}" if names else "there are no groups"
        raise BadInput(
            f"{what}; a comparison needs two",
            hint="name a second label, session or file, or split a table with --by COLUMN or --groups COLUMN,COLUMN",
        )
    control = next(arm for arm in arms if arm.name == wanted) if wanted is not None else arms[0]
    return control, tuple(arm for arm in arms if arm is not control)


def _collision(name: str, source: ComparedSource, earlier: ComparedSource) -> BadInput:
    """Return the error for two words whose arms have the same name, which the user did not choose."""
    return BadInput(
        f"both {earlier.word} and {source.word} have the label {name!r}",
        hint=f"choose a name for each: first={earlier.target} second={source.target} (equal names merge the data)",
    )


def _of_files(name: str | None, paths: Sequence[str], reading: ReadingOptions) -> tuple[list[Arm], list[AskedFile]]:
    """Return the groups of the files, merged under one name if given, and the files read."""
    groups: dict[str, list[ComparedRun]] = {}
    files: dict[str, list[str]] = {}
    missing: dict[str, dict[str, str]] = {}
    told: list[AskedFile] = []
    options = reading.options
    if name is not None:
        options = msgspec.structs.replace(options, label=name)
    for path in paths:
        file = ForeignFile(path, reading.read(path))
        digest = file.sha256
        told.append(AskedFile(path=path, sha256=digest))
        read = read_results(file, ImportRequest(options=options, as_format=reading.as_format), reading.importers)
        for run in read.runs:
            groups.setdefault(run.group, []).append(from_file(path, digest, run))
            files.setdefault(run.group, [])
            if path not in files[run.group]:
                files[run.group].append(path)
        for group, holes in read.missing.items():
            missing.setdefault(group, {}).update(holes)
    return [
        Arm(name=name, sources=tuple(files[name]), runs=tuple(runs), missing=missing.get(name, {}))
        for name, runs in groups.items()
    ], told


def _of_store(source: ComparedSource, results: ReadResults) -> list[Arm]:
    chosen = _sessions(source.target, results.sessions())
    arms = _of_sessions(source.name or source.target, chosen[::-1], results)
    if not any(arm.runs for arm in arms):
        raise BadInput(f"{source.target} has no finished run", hint=f"run `ktrial show {chosen[0].session}`")
    if source.name is not None and is_of_trial(arms):
        raise BadInput(
            f"{source.word}: {source.target} is a trial, whose arms already have names",
            hint=f"write {source.target} without a name before it",
        )
    return arms


def is_of_trial(arms: Sequence[Arm]) -> bool:
    return all(run.trial_arm is not None for arm in arms for run in arm.runs)


def _of_sessions(name: str, sessions: Sequence[StoredSession], results: ReadResults) -> list[Arm]:
    """Return the runs of `sessions` as one arm `name` or, for sessions of a trial, as the arms of that trial."""
    made = (from_store(session, run) for session in sessions for run in results.runs(session.session))
    runs = [run for run in made if run is not None]
    whole = Arm(
        name=name,
        sources=tuple(session.session for session in sessions),
        runs=tuple(runs),
        states=tuple(_states(sessions[::-1], results)),
        missing={name: str(why) for one in sessions for name, why in (one.document.get("missing") or {}).items()},
    )
    if not runs or not is_of_trial([whole]):
        return [whole]
    voided = {run.block for run in runs if run.void}
    kept = [msgspec.structs.replace(run, void=run.block in voided) for run in runs]
    names = dict.fromkeys(str(run.trial_arm) for run in kept)
    return [
        Arm(name=arm, sources=whole.sources, runs=tuple(run for run in kept if run.trial_arm == arm)) for arm in names
    ]


def _sessions(word: str, sessions: Sequence[StoredSession]) -> list[StoredSession]:
    """Return the sessions labelled `word`, newest first; without any, the one session whose name begins with `word`."""
    labelled = [one for one in sessions if one.label == word]
    if labelled:
        return labelled
    named = [one for one in sessions if one.session == word] or [
        one for one in sessions if one.session.startswith(word)
    ]
    if len(named) == 1:
        return named
    labels = list(dict.fromkeys(one.label for one in sessions if one.label is not None))
    if named:
        raise BadInput(
            f"{len(named)} sessions begin with {word!r}",
            hint=f"write more of the name: {', '.join(one.session for one in named)}",
        )
    shown = f"use one of: {', '.join(labels)}" if labels else "run `ktrial bench --label NAME` or `ktrial import FILE`"
    raise UnknownName("label, session or file", word, labels, hint=shown)


def _states(sessions: Iterable[StoredSession], results: ReadResults) -> Iterator[bytes]:
    """Yield the machine's state from the beginning of the first session for which it is stored."""
    for session in sessions:
        digest = results.states(session.session).get(_BEGIN)
        if digest is not None:
            yield results.raw(digest)
            return


def _join_arms(one: Arm, other: Arm) -> Arm:
    return Arm(
        name=one.name,
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
        runs=(*one.runs, *other.runs),
        states=one.states or other.states,
        missing={**one.missing, **other.missing},
    )

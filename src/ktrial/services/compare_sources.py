# SPDX-License-Identifier: Apache-2.0
"""The arms of a comparison, from the words of a command line: labels and sessions of the store, and result files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from ktrial.domain.compared import Arm, ComparedRun
from ktrial.domain.errors import BadInput, UnknownName
from ktrial.domain.foreign import Importer, ImportOptions
from ktrial.domain.stored import StoredSession
from ktrial.services.bring_in import ForeignFile, Wanted, read_results
from ktrial.services.compared_runs import from_file, from_store
from ktrial.services.results import Results

#: More arms than these are a column that names runs, not configurations.
MOST_ARMS = 50
_BEGIN = "begin"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One word: `name` is the arm it is for where one was given, `files` are what it stands for on the disk, if any."""

    word: str
    name: str | None
    target: str
    files: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How files are read, and what reads them."""

    options: ImportOptions
    as_format: str | None
    importers: Mapping[str, Importer]
    read: Callable[[str], bytes]


def gather(sources: Sequence[Source], results: Callable[[], Results], reading: Reading) -> tuple[Arm, ...]:
    """The arms in the order of the words. `results` is asked for only when a word needs the store."""
    found: dict[str, Arm] = {}
    given: dict[str, Source] = {}
    for source in sources:
        arms = _of_files(source, reading) if source.files else [_of_store(source, results())]
        for arm in arms:
            _check_collision(arm.name, source, given.get(arm.name))
            given[arm.name] = source
            found[arm.name] = _joined(found[arm.name], arm) if arm.name in found else arm
        if len(found) > MOST_ARMS:
            raise BadInput(
                f"{source.word} makes {len(arms)} arms, and more than {MOST_ARMS} are not compared",
                hint="does --by name a column that is another one in each row? name the one of the configurations",
            )
    return tuple(found.values())


def pick_control(arms: Sequence[Arm], wanted: str | None) -> tuple[Arm, tuple[Arm, ...]]:
    """The control (the first arm, unless one is named) and all others."""
    names = [arm.name for arm in arms]
    if wanted is not None and wanted not in names:
        raise UnknownName("arm", wanted, names, hint=f"there are {', '.join(names)}")
    if len(arms) < 2:
        what = f"there is only one group, {names[0]}" if names else "there is no group"
        raise BadInput(
            f"{what}; a comparison needs two",
            hint="name another label, session or file, or the column that names the groups: --by COLUMN",
        )
    control = next(arm for arm in arms if arm.name == wanted) if wanted is not None else arms[0]
    return control, tuple(arm for arm in arms if arm is not control)


def _check_collision(name: str, source: Source, earlier: Source | None) -> None:
    """Two words make one arm only when the user has given both the same name."""
    if earlier is None or (source.name == name and earlier.name == name):
        return
    raise BadInput(
        f"both {earlier.word} and {source.word} have the label {name!r}",
        hint=f"name them: first={earlier.target} second={source.target}, or give both one name to take them together",
    )


def _of_files(source: Source, reading: Reading) -> list[Arm]:
    """The groups of the files; all under one name where that was given."""
    groups: dict[str, list[ComparedRun]] = {}
    files: dict[str, list[str]] = {}
    options = reading.options
    if source.name is not None:
        options = msgspec.structs.replace(options, label=source.name)
    for path in source.files:
        file = ForeignFile(path, reading.read(path))
        read = read_results(file, Wanted(options=options, as_format=reading.as_format), reading.importers)
        for run in read.runs:
            groups.setdefault(run.group, []).append(from_file(path, file.sha256, run))
            files.setdefault(run.group, [])
            if path not in files[run.group]:
                files[run.group].append(path)
    return [Arm(name=name, sources=tuple(files[name]), runs=tuple(runs)) for name, runs in groups.items()]


def _of_store(source: Source, results: Results) -> Arm:
    sessions = results.sessions()
    chosen = _sessions(source.target, sessions)
    runs: list[ComparedRun] = []
    for session in reversed(chosen):
        for stored in results.runs(session.session):
            run = from_store(session, stored)
            if run is not None:
                runs.append(run)
    if not runs:
        raise BadInput(f"{source.target} has no run that ended", hint=f"`ktrial show {chosen[0].session}` tells why")
    names = tuple(session.session for session in reversed(chosen))
    states = tuple(_states(chosen, results))
    return Arm(name=source.name or source.target, sources=names, runs=tuple(runs), states=states)


def _sessions(word: str, sessions: Sequence[StoredSession]) -> list[StoredSession]:
    """Those with this label, else the one that is called so; the newest first."""
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
        raise UnknownName("session", word, [one.session for one in named])
    shown = ", ".join(labels) if labels else "none: `ktrial bench --label NAME` measures, `ktrial import` brings in"
    raise UnknownName("label, session or file", word, labels, hint=f"labels: {shown}")


def _states(sessions: Iterable[StoredSession], results: Results) -> Iterator[bytes]:
    """States of the machine at the begin of sessions, the first that has one."""
    for session in sessions:
        digest = results.states(session.session).get(_BEGIN)
        if digest is not None:
            yield results.raw(digest)
            return


def _joined(one: Arm, other: Arm) -> Arm:
    return Arm(
        name=one.name,
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
        runs=(*one.runs, *other.runs),
        states=one.states or other.states,
    )

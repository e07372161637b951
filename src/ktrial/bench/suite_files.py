# SPDX-License-Identifier: Apache-2.0
"""Reads suites and users' own benchmarks from TOML files and checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ktrial.bench.benchmark import Benchmark
from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.suite import Suite, SuiteEntry, check_entry, parse_cpus, parse_sample_period
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.kit.toml import locate
from ktrial.kit.toml_files import BUILT_IN, read_listed
from ktrial.machine.gates import parse_gates

_STRESSORS = ("cpu", "matrix", "vm", "pipe", "context", "switch", "mutex", "futex")


class Faulty(msgspec.Struct, frozen=True):
    """A file that cannot be used, and the name of the suite or benchmark that was meant."""

    name: str
    error: BadInput


def load_benchmarks(
    folders: Iterable[Path], known: Mapping[str, Benchmark], faults: list[Faulty] | None = None
) -> dict[str, Benchmark]:
    """`known` and the users' own ones, of `benchmarks/*.toml` in each folder; one per file.

    What is wrong with a file goes to `faults`, and the others are read; without that it is raised.
    """
    found = dict(known)
    for path in _files("benchmarks", folders):
        try:
            own = _own_benchmark(path, found)
        except BadInput as error:
            _note(path, error, faults)
        else:
            found[own.name] = own
    return found


def load_suites(
    folders: Iterable[Path], benchmarks: Mapping[str, Benchmark], faults: list[Faulty] | None = None
) -> dict[str, Suite]:
    """Return the built-in suites and those of `suites/*.toml` in each folder.

    What is wrong with a file goes to `faults`, and the others are read; without that it is raised.
    """
    unusable = {one.name: one.error for one in faults or ()}
    suites: dict[str, Suite] = {}
    for path in _files("suites", (BUILT_IN, *folders)):
        try:
            suite = read_listed(path, Suite)
            _check(suite, path, benchmarks, unusable)
            if suite.name in suites:
                raise _name_taken(path, f"a suite called {suite.name} exists already")
        except BadInput as error:
            _note(path, error, faults)
        else:
            suites[suite.name] = suite
    return suites


def _files(kind: str, folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted((folder / kind).glob("*.toml"))]


def _own_benchmark(path: Path, found: Mapping[str, Benchmark]) -> OwnBenchmark:
    own = read_listed(path, OwnBenchmark)
    for where, error in own.faults():
        line, column = locate(path.read_text(encoding="utf-8"), where, "")
        raise BadInput(error.message, file=str(path), line=line, column=column, hint=error.hint)
    if own.name in found:
        raise _name_taken(path, f"a benchmark called {own.name} exists already")
    return own


def _name_taken(path: Path, message: str) -> BadInput:
    line, column = locate(path.read_text(encoding="utf-8"), "$.name", "")
    return BadInput(message, file=str(path), line=line, column=column, hint="rename it")


def _note(path: Path, error: BadInput, faults: list[Faulty] | None) -> None:
    if faults is None:
        raise error
    faults.append(Faulty(_declared_name(path), error))


def _declared_name(path: Path) -> str:
    """Return the name that stands in the file; the file's own where that cannot be read."""
    try:
        name = read_listed(path, dict).get("name")
    except BadInput:
        name = None
    return name if isinstance(name, str) else path.stem


def _check(suite: Suite, path: Path, benchmarks: Mapping[str, Benchmark], unusable: Mapping[str, BadInput]) -> None:
    if not suite.benchmark:
        raise BadInput(f"the suite {suite.name} has no [[benchmark]]", file=str(path), line=1, column=1)
    labels: set[str] = set()
    for number, entry in enumerate(suite.benchmark):
        key = "use"
        try:
            if entry.use in unusable and entry.use not in benchmarks:
                raise BadInput(f"its benchmark {entry.use} cannot be used", hint=unusable[entry.use].message)
            if entry.use not in benchmarks:
                raise UnknownName("benchmark", entry.use, benchmarks, hint="`ktrial bench --list` lists them")
            key = "parameters"
            check_entry(entry, benchmarks[entry.use])
            key = "cpus"
            _check_cpus(entry)
            key = "name"
            if entry.label in labels:
                raise BadInput(f"{entry.label} stands twice in {suite.name}", hint='give one of them a  name = "…"')
        except KtrialError as error:
            line, column = locate(path.read_text(encoding="utf-8"), f"$.benchmark[{number}].{key}", "")
            raise BadInput(error.message, file=str(path), line=line, column=column, hint=error.hint) from None
        labels.add(entry.label)
    _check_load(suite, path)
    _check_conditions(suite, path)


def _check_cpus(entry: SuiteEntry) -> None:
    if entry.cpus is not None and entry.cpus not in {"little", "big"}:
        parse_cpus(entry.cpus)


def _check_conditions(suite: Suite, path: Path) -> None:
    where = "$.sample_period"
    try:
        parse_sample_period(suite.sample_period)
        for name, value in suite.gates.items():
            where = f"$.gates.{name}"
            parse_gates({name: value})
    except KtrialError as error:
        line, column = locate(path.read_text(encoding="utf-8"), where, "")
        raise BadInput(error.message, file=str(path), line=line, column=column, hint=error.hint) from None


def _check_load(suite: Suite, path: Path) -> None:
    load = suite.load
    if load is None:
        return
    text = path.read_text(encoding="utf-8")
    if not 0 < load.share <= 8:
        line, column = locate(text, "$.load.share", "")
        raise BadInput(
            f"share = {load.share:g} is out of range", file=str(path), line=line, column=column, hint="0.5 is half"
        )
    if load.stressor not in _STRESSORS:
        line, column = locate(text, "$.load.stressor", "")
        raise BadInput(
            f"stressor {load.stressor!r} cannot be the load",
            file=str(path),
            line=line,
            column=column,
            hint=f"it takes {', '.join(_STRESSORS)}",
        )

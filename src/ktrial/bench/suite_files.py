# SPDX-License-Identifier: Apache-2.0
"""Suites and users' own benchmarks, read from TOML files and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ktrial.bench.benchmark import Benchmark
from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.suite import Suite, parse_sample_period
from ktrial.bench.suites import check_entry, parse_cpus
from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.kit.toml import locate
from ktrial.kit.toml_files import BUILT_IN, read_listed
from ktrial.machine.gates import parse_gates

_STRESSORS = ("cpu", "matrix", "vm", "pipe", "context", "switch", "mutex", "futex")


class Faulty(msgspec.Struct, frozen=True):
    """An unusable file, with the name of its suite or benchmark."""

    name: str
    error: BadInput


def load_benchmarks(
    folders: Iterable[Path], known: Mapping[str, Benchmark], faults: list[Faulty] | None = None
) -> dict[str, Benchmark]:
    """Return `known` and the users' own benchmarks from `benchmarks/*.toml` in each folder, one per file.

    Unusable files go to `faults`. Without `faults`, the first unusable file raises its error.
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
    """Return the built-in suites, and the suites from `suites/*.toml` in each folder.

    Unusable files go to `faults`, as in `load_benchmarks`.
    """
    unusable = {one.name: one.error for one in faults or ()}
    suites: dict[str, Suite] = {}
    for path in _files("suites", (BUILT_IN, *folders)):
        try:
            suite = read_listed(path, Suite)
            _check(suite, path, benchmarks, unusable)
            if suite.name in suites:
                raise _located(path, "$.name", BadInput(f"suite {suite.name} already exists", hint="rename this suite"))
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
        raise _located(path, where, error)
    if own.name in found:
        raise _located(path, "$.name", BadInput(f"benchmark {own.name} already exists", hint="rename this benchmark"))
    return own


def _located(path: Path, where: str, error: KtrialError) -> BadInput:
    """Return the error with the line and column of `where`, a key such as `$.name`."""
    line, column = locate(path.read_text(encoding="utf-8"), where, "")
    return BadInput(error.message, file=str(path), line=line, column=column, hint=error.hint)


def _note(path: Path, error: BadInput, faults: list[Faulty] | None) -> None:
    if faults is None:
        raise error
    faults.append(Faulty(_declared_name(path), error))


def _declared_name(path: Path) -> str:
    """Return the name stated in the file, or the file's own name if the file is invalid."""
    try:
        name = read_listed(path, dict).get("name")
    except BadInput:
        name = None
    return name if isinstance(name, str) else path.stem


def _check(suite: Suite, path: Path, benchmarks: Mapping[str, Benchmark], unusable: Mapping[str, BadInput]) -> None:
    if not suite.benchmark:
        raise BadInput(
            f"suite {suite.name} has no [[benchmark]]",
            file=str(path),
            line=1,
            column=1,
            hint='add  [[benchmark]]  with  use = "NAME"; `ktrial bench --list` lists the names',
        )
    labels: set[str] = set()
    for number, entry in enumerate(suite.benchmark):
        key = "use"
        try:
            if entry.use in unusable and entry.use not in benchmarks:
                fault = unusable[entry.use]
                raise BadInput(f"cannot use benchmark {entry.use} ({fault.message})", hint=fault.hint)
            if entry.use not in benchmarks:
                raise UnknownName(
                    "benchmark", entry.use, benchmarks, hint="run `ktrial bench --list` to list benchmarks"
                )
            key = "parameters"
            check_entry(entry, benchmarks[entry.use])
            key = "cpus"
            if entry.cpus is not None and entry.cpus not in {"little", "big"}:
                parse_cpus(entry.cpus)
            key = "name"
            if entry.label in labels:
                raise BadInput(
                    f"benchmark {entry.label} appears twice in suite {suite.name}",
                    hint='write another  name = "…"  into this [[benchmark]]',
                )
        except KtrialError as error:
            raise _located(path, f"$.benchmark[{number}].{key}", error) from None
        labels.add(entry.label)
    _check_load(suite, path)
    _check_conditions(suite, path)


def _check_conditions(suite: Suite, path: Path) -> None:
    where = "$.sample_period"
    try:
        parse_sample_period(suite.sample_period)
        for name, value in suite.gates.items():
            where = f"$.gates.{name}"
            parse_gates({name: value})
    except KtrialError as error:
        raise _located(path, where, error) from None


def _check_load(suite: Suite, path: Path) -> None:
    load = suite.load
    if load is None:
        return
    if not 0 < load.share <= 8:
        wrong = BadInput(
            f"expected a share above 0 and at most 8, got {load.share:g}",
            hint="for example  share = 0.5, which is half of the CPUs",
        )
        raise _located(path, "$.load.share", wrong)
    if load.stressor not in _STRESSORS:
        wrong = BadInput(f"unknown stressor {load.stressor!r}", hint=f"use one of {', '.join(_STRESSORS)}")
        raise _located(path, "$.load.stressor", wrong)

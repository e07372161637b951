# SPDX-License-Identifier: Apache-2.0
"""Turn suites, and the words of a command line, into the benchmarks to measure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.bench.benchmark import CPU_PARAMETERS, JOBS_PARAMETER, Benchmark
from ktrial.bench.suite import Suite, SuiteEntry, Task
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.facts import FactBook

_WORDS: Mapping[str, bool] = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
#: The largest CPU number that Linux allows.
_LAST_CPU = 8191
_CPUS = "use numbers such as 0,2-3, or little or big"
#: A whole number that grows with the machine: all usable CPUs or a fraction of them, at least one.
_SIZED = re.compile(r"cpus(?:/([1-9][0-9]{0,3}))?")


def find_suite(name: str, suites: Mapping[str, Suite], benchmarks: Mapping[str, Benchmark]) -> Suite:
    """Return the suite `name`, or a suite of the benchmark `name` alone. Raise UnknownName if neither exists."""
    if name in suites:
        return suites[name]
    if name in benchmarks:
        return Suite(name=name, summary=benchmarks[name].what, benchmark=(SuiteEntry(name),))
    raise UnknownName("suite or benchmark", name, [*suites, *benchmarks], hint="run `ktrial bench --list` to list both")


def with_parameters(suite: Suite, benchmarks: Mapping[str, Benchmark], given: Sequence[str]) -> Suite:
    """Return the suite with the parameters in `given`, written as NAME=VALUE or BENCHMARK:NAME=VALUE.

    If the suite has several benchmarks, each text must name its BENCHMARK.
    """
    entries = {entry.label: entry for entry in suite.benchmark}
    for text in given:
        left, equals, value = text.partition("=")
        label, colon, name = left.rpartition(":")
        if not equals or not name:
            lacks = "no name before =" if equals else "no ="
            raise BadInput(f"cannot read -p {text!r}: {lacks}", hint="write NAME=VALUE or BENCHMARK:NAME=VALUE")
        if not colon and len(entries) > 1:
            able = [one for one, entry in entries.items() if name in benchmarks[entry.use].parameters] or [*entries]
            raise BadInput(f"parameter {text!r} does not name its benchmark", hint=f"for example  {able[0]}:{text}")
        label = label if colon else next(iter(entries))
        if label not in entries:
            raise UnknownName(f"benchmark of {suite.name}", label, entries, hint=f"use one of {', '.join(entries)}")
        entry = entries[label]
        known = benchmarks[entry.use].parameters
        if name not in known:
            listed = ", ".join(sorted(known))
            hint = f"use one of: {listed}" if known else f"leave out {name}: {label} has no parameters"
            raise UnknownName(f"parameter of {label}", name, known, hint=hint)
        parameters = {**entry.parameters, name: _parse_as(value, known[name], f"parameter {text!r}")}
        entries[label] = msgspec.structs.replace(entry, parameters=parameters)
        check_entry(entries[label], benchmarks[entry.use])
    return msgspec.structs.replace(suite, benchmark=tuple(entries.values()))


def _parse_as(text: str, default: Any, where: str) -> Any:
    """Convert a value to the type of the default; without a default, to a number if possible."""
    if isinstance(default, bool):
        if text.lower() not in _WORDS:
            hint = f"leave out the parameter to use the default, {str(default).lower()}"
            raise BadInput(f"{where}: expected true or false, got {text!r}", hint=hint)
        return _WORDS[text.lower()]
    if isinstance(default, str):
        return text
    if isinstance(default, list | tuple):
        return [_parse_as(part, default[0] if default else None, where) for part in text.split(",")]
    kinds: tuple[type[int] | type[float], ...] = (int, float) if default is None else (type(default),)
    for kind in kinds:
        try:
            number = kind(text)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    if default is None:
        return text
    raise BadInput(
        f"{where}: expected a {'whole ' if isinstance(default, int) else ''}number, got {text!r}",
        hint=f"write a number, such as the default {default}",
    )


def check_entry(entry: SuiteEntry, benchmark: Benchmark) -> None:
    """Raise BadInput for an unknown parameter, or a value that is not finite or has the wrong type."""
    for name, value in entry.parameters.items():
        if name not in benchmark.parameters:
            known = ", ".join(sorted(benchmark.parameters))
            hint = f"use one of: {known}" if known else f"leave out {name}: {entry.use} has no parameters"
            raise BadInput(f"{entry.use} has no parameter {name!r}", hint=hint)
        default = benchmark.parameters[name]
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(
                f"{entry.use}: expected a finite number for {name}, got {value!r}",
                hint=f"leave out {name} to use its default",
            )
        if default is not None and not _same_kind(value, default) and not _grows(value, default):
            raise BadInput(
                f"{entry.use}: {name} = {value!r} has another type than the default {default!r}",
                hint=f"leave out {name} to use the default",
            )


def sized(parameters: Mapping[str, Any], defaults: Mapping[str, Any], cpus: int | None) -> dict[str, Any]:
    """Replace values such as `cpus/2` by numbers. Raise BadInput for such a value if `cpus` is None."""
    return {
        name: _on(value, cpus) if _grows(value, defaults.get(name)) else value for name, value in parameters.items()
    }


def _grows(value: Any, default: Any) -> bool:
    is_whole = isinstance(default, int) and not isinstance(default, bool)
    return is_whole and isinstance(value, str) and _SIZED.fullmatch(value) is not None


def _on(value: str, cpus: int | None) -> int:
    match = _SIZED.fullmatch(value)
    if cpus is None or match is None:
        raise BadInput(
            f"cannot compute {value}: the number of CPUs is unknown", hint=f"write a number in place of {value}"
        )
    return max(1, cpus // int(match[1] or 1))


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    if isinstance(default, list | tuple):
        return isinstance(value, list | tuple)
    return isinstance(value, type(default))


def tasks_of(
    suite: Suite,
    benchmarks: Mapping[str, Benchmark],
    facts: FactBook,
    cpus: str | None,
    unplaced: dict[str, BadInput] | None = None,
) -> tuple[Task, ...]:
    """Return the suite's benchmarks with all parameters; `cpus` overrides the CPUs that the suite chooses.

    A benchmark that cannot run on these CPUs goes to `unplaced`. Raise its error if no benchmark can run, or if
    `unplaced` is None.
    """
    kinds = {"little": facts.value("cpu.efficiency_cores"), "big": facts.value("cpu.performance_cores")}
    online = facts.value("cpu.online")
    tasks = []
    for entry in suite.benchmark:
        benchmark = benchmarks[entry.use]
        pinned = cpus if cpus is not None else entry.cpus
        chosen = parse_cpus(pinned, kinds) if pinned is not None else None
        _check_online(chosen, pinned, online)
        try:
            _check_number(benchmark, chosen, pinned, online)
            usable = len(chosen or online or ()) or facts.value("cpu.threads")
            fitted = msgspec.structs.replace(entry, parameters=sized(entry.parameters, benchmark.parameters, usable))
            parameters = _with_chosen_cpus(fitted, benchmark, chosen, pinned)
        except BadInput as error:
            if unplaced is None or len(unplaced) + 1 == len(suite.benchmark):
                raise BadInput(f"{entry.label}: {error.message}", hint=error.hint) from None
            unplaced[entry.label] = error
        else:
            tasks.append(Task(label=entry.label, benchmark=benchmark, parameters=parameters, cpus=chosen))
    return tuple(tasks)


def _with_chosen_cpus(
    entry: SuiteEntry, benchmark: Benchmark, chosen: Sequence[int] | None, said: str | None
) -> dict[str, Any]:
    """Return all parameters; parameters that place tasks on CPUs get the first `chosen` CPUs."""
    parameters = {**benchmark.parameters, **entry.parameters}
    places = [name for name in CPU_PARAMETERS if name in parameters]
    if chosen is None:
        return parameters
    if parameters.get(JOBS_PARAMETER) == 0:
        parameters[JOBS_PARAMETER] = len(chosen)
    given = [entry.parameters[name] for name in places if name in entry.parameters]
    if outside := [cpu for cpu in given if cpu not in chosen]:
        raise BadInput(
            f"its parameters name CPU {outside[0]}, which is not among cpus {said!r}",
            hint=f"choose CPUs from {said!r} for {' and '.join(places)}",
        )
    free = [cpu for cpu in chosen if cpu not in given]
    for name in places:
        if name in entry.parameters:
            continue
        if not free:
            raise _too_few(len(places), chosen, said)
        parameters[name] = free.pop(0)
    return parameters


def _check_number(
    benchmark: Benchmark, chosen: Sequence[int] | None, said: str | None, online: Sequence[int] | None
) -> None:
    if chosen is not None and len(chosen) < benchmark.least_cpus:
        raise _too_few(benchmark.least_cpus, chosen, said)
    if online is not None and len(online) < benchmark.least_cpus:
        verb = "is" if len(online) == 1 else "are"
        raise BadInput(
            f"needs {benchmark.least_cpus} CPUs, but only {len(online)} {verb} online",
            hint="choose another benchmark from `ktrial bench --list`",
        )


def _too_few(least: int, chosen: Sequence[int], said: str | None) -> BadInput:
    return BadInput(f"needs {least} CPUs, but cpus {said!r} names {len(chosen)}", hint=f"name at least {least} CPUs")


def _check_online(chosen: Sequence[int] | None, said: str | None, online: Sequence[int] | None) -> None:
    """Raise BadInput for a CPU that is offline, because the kernel would silently ignore it."""
    absent = sorted(set(chosen or ()) - set(online or ())) if online is not None else []
    if absent:
        there = ",".join(str(cpu) for cpu in (online or ())[:16]) + (",…" if len(online or ()) > 16 else "")
        raise BadInput(
            f"cpus {said!r} names CPU {absent[0]}, which is not online", hint=f"choose from the online CPUs: {there}"
        )


def parse_cpus(text: str, kinds: Mapping[str, Sequence[int] | None] | None = None) -> tuple[int, ...]:
    """Parse `0,2-3` to (0, 2, 3), or look up `little` or `big` in `kinds`. Raise BadInput for anything else."""
    if kinds is not None and text in kinds:
        found = kinds[text]
        if not found:
            raise BadInput(
                f"this machine reports no {text} cores",
                hint="give the numbers of CPUs instead, such as 0,2-3",
            )
        return tuple(found)
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadInput(f"expected a list of CPUs, got {text!r}", hint=_CPUS)
        end = int(last) if dash else int(first)
        if end > _LAST_CPU:
            raise BadInput(
                f"CPU {end} in {text!r} is above the highest possible number, {_LAST_CPU}",
                hint="choose from the CPUs that `lscpu -e` lists",
            )
        if end < int(first):
            span = part.strip()
            place = "" if span == text else f" in {text!r}"
            raise BadInput(
                f"cannot use the CPU range {span!r}{place}: it ends below its start",
                hint="write the lower number first: 0-3",
            )
        cpus.update(range(int(first), end + 1))
    return tuple(sorted(cpus))

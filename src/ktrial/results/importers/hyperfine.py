# SPDX-License-Identifier: Apache-2.0
"""hyperfine's JSON: a run for each time.

Without a label the commands of the file are compared with each other: each is a group of the benchmark `hyperfine`.
With one they are benchmarks of one group, to be compared with another file's.

The file has the time of every run, in seconds whatever hyperfine showed.
`user` and `system` are means over all runs, so they are no measurements of a run. `exit_codes` came later than `times`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import Quantity, json_document, json_list, json_quantity, json_table, unreadable
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import has_keys, measurement


class HyperfineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `exit_code` is None if it was killed; `told` says whether the file tells it at all."""

    time: Quantity
    memory: Quantity | None
    exit_code: int | None
    told: bool


class HyperfineCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command with all its runs, in order."""

    command: str
    parameters: Mapping[str, str]
    runs: tuple[HyperfineRun, ...]


def read_hyperfine(data: bytes, source: str = "hyperfine.json") -> tuple[HyperfineCommand, ...]:
    """Read the document; one that holds no times of single runs is refused."""
    document = json_document(data, source)
    results = json_list(document.get("results"), source, "'results'")
    if not results:
        raise unreadable(source, None, "'results'", "a list of commands: it is empty")
    return tuple(_command(one, f"results[{index}]", source) for index, one in enumerate(results))


def _command(value: object, at: str, source: str) -> HyperfineCommand:
    table = json_table(value, source, at)
    command = table.get("command")
    if not isinstance(command, str):
        raise unreadable(source, None, repr(command), f"{at}.command: a text")
    if "times" not in table:
        raise BadRun(
            f"{source}: {at} has no 'times': a mean of runs that are not there is no run",
            hint="export again with hyperfine --export-json, which keeps the time of each run",
        )
    times = json_list(table["times"], source, f"{at}.times")
    if not times:
        raise unreadable(source, None, "[]", f"{at}.times: a list of seconds: it is empty")
    codes = _beside(table, "exit_codes", len(times), at, source)
    memory = _beside(table, "memory_usage_byte", len(times), at, source)
    return HyperfineCommand(
        command=command,
        parameters={
            name: str(one) for name, one in json_table(table.get("parameters", {}), source, f"{at}.parameters").items()
        },
        runs=tuple(
            HyperfineRun(
                time=json_quantity(times[index], "s", source, f"{at}.times[{index}]"),
                memory=_memory(memory, index, at, source),
                exit_code=_exit_code(codes[index], f"{at}.exit_codes[{index}]", source) if codes else None,
                told=bool(codes),
            )
            for index in range(len(times))
        ),
    )


def _beside(table: Mapping[str, Any], name: str, length: int, at: str, source: str) -> list[Any]:
    """Return a list with one item for each run; empty if the file has none."""
    found = json_list(table.get(name) or [], source, f"{at}.{name}")
    if found and len(found) != length:
        raise unreadable(source, None, f"{len(found)} items", f"{at}.{name}: as many as there are times: {length}")
    return found


def _exit_code(value: object, at: str, source: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise unreadable(source, None, repr(value), f"{at}: a whole number, or null")
    return value


def _memory(memory: list[Any], index: int, at: str, source: str) -> Quantity | None:
    if not memory:
        return None
    found = json_quantity(memory[index], "count", source, f"{at}.memory_usage_byte[{index}]")
    return Quantity(found.value, f"{memory[index]} B")


NAME = "hyperfine"
WHAT = "JSON of hyperfine (--export-json)."


def sniff(head: bytes, name: str) -> bool:
    """`results` of commands."""
    return has_keys(head, "results", "command")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each time; one that did not end with status 0 is a failed one."""
    runs: list[ForeignRun] = []
    for command in read_hyperfine(data, name):
        group, benchmark = (
            (command.command, "hyperfine") if options.label is None else (options.label, slug(command.command))
        )
        for one in command.runs:
            runs.append(_run(command, one, group, benchmark, len(runs) + 1))
    notes = ["user and system time are means over all runs of a command and are left out"]
    failed = sum(run.failure is not None for run in runs)
    if failed:
        notes.append(f"{failed} of {len(runs)} runs failed and are kept as failed, without their time")
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes))


def _run(command: HyperfineCommand, one: HyperfineRun, group: str, benchmark: str, number: int) -> ForeignRun:
    failure = None
    if one.told and one.exit_code != 0:
        failure = "was killed" if one.exit_code is None else f"ended with status {one.exit_code}"
    found: tuple[ForeignMeasurement, ...] = ()
    if failure is None:
        found = (measurement("time", one.time, "s", "lower"),)
        if one.memory is not None:
            found += (measurement("max-rss", one.memory, "B", "lower"),)
    return ForeignRun(
        group=group,
        benchmark=benchmark,
        number=number,
        measurements=found,
        attributes={"command": command.command, **{f"parameter.{key}": one for key, one in command.parameters.items()}},
        failure=failure,
    )

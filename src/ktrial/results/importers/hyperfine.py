# SPDX-License-Identifier: Apache-2.0
"""hyperfine's JSON: one run per time.

Without a label, the commands of the file are compared with each other: each is a group of the benchmark `hyperfine`.
With a label, they are benchmarks of one group, which is compared with the group of another file.

The file has the time of every run in seconds. `user` and `system` are means over all runs, so they are ignored. Older
versions of hyperfine don't write `exit_codes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import (
    Quantity,
    json_document,
    json_list,
    json_quantity,
    json_table,
    unreadable,
    unreadable_value,
)
from ktrial.results.foreign import ForeignResults, ForeignRun, slug
from ktrial.results.importers._shared import has_keys, measurement


def read_hyperfine(data: bytes, source: str = "hyperfine.json", label: str | None = None) -> list[ForeignRun]:
    """Read the runs of all commands. Raise BadRun if there are no times of single runs."""
    document = json_document(data, source)
    results = json_list(document.get("results"), source, "'results'")
    if not results:
        raise unreadable(source, None, "", "a file with results: its list 'results' is empty")
    runs: list[ForeignRun] = []
    for index, one in enumerate(results):
        runs += _runs(one, f"results[{index}]", source, label, len(runs) + 1)
    return runs


def _runs(value: object, at: str, source: str, label: str | None, first: int) -> Iterator[ForeignRun]:
    """Yield the runs of one command, numbered from `first`."""
    table = json_table(value, source, at)
    command = table.get("command")
    if not isinstance(command, str):
        raise unreadable_value(source, command, f"a string ({at}.command)")
    if "times" not in table:
        raise BadRun(
            f"{source}: {at} has only a mean, and no 'times' of single runs",
            hint="export again with hyperfine --export-json, which writes the time of each run",
        )
    times = json_list(table["times"], source, f"{at}.times")
    if not times:
        raise unreadable(source, None, "", f"complete: the list {at}.times is empty")
    codes = _beside(table, "exit_codes", len(times), at, source)
    memory = _beside(table, "memory_usage_byte", len(times), at, source)
    parameters = json_table(table.get("parameters", {}), source, f"{at}.parameters")
    attributes = {"command": command, **{f"parameter.{name}": str(one) for name, one in parameters.items()}}
    for index, seconds in enumerate(times):
        found = [measurement("time", json_quantity(seconds, "s", source, f"{at}.times[{index}]"), "s", "lower")]
        if memory:
            found.append(measurement("max-rss", _memory(memory, index, at, source), "B", "lower"))
        failure = _failure(codes[index], f"{at}.exit_codes[{index}]", source) if codes else None
        yield ForeignRun(
            group=command if label is None else label,
            benchmark="hyperfine" if label is None else slug(command),
            number=first + index,
            measurements=tuple(found) if failure is None else (),
            attributes=attributes,
            failure=failure,
        )


def _beside(table: Mapping[str, Any], name: str, length: int, at: str, source: str) -> list[Any]:
    """Return a list with one item per run; empty if the file lacks it."""
    items = json_list(table.get(name) or [], source, f"{at}.{name}")
    if items and len(items) != length:
        raise unreadable(source, None, "", f"consistent: {at}.{name} has {len(items)} values for {length} times")
    return items


def _failure(code: object, at: str, source: str) -> str | None:
    """Return why a run failed, from its exit code; None if the run succeeded.

    hyperfine records null if a signal killed the run.
    """
    if code is not None and (isinstance(code, bool) or not isinstance(code, int)):
        raise unreadable_value(source, code, f"a whole number or null ({at})")
    if code == 0:
        return None
    return "was killed" if code is None else f"ended with status {code}"


def _memory(memory: list[Any], index: int, at: str, source: str) -> Quantity:
    found = json_quantity(memory[index], "count", source, f"{at}.memory_usage_byte[{index}]")
    return Quantity(found.value, f"{memory[index]} B")


NAME = "hyperfine"
WHAT = "JSON of hyperfine (--export-json)."


def sniff(head: bytes, name: str) -> bool:
    return has_keys(head, "results", "command")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return a run for each time; a run with an exit status other than 0 has failed."""
    runs = read_hyperfine(data, name, options.label)
    notes = ["user and system time are ignored: they are means over all runs of a command"]
    failed = sum(run.failure is not None for run in runs)
    if failed:
        notes.append(f"{failed} of {len(runs)} runs failed and are stored as failed, without their time")
    return ForeignResults(format=NAME, runs=tuple(runs), notes=tuple(notes))

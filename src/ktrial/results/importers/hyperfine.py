# SPDX-License-Identifier: Apache-2.0
"""hyperfine's JSON: a run for each time.

Without a label the commands of the file are compared with each other: each is a group of the benchmark `hyperfine`.
With one they are benchmarks of one group, to be compared with another file's.
"""

from __future__ import annotations

from ktrial.judge.model.asked import ImportOptions
from ktrial.results.foreign import ForeignMeasurement, ForeignResults, ForeignRun
from ktrial.results.foreign_names import slug
from ktrial.results.importers._hyperfine import HyperfineCommand, HyperfineRun, read_hyperfine
from ktrial.results.importers._shared import has_keys, measurement

NAME = "hyperfine"
WHAT = "JSON of hyperfine (--export-json)."


def sniff(head: bytes, name: str) -> bool:
    """`results` of commands."""
    return has_keys(head, "results", "command")


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """A run for each time; one that did not end with status 0 is a failed one."""
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

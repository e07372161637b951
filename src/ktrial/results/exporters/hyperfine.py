# SPDX-License-Identifier: Apache-2.0
"""hyperfine's JSON: the times of commands."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.judge.model.comparison import ArmValues, Comparison
from ktrial.kit.errors import BadInput
from ktrial.results.model import Exported, SessionRuns, StoredRun, counts

NAME = "hyperfine"
WHAT = "The JSON of hyperfine: times of commands, in seconds."
#: Outcomes that are part of a time's result and get none of their own.
_BESIDE = ("user", "system")
_MEMORY = "peak_memory"


def write(sessions: Sequence[SessionRuns]) -> Exported:
    """Return one result for each session, benchmark and outcome that is a time. Raise BadInput if there are none."""
    results: list[dict[str, Any]] = []
    dropped: dict[str, None] = {}
    bad = 0
    for one in sessions:
        bad += sum(not counts(run) for run in one.runs)
        for benchmark in dict.fromkeys(run.benchmark for run in one.runs):
            runs = [run for run in one.runs if run.benchmark == benchmark and counts(run)]
            outcomes = dict.fromkeys((kept.outcome, kept.unit) for run in runs for kept in run.measurements)
            times = [name for name, unit in outcomes if unit == "s" and name not in _BESIDE]
            results += [_result(one, benchmark, outcome, runs, alone=len(times) == 1) for outcome in times]
            included = {*times, *_BESIDE, _MEMORY} if times else set()
            dropped |= {f"{benchmark}: {name}": None for name, _ in outcomes if name not in included}
    if not results:
        raise BadInput(
            "these sessions have no times, and hyperfine's format can hold only times", hint="use --format csv"
        )
    left_out = [f"outcomes that are not times: {', '.join(dropped)}"] if dropped else []
    left_out += [f"{bad} runs that failed or do not count"] if bad else []
    left_out.append("the order of runs between commands, and everything about the machine")
    return Exported(data=json.dumps({"results": results}, indent=2).encode() + b"\n", left_out=tuple(left_out))


def arms_document(found: Comparison, commands: Mapping[str, str], parameters: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return the elapsed times of a trial whose arms are commands, as hyperfine's JSON with one result for each arm."""
    outcomes = {one.outcome: {values.arm: values for values in one.arms} for one in found.outcomes}
    results = [_arm_result(commands[arm], outcomes, arm, parameters.get(arm, {})) for arm in outcomes.get("wall", {})]
    return json.dumps({"results": results}, indent=2).encode() + b"\n"


def _arm_result(
    command: str, outcomes: Mapping[str, Mapping[str, ArmValues]], arm: str, parameters: Mapping[str, str]
) -> Any:
    wall, memory = outcomes["wall"][arm], outcomes.get(_MEMORY, {}).get(arm)
    used = {name: outcomes.get(name, {}).get(arm) for name in _BESIDE}
    result: dict[str, Any] = {
        "command": command,
        "mean": wall.mean,
        "stddev": wall.sd,
        "median": wall.median,
        **{name: None if values is None else values.mean for name, values in used.items()},
        "min": wall.minimum,
        "max": wall.maximum,
        "times": [point.value for point in wall.points],
    }
    if memory is not None:
        result["memory_usage_byte"] = [round(point.value) for point in memory.points]
    return result | ({"parameters": dict(parameters)} if parameters else {})


def _result(one: SessionRuns, benchmark: str, outcome: str, runs: Sequence[StoredRun], *, alone: bool) -> Any:
    used = [run for run in runs if _value(run, outcome) is not None]
    times = [value for run in used if (value := _value(run, outcome)) is not None]
    result = {
        "command": _command(benchmark, used[0]) if alone else f"{benchmark} {outcome}",
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": _mean(used, "user"),
        "system": _mean(used, "system"),
        "min": min(times),
        "max": max(times),
        "times": times,
    }
    codes = [((run.document or {}).get("exit") or {}).get("status") for run in used]
    if None not in codes:  # null would mean that the command was killed
        result["exit_codes"] = codes
    memory = [_value(run, _MEMORY) for run in used]
    if all(value is not None for value in memory):
        result["memory_usage_byte"] = [round(value) for value in memory if value is not None]
    label = one.session.label
    return result | {"parameters": {"session": one.session.session} if label is None else {"label": label}}


def _command(benchmark: str, run: StoredRun) -> str:
    """Return the command line of a user's command, or the name of a benchmark."""
    document = run.document or {}
    own = any(one.outcome == "wall" for one in run.measurements) and document.get("argv")
    return shlex.join(map(str, document["argv"])) if own else benchmark


def _value(run: StoredRun, outcome: str) -> float | None:
    return next((one.value for one in run.measurements if one.outcome == outcome), None)


def _mean(runs: Sequence[StoredRun], outcome: str) -> float | None:
    values = [value for run in runs if (value := _value(run, outcome)) is not None]
    return statistics.fmean(values) if len(values) == len(runs) else None

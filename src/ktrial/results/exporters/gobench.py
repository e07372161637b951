# SPDX-License-Identifier: Apache-2.0
"""Go's benchmark text, which benchstat reads: one line per run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Unit
from ktrial.results.model import Exported, SessionRuns, StoredRun, counts

NAME = "gobench"
WHAT = "Go's benchmark text, for benchstat: one line for each run."
#: Suffix of the outcome in the unit; by these endings benchstat recognises `sec`, `B` and their rates.
_ENDINGS: dict[Unit, str] = {
    "s": "-sec",
    "1/s": "/s",
    "B/s": "-B/s",
    "B": "-B",
    "count": "-count",
    "score": "",
    "ratio": "-ratio",
    "J": "-joules",
    "W": "-watts",
}
#: Names of outcomes that are units of Go already, because they were imported from this format.
_GO_UNIT = re.compile(r"sec|sec/\S+|\S+-sec|B/s|B/op|allocs/op")


def write(sessions: Sequence[SessionRuns]) -> Exported:
    """Return the good runs in order, below lines with label, suite, kernel and CPU.

    Raise BadInput if no run is good.
    """
    units: dict[str, str] = {}
    lines: list[str] = []
    bad = 0
    for one in sessions:
        good = [run for run in one.runs if counts(run) and run.measurements]
        bad += len(one.runs) - len(good)
        lines += _configuration(one)
        for run in good:
            units |= {_unit(kept.outcome, kept.unit): kept.direction for kept in run.measurements if kept.direction}
            lines.append(_line(run))
    if not any(line.startswith("Benchmark") for line in lines):
        name = sessions[0].session.session if sessions else "SESSION"
        raise BadInput("these sessions have no good run", hint=f"run `ktrial show {name}` to see why")
    head = [f"Unit {unit} better={direction}" for unit, direction in sorted(units.items())]
    left_out = [f"{bad} runs that failed or do not count"] if bad else []
    left_out.append("rounds, the numbers as printed, and everything else about runs and machine")
    return Exported(data="".join(f"{line}\n" for line in (*head, *lines)).encode(), left_out=tuple(left_out))


def _configuration(one: SessionRuns) -> Iterator[str]:
    """Yield `key: value` lines; a key without a value cancels the value of an earlier session."""
    machine = one.session.document.get("machine") or {}
    about = {
        "session": one.session.session,
        "label": one.session.label,
        "suite": one.session.suite,
        "kernel": one.session.kernel_release,
        "cpu": (machine.get("cpu.model") or {}).get("value"),
    }
    return (f"{key}: {' '.join(str(value).split())}" if value else f"{key}:" for key, value in about.items())


def _line(run: StoredRun) -> str:
    values = " ".join(f"{kept.value!r} {_unit(kept.outcome, kept.unit)}" for kept in run.measurements)
    return f"{_name(run.benchmark)} 1 {values}"


def _name(benchmark: str) -> str:
    """Return `Benchmark` and the capitalised name, as Go requires; `BenchmarkN7zip` for `7zip`."""
    plain = re.sub(r"\s+", "_", benchmark)
    return f"Benchmark{plain[:1].upper()}{plain[1:]}" if plain[:1].isalpha() else f"BenchmarkN{plain}"


def _unit(outcome: str, unit: Unit) -> str:
    plain = re.sub(r"\s+", "_", outcome)
    ending = _ENDINGS[unit]
    return plain if _GO_UNIT.fullmatch(plain) or (ending and plain.endswith(ending)) else plain + ending

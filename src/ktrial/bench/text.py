# SPDX-License-Identifier: Apache-2.0
"""Text about measurements: the line of a run, the table of results, the list of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.bench.record import RunRecord, Session, SessionSummary
from ktrial.bench.suite import Suite
from ktrial.kit.finding import LEVEL_WORDS, Finding
from ktrial.kit.tables import paragraph, table
from ktrial.machine.run_conditions import Conditions

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "1/s": ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    "B/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "count": ((1.0, ""),),
    "score": ((1.0, ""),),
    "ratio": ((0.01, "%"),),
    "J": ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW"), (1e-6, "uW")),
}


def scale_for(value: float, unit: str) -> tuple[float, str]:
    """Return a unit that suits the value, as (factor, name); for 0, the base unit."""
    scales = _SCALES[unit]
    if value == 0:
        return next((scale for scale in scales if scale[0] == 1), scales[0])
    return next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])


def number(value: float, scale: tuple[float, str]) -> str:
    """Format the value in the unit of `scale`: a whole number from 1000 on, otherwise four significant digits."""
    shown = value / scale[0]
    return f"{shown:.0f}" if abs(shown) >= 1000 else f"{shown:.4g}"


def show(value: float, unit: str) -> str:
    """Return a value with its unit: `0.0028`, "s" -> `2.8 ms`."""
    scale = scale_for(value, unit)
    return f"{number(value, scale)} {scale[1]}".rstrip()


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.1f}%"


def runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


def duration(seconds: float) -> str:
    """Return a duration as text, at least `1 s`: `75` -> `1 min 15 s`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def circumstances(session: Session, *, width: int) -> str:
    """Return the notes of a session, and the timers that may disturb the session."""
    lines = [paragraph(note, width=width) for note in session.notes]
    for one in session.disturbances:
        due = "now" if one.due_s < 1 else f"in {duration(one.due_s)}"
        lines += [paragraph(f"may disturb: {one.name} {due}", width=width), f"  stop it with: {one.stop}"]
    return "".join(f"{line}\n" for line in lines)


def run_begins(run: int, runs: int, benchmark: str, left_s: float | None, *, least: bool = False) -> str:
    """Return the first half of a run's line: the benchmark and the time left. With `least`, that time is a minimum."""
    left = "" if left_s is None else f" ({'more than ' if least else ''}{duration(left_s)} left)"
    return f"[{run:>{len(str(runs))}}/{runs}] {benchmark}{left}:"


def run_ends(record: RunRecord, so_far: Sequence[SessionSummary]) -> str:
    """Return the second half of a run's line: the run's values and the spread so far, or why the run failed."""
    if record.exit.interrupted:
        return f" {record.failure}"
    if record.void:
        return f" VOID: {'; '.join(record.void)}"
    if record.failure is not None:
        return f" FAILED: {record.failure}"
    wanted = [summary for summary in so_far if summary.headline or summary.outcome == "load.throughput"]
    last = {kept.outcome: kept for kept in record.measurements}
    chosen = [summary for summary in wanted if summary.outcome in last] or list(so_far[:1])
    parts = []
    for summary in chosen:
        kept = last.get(summary.outcome)
        if kept is None:
            continue
        spread = "" if summary.cv is None else f" (CV {percent(summary.cv)} of {summary.n})"
        parts.append(f" {summary.outcome} {show(kept.value, kept.unit)}{spread}")
    return ",".join(parts) + _conditions(record.conditions)


def _conditions(conditions: Conditions | None) -> str:
    """Return `; 48 to 63 C, 3.1 GHz`, the values before and after the run. Values that look the same appear once."""
    if conditions is None:
        return ""
    shown = []
    for name, scale, unit in (("temperature", 1.0, " C"), ("frequency", 1e9, " GHz")):
        both = [
            f"{one.value / scale:.3g}"
            for side in (conditions.before, conditions.after)
            for one in side
            if one.name == name
        ]
        shown += [" to ".join(dict.fromkeys(both)) + unit] if both else []
    return "; " + ", ".join(shown) if shown else ""


def summary_text(summaries: Sequence[SessionSummary], *, width: int) -> str:
    """Return a table with n, median, minimum, maximum and variation of each outcome; `*` marks main outcomes."""
    rows = []
    last = None
    for summary in summaries:
        scale = scale_for(summary.median, summary.unit)
        better = "less" if summary.direction == "lower" else "more"
        rows.append(
            (
                summary.benchmark if summary.benchmark != last else "",
                summary.outcome + ("*" if summary.headline else ""),
                str(summary.n),
                *(number(value, scale) for value in (summary.median, summary.minimum, summary.maximum)),
                scale[1] or summary.unit,
                percent(summary.cv),
                better,
            )
        )
        last = summary.benchmark
    headers = ("benchmark", "outcome", "n", "median", "min", "max", "unit", "CV", "better")
    return table(headers, rows, width=width) + "\n"


def findings_text(findings: Sequence[Finding], *, width: int) -> str:
    """Return a line for each doubt, the most serious first."""
    ordered = sorted(findings, key=lambda one: ("refuse", "suspect", "note").index(one.level))
    return "".join(f"{paragraph(f'{LEVEL_WORDS[one.level]}: {one.sentence}', width=width)}\n" for one in ordered)


def holes_text(wanted: int, complete: int, holes: Sequence[tuple[str, str, str | None]], *, width: int) -> str:
    """Return `partial 3/4`, then why each benchmark is incomplete and what to do next. Without `holes`, return ""."""
    if not holes:
        return ""
    lines = [f"partial {complete}/{wanted}"]
    for benchmark, why, step in holes:
        lines.append(paragraph(f"{benchmark}: {why}" + (f"; next: {step}" if step else ""), width=width, indent="  "))
    return "\n".join(lines) + "\n"


def list_text(
    available: Sequence[tuple[str, str, str | None, str | None]],
    suites: Mapping[str, Suite],
    ready: Mapping[str, bool],
    *,
    width: int,
) -> str:
    """Return tables of all benchmarks and suites: what can run here, why the others cannot, and the next steps."""
    rows = [(name, "ready" if why is None else "missing", what) for name, what, why, _ in available]
    parts = [table(("benchmark", "here", "what it measures"), rows, width=width)] if rows else []
    reasons: dict[tuple[str, str | None], list[str]] = {}
    for name, _, why, step in available:
        if why is not None:
            reasons.setdefault((why, step), []).append(name)
    parts += [
        paragraph(f"{', '.join(names)}: {why}", width=width) + (f"\n  next: {step}" if step else "")
        for (why, step), names in reasons.items()
    ]
    suite_rows = []
    for suite in suites.values():
        labels = [entry.label for entry in suite.benchmark]
        here = sum(ready[entry.use] for entry in suite.benchmark)
        load = "" if suite.load is None else " Under load."
        state = "ready" if here == len(labels) else f"{here}/{len(labels)}"
        suite_rows.append((suite.name, state, f"{suite.summary}{load}"))
    if suite_rows:
        parts.append(table(("suite", "here", "what it is"), suite_rows, width=width))
    return "\n\n".join(parts) + "\n"

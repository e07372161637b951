# SPDX-License-Identifier: Apache-2.0
"""Percentiles by their names, the events that they rest on, and how many they need."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: A percentile rests on at least so many events beyond it.
EVENTS_BEYOND = 10
#: Relative margins of outcomes that nobody gave one; tails spread more, so more of them does not matter.
MARGIN, _TAIL_MARGIN, _FAR_TAIL_MARGIN = 0.02, 0.05, 0.10
_NAMED = re.compile(
    r"(?<![a-z0-9])(?:p([0-9]{2})(?:[._]?([0-9]{1,3})(?![0-9]))?|([0-9]{2})(?:\.([0-9]{1,3}))?th)(?![0-9])"
)
#: Details of a run that count all its events.
_TOTALS = ("requests", "events", "frames")
#: Kinds of findings on a percentile whose tail holds too few events: a doubt, and that it was not taken as primary.
FEW_EVENTS, NOT_PRIMARY = "few-events", "not-primary"


def quantile_of(name: str) -> float | None:
    """0.99 of `latency-p99` and of `99th`, 0.999 of `p99_9` and `p999`; None of what names no percentile."""
    found = _NAMED.search(name.lower())
    return None if found is None else float(f"0.{found[1] or found[3]}{found[2] or found[4] or ''}")


def margin_of_tail(quantile: float | None) -> float:
    """Return the margin of an outcome that nobody gave one."""
    if quantile is None or quantile < 0.95:
        return MARGIN
    return _TAIL_MARGIN if quantile < 0.99 else _FAR_TAIL_MARGIN


def events_needed(quantile: float) -> int:
    """Return how many events a run must have for so far a percentile."""
    return math.ceil(EVENTS_BEYOND / (1 - quantile) - 1e-6)


def typical_events(arms: Iterable[Sequence[int]]) -> int | None:
    """Return events of the median run of the arm that has fewest; None if nobody counted."""
    return min((int(statistics.median(counts)) for counts in arms if counts), default=None)


def events_text(events: int, quantile: float) -> str:
    """`500 events in a run, 10,000 are needed`."""
    return f"{events:,} events in a run, {events_needed(quantile):,} are needed"


def longer(events: int, quantile: float) -> str:
    """Return how much longer runs must be."""
    return f"runs {max(1.1, math.ceil(10 * events_needed(quantile) / max(events, 1)) / 10):g} times as long"


def events_of(details: Mapping[str, Any], outcomes: Iterable[str]) -> dict[str, int]:
    """Return events that the outcomes of a run rest on, as far as its details tell: a histogram, samples, a total.

    What tells of several things by their names (`read`, `wakeup`) counts for the outcomes that begin so.
    """
    totals = _totals(details)
    found = {}
    for outcome in outcomes:
        own = [count for label, count in totals.items() if label and outcome.startswith(f"{label}-")]
        count = own[0] if own else totals.get("")
        if count is not None:
            found[outcome] = count
    return found


def _totals(details: Mapping[str, Any]) -> dict[str, int]:
    """By what they are of, under "" those of the whole run."""
    whole = next((details[name] for name in _TOTALS if isinstance(details.get(name), int)), None)
    found: dict[str, int] = {} if whole is None else {"": whole}
    for source in (details.get("histogram_ns"), details.get("samples")):
        if isinstance(source, Mapping):
            found |= _of_table(source)
    if "" in found and isinstance(details.get("beyond"), int):
        found[""] += details["beyond"]
    results = details.get("results")
    for name, count in results.items() if isinstance(results, Mapping) else ():
        if name.endswith("_count") and isinstance(count, int):
            found[name.removesuffix("_count")] = count
    return found


def _of_table(table: Mapping[str, Any]) -> dict[str, int]:
    """Counts by bin, or by what they are of; of a single thing they are those of the run."""
    parts = {label: sum(bins.values()) for label, bins in table.items() if isinstance(bins, Mapping)}
    if parts:
        return {**parts, **({"": sum(parts.values())} if len(parts) == 1 else {})}
    counts = {label: count for label, count in table.items() if isinstance(count, int)}
    if all(label.isdigit() for label in counts):
        return {"": sum(counts.values())} if counts else {}
    return counts

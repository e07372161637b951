# SPDX-License-Identifier: Apache-2.0
"""Percentiles: parse them from names, and count the events that they have and need."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: A percentile needs at least this many events beyond it.
EVENTS_BEYOND = 10
#: Default relative margins; tails spread more, so their margins are wider.
MARGIN, _TAIL_MARGIN, _FAR_TAIL_MARGIN = 0.02, 0.05, 0.10
_NAMED = re.compile(
    r"(?<![a-z0-9])(?:p([0-9]{2})(?:[._]?([0-9]{1,3})(?![0-9]))?|([0-9]{2})(?:\.([0-9]{1,3}))?th)(?![0-9])"
)
#: Details of a run that count all its events.
_TOTALS = ("requests", "events", "frames")
#: Kinds of findings on a percentile with too few events in its tail: it is doubtful, or it did not become primary.
FEW_EVENTS, NOT_PRIMARY = "few-events", "not-primary"


def quantile_of(name: str) -> float | None:
    """Return 0.99 for `latency-p99` and `99th`, 0.999 for `p99_9` and `p999`; None if it names no percentile."""
    found = _NAMED.search(name.lower())
    return None if found is None else float(f"0.{found[1] or found[3]}{found[2] or found[4] or ''}")


def margin_of_tail(quantile: float | None) -> float:
    """Return the smallest relative difference that matters by default; it is larger for tails."""
    if quantile is None or quantile < 0.95:
        return MARGIN
    return _TAIL_MARGIN if quantile < 0.99 else _FAR_TAIL_MARGIN


def events_needed(quantile: float) -> int:
    return math.ceil(EVENTS_BEYOND / (1 - quantile) - 1e-6)


def typical_events(arms: Iterable[Sequence[int]]) -> int | None:
    """Return the median number of events per run, in the arm with the fewest; None if no arm has counts."""
    return min((int(statistics.median(counts)) for counts in arms if counts), default=None)


def events_text(events: int, quantile: float) -> str:
    """Return a text such as `500 events in a run, 10,000 are needed`."""
    return f"{events:,} events in a run, {events_needed(quantile):,} are needed"


def longer(events: int, quantile: float) -> str:
    """Return in words how much longer runs must be to have enough events for the `quantile`."""
    return f"runs {max(1.1, math.ceil(10 * events_needed(quantile) / max(events, 1)) / 10):g} times as long"


def events_of(details: Mapping[str, Any], outcomes: Iterable[str]) -> dict[str, int]:
    """Return the number of events behind each outcome, from a run's `details`: a histogram, samples or a total.

    A count with a name of its own (`read`, `wakeup`) applies to the outcomes that begin with that name.
    """
    totals = _totals(details)
    counts = {}
    for outcome in outcomes:
        own = [count for label, count in totals.items() if label and outcome.startswith(f"{label}-")]
        count = own[0] if own else totals.get("")
        if count is not None:
            counts[outcome] = count
    return counts


def _totals(details: Mapping[str, Any]) -> dict[str, int]:
    """Return counts by name; the count of the whole run has the name ""."""
    whole = next((details[name] for name in _TOTALS if isinstance(details.get(name), int)), None)
    totals: dict[str, int] = {} if whole is None else {"": whole}
    for source in (details.get("histogram_ns"), details.get("samples")):
        if isinstance(source, Mapping):
            totals |= _of_table(source)
    if "" in totals and isinstance(details.get("beyond"), int):
        totals[""] += details["beyond"]
    results = details.get("results")
    for name, count in results.items() if isinstance(results, Mapping) else ():
        if name.endswith("_count") and isinstance(count, int):
            totals[name.removesuffix("_count")] = count
    return totals


def _of_table(table: Mapping[str, Any]) -> dict[str, int]:
    """Return counts by name, summed over histogram bins. A single histogram also counts for the whole run."""
    parts = {label: sum(bins.values()) for label, bins in table.items() if isinstance(bins, Mapping)}
    if parts:
        return {**parts, **({"": sum(parts.values())} if len(parts) == 1 else {})}
    counts = {label: count for label, count in table.items() if isinstance(count, int)}
    if all(label.isdigit() for label in counts):
        return {"": sum(counts.values())} if counts else {}
    return counts
